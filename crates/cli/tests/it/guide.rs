//! The guide says what the program does: pages that list things are compared with the lists.

use crate::outlast;
use std::{collections::BTreeSet, fs, path::Path};

fn page(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs::read_to_string(root.join(name)).unwrap()
}

/// Every word of a text that begins like this and goes on with such letters.
fn words(text: &str, begin: &str, goes_on: fn(char) -> bool) -> BTreeSet<String> {
    let tails = text.split(begin).skip(1);
    let words = tails.filter_map(|tail| {
        let end = tail.find(|c| !goes_on(c)).unwrap_or(tail.len());
        let tail = tail.get(..end).filter(|tail| !tail.is_empty())?;
        Some(format!("{begin}{tail}"))
    });
    words.collect()
}

fn flags(text: &str) -> BTreeSet<String> {
    words(text, "--", |c| c.is_ascii_lowercase() || c == '-')
}

/// The words that begin the lines of a list in a help text.
fn listed(help: &str, heading: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != heading).skip(1);
    let lines = lines.take_while(|line| line.starts_with(' '));
    // The description of an entry may go on, further to the right.
    let entries = lines.filter(|line| !line.starts_with("   "));
    let names = entries.filter_map(|line| line.split_whitespace().next());
    let names = names.filter(|name| *name != "help");
    names.map(str::to_owned).collect()
}

/// Every way to call the program, with its help.
fn helps() -> Vec<(Vec<String>, String)> {
    let mut found = Vec::new();
    let mut open = vec![Vec::<String>::new()];
    while let Some(command) = open.pop() {
        let mut arguments: Vec<&str> = command.iter().map(String::as_str).collect();
        arguments.push("--help");
        let help = outlast(&arguments).stdout;
        for name in ["Commands:", "Workloads:"]
            .map(|it| listed(&help, it))
            .concat()
        {
            let mut inner = command.clone();
            inner.push(name);
            open.push(inner);
        }
        found.push((command, help));
    }
    assert!(found.len() > 30, "only {} commands found", found.len());
    found
}

#[test]
fn every_flag_and_variable_is_in_the_guide() {
    let pages = page("docs/guide/configuration.md") + &page("docs/cli.md");
    let known = flags(&pages);
    let mut missing = Vec::new();
    for (command, help) in helps() {
        for flag in flags(&help) {
            if !known.contains(&flag) && flag != "--help" && flag != "--version" {
                missing.push(format!("{} {flag}", command.join(" ")));
            }
        }
        for variable in words(&help, "OUTLAST_", |c| c.is_ascii_uppercase() || c == '_') {
            if !pages.contains(&variable) {
                missing.push(variable);
            }
        }
    }
    assert!(missing.is_empty(), "not in the guide: {missing:#?}");
}

#[test]
fn the_flags_of_serve_in_the_guide_are_those_there_are() {
    let page = page("docs/guide/configuration.md");
    let part = page.split("\n## ").nth(1).unwrap();
    let rows = part.lines().filter(|line| line.starts_with("| `--"));
    let cells = rows.filter_map(|row| row.split('|').nth(1));
    let told: BTreeSet<String> = cells.flat_map(flags).collect();
    let mut there = flags(&outlast(&["serve", "--help"]).stdout);
    there.remove("--help");
    there.remove("--json");
    assert_eq!(told, there);
}

#[test]
fn every_setting_of_the_file_is_in_the_guide() {
    let guide = page("docs/guide/configuration.md");
    let source = page("crates/server/src/config.rs");
    let list = source.split("const KNOWN").nth(1).unwrap();
    let list = list.split("];").next().unwrap();
    let keys: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
    assert!(keys.len() > 30, "only {keys:?} found");
    for key in keys {
        // A table is told by its keys.
        if ["", "tls", "limits", "push"].contains(&key) {
            continue;
        }
        assert!(guide.contains(&format!("{key}`")), "not there: {key}");
    }
}

#[test]
fn the_defaults_of_the_limits_in_the_guide_are_those_there_are() {
    let page = page("docs/guide/configuration.md");
    let options = outlast_server::Options::default();
    let invocations = outlast_server::hosting::INVOCATIONS_MAX_DEFAULT;
    let seconds = |duration: std::time::Duration| duration.as_secs().to_string();
    for (key, default) in [
        ("body_bytes_max", options.body_bytes_max.to_string()),
        ("bodies_bytes_max", options.bodies_bytes_max.to_string()),
        ("connections_max", options.connections_max.to_string()),
        ("header_timeout_seconds", seconds(options.header_timeout)),
        ("body_timeout_seconds", seconds(options.body_timeout)),
        ("synchronous_seconds_max", seconds(options.synchronous_max)),
        ("background_max", options.background_max.to_string()),
        ("grace_seconds", seconds(options.grace)),
        ("invocations_max", invocations.to_string()),
    ] {
        let row = format!("| `{key}` | {default} |");
        assert!(page.contains(&row), "not in the guide: {row}");
    }
}

/// Each match of a pattern with two groups, the first and the second.
fn pairs(text: &str, pattern: &str) -> BTreeSet<(String, String)> {
    let pattern = regex_lite::Regex::new(pattern).unwrap();
    let found = pattern.captures_iter(text);
    found
        .map(|it| (it[1].to_owned(), it[2].to_owned()))
        .collect()
}

#[test]
fn every_error_of_the_api_is_in_the_guide_with_its_status() {
    let guide = page("docs/guide/errors.md");
    // The core's own test has a row for each of its codes, and the compiler sees to that.
    let core = page("crates/core/src/error.rs");
    let mut errors = pairs(&core, r#""(\w+Exception)",\s+(\d{3}),"#);
    let mut names = words(&core, "=> \"", |c| c.is_ascii_alphabetic());
    names.retain(|name| name.ends_with("Exception"));
    assert_eq!(errors.len(), names.len(), "{errors:?} {names:?}");
    let server = page("crates/server/src/error.rs");
    errors.extend(pairs(&server, r#"name: "(\w+)",\s+status: (\d+)"#));
    let auth = page("crates/server/src/auth.rs") + &page("crates/server/src/api.rs");
    let callers = pairs(&auth, r#"of_caller\(\s*(\d+),\s*"(\w+)""#);
    errors.extend(callers.into_iter().map(|(status, name)| (name, status)));
    assert!(errors.len() > 15, "only {errors:?} found");
    for (name, status) in errors {
        let row = format!("| `{name}` | {status} |");
        assert!(guide.contains(&row), "not in the guide: {row}");
    }
}

#[test]
fn every_error_of_the_sdk_is_in_the_guide() {
    let guide = page("docs/guide/errors.md");
    let source = page("crates/sdk/src/error.rs");
    let list = source.split("pub enum ErrorKind").nth(1).unwrap();
    let list = list.split("\n}").next().unwrap();
    let kinds = list
        .lines()
        .filter_map(|line| line.trim().strip_suffix(','));
    let kinds: Vec<&str> = kinds.filter(|kind| !kind.starts_with('/')).collect();
    assert!(kinds.len() > 20, "only {kinds:?} found");
    for kind in kinds {
        let row = format!("| `{kind}` |");
        assert!(guide.contains(&row), "not in the guide: {row}");
    }
}

#[test]
fn the_guide_tells_the_least_role_of_every_operation() {
    use outlast_server::operation::{Least, OPERATIONS};
    let guide = page("docs/guide/security.md");
    let table = guide.split("## Roles").nth(1).unwrap();
    for (_, operation, least) in OPERATIONS {
        let role = match least {
            Least::Anybody => "anybody",
            Least::Known => "everybody known",
            Least::Viewer => "viewer",
            Least::Operator => "operator",
            Least::Worker => "worker",
            Least::Admin => "admin",
        };
        let row = format!("| {role} | ");
        let row = table.lines().find_map(|line| line.strip_prefix(&row));
        let told = row.unwrap().split([' ', ',', ';']);
        assert_eq!(told.filter(|it| *it == operation).count(), 1, "{operation}");
    }
}
