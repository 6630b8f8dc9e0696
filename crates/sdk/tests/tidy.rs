//! The repository's own rules, as a test: `cargo tidy`.
//!
//! Each rule reads the tree as it is and names every place that breaks it. What a compiler or clippy
//! already checks is not repeated here.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::{
    fs,
    path::{Path, PathBuf},
};

/// A file longer than this, tests included, is two files.
const LINES_MAX: usize = 900;
/// A map longer than this is not read.
const ARCHITECTURE_LINES_MAX: usize = 300;

/// A file of the repository.
struct File {
    /// Its path, with slashes, from the root.
    path: String,
    text: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every text file of the repository, in order. Walks the tree instead of asking git, which an
/// unpacked archive does not have.
fn files() -> Vec<File> {
    let mut files = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() {
                if !["target", ".git", ".outlast"].contains(&name) {
                    folders.push(path);
                }
            } else if let Ok(text) = fs::read_to_string(&path) {
                let path = path.strip_prefix(root()).unwrap();
                let parts: Vec<&str> = path.iter().filter_map(|part| part.to_str()).collect();
                let path = parts.join("/");
                // In a work tree of git, this file says where the rest of it is.
                if path != ".git" {
                    files.push(File { path, text });
                }
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(files.len() > 50, "only {} files found", files.len());
    files
}

fn rust_files() -> impl Iterator<Item = File> {
    files()
        .into_iter()
        .filter(|file| file.path.ends_with(".rs"))
}

/// Fails with every offence at once.
#[track_caller]
fn refuse(rule: &str, offences: Vec<String>) {
    assert!(offences.is_empty(), "{rule}:\n  {}", offences.join("\n  "));
}

/// Lines of `file` that contain one of `words`, as `path:line: word`.
fn lines_with(file: &File, words: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        for word in words.iter().filter(|word| line.contains(**word)) {
            found.push(format!("{}:{}: {word}", file.path, index + 1));
        }
    }
    found
}

#[test]
fn every_source_file_says_what_it_is_for() {
    let silent = |file: &File| !file.text.starts_with("//! ");
    let offences = rust_files().filter(silent).map(|file| file.path).collect();
    refuse("a file starts with //! and a sentence", offences);
}

#[test]
fn no_source_file_is_too_long() {
    let long = |file: File| {
        let lines = file.text.lines().count();
        (lines > LINES_MAX).then(|| format!("{}: {lines} lines", file.path))
    };
    refuse(
        "a file has 900 lines at most",
        rust_files().filter_map(long).collect(),
    );
}

#[test]
fn nothing_unfinished_is_left_in_the_code() {
    // Split, so that this file does not contain what it looks for.
    let words = [
        concat!("to", "do!("),
        concat!("un", "implemented!("),
        concat!("db", "g!("),
        concat!("#[ig", "nore"),
        concat!("FIX", "ME"),
        concat!("TO", "DO"),
    ];
    let offences = rust_files()
        .flat_map(|file| lines_with(&file, &words))
        .collect();
    refuse("finish it, or open an issue", offences);
}

#[test]
fn no_file_knows_the_machine_it_was_written_on() {
    let paths = [
        concat!("/wo", "rk/"),
        concat!("/tm", "p/"),
        concat!("/ro", "ot/"),
        concat!("/ho", "me/"),
        concat!("/Us", "ers/"),
    ];
    let offences = files()
        .iter()
        .flat_map(|file| lines_with(file, &paths))
        .collect();
    refuse("paths are relative to the repository", offences);
}

#[test]
fn words_have_one_meaning() {
    // The service's words are in ARCHITECTURE.md; these are other projects' words for them.
    let words = [
        concat!("work", "flow"),
        concat!("Work", "flow"),
        concat!("acti", "vity"),
    ];
    // One of them is the official name of a span.
    let offences = rust_files()
        .filter(|file| !file.path.contains("/telemetry"))
        .flat_map(|file| lines_with(&file, &words))
        .collect();
    refuse("use the words of the glossary", offences);
}

#[test]
fn aws_types_are_named_in_one_file_only() {
    let words = ["aws_sdk_lambda", "aws_smithy", "lambda_runtime"];
    let elsewhere = |file: &File| {
        file.path.starts_with("crates/")
            && file.path.contains("/src/")
            && !file.path.starts_with("crates/sdk/src/backend/lambda")
    };
    let offences = rust_files()
        .filter(elsewhere)
        .flat_map(|file| lines_with(&file, &words))
        .collect();
    refuse("only backend/lambda.rs knows AWS", offences);
}

#[test]
fn modules_are_nouns_of_the_domain() {
    let vague = [
        "mod", "utils", "util", "helpers", "helper", "common", "manager", "misc",
    ];
    let offences = rust_files()
        .map(|file| file.path)
        .filter(|path| {
            let stem = Path::new(path).file_stem().and_then(|stem| stem.to_str());
            stem.is_some_and(|stem| vague.contains(&stem))
        })
        .collect();
    refuse("a module is named after what is in it", offences);
}

/// Names of the test functions of a file.
fn test_names(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut marked = false;
    for line in text.lines().map(str::trim) {
        if line == "#[test]" || line.starts_with("#[tokio::test") {
            marked = true;
        } else if let Some((_, rest)) = line.split_once("fn ")
            && std::mem::take(&mut marked)
        {
            names.extend(rest.split(['(', '<']).next());
        }
    }
    names
}

#[test]
fn test_names_are_sentences() {
    let terse = |file: File| {
        let short = |name: &&str| name.split('_').count() < 3;
        let names = test_names(&file.text).into_iter().filter(short);
        let names: Vec<String> = names.map(|name| format!("{}: {name}", file.path)).collect();
        names
    };
    refuse(
        "a test's name says what holds",
        rust_files().flat_map(terse).collect(),
    );
}

fn architecture() -> String {
    fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap()
}

#[test]
fn the_map_is_short_enough_to_be_read() {
    let lines = architecture().lines().count();
    assert!(
        lines <= ARCHITECTURE_LINES_MAX,
        "ARCHITECTURE.md has {lines} lines"
    );
}

#[test]
fn the_map_shows_every_source_file() {
    let map = architecture();
    let missing = |file: &File| {
        // The conformance handlers are one file per suite and need no map.
        let (_, below) = file.path.strip_prefix("crates/")?.split_once("/src/")?;
        let is_test = below.ends_with("tests.rs") || below.contains("/tests/");
        let shown = map.contains(&format!("`{below}`"));
        (!is_test && !shown).then(|| file.path.clone())
    };
    let files: Vec<File> = rust_files().collect();
    refuse(
        "a source file has a line in ARCHITECTURE.md",
        files.iter().filter_map(missing).collect(),
    );
}

#[test]
fn every_invariant_is_guarded_by_tests_that_exist() {
    let known: Vec<File> = rust_files().collect();
    let known: Vec<&str> = known
        .iter()
        .flat_map(|file| test_names(&file.text))
        .collect();
    let map = architecture();
    let invariants: Vec<&str> = map.lines().filter(|line| line.starts_with("| I")).collect();
    assert!(
        invariants.len() >= 8,
        "only {} invariants",
        invariants.len()
    );
    let mut offences = Vec::new();
    for line in invariants {
        let names: Vec<&str> = line
            .split('`')
            .skip(1)
            .step_by(2)
            .filter(|name| name.split('_').count() >= 3)
            .collect();
        if names.is_empty() {
            offences.push(format!("nobody guards: {line}"));
        }
        let gone = names.into_iter().filter(|name| !known.contains(name));
        offences.extend(gone.map(|name| format!("there is no test {name}")));
    }
    refuse("an invariant names the tests that guard it", offences);
}

#[test]
fn decisions_are_numbered_once_and_dated() {
    let records: Vec<File> = files()
        .into_iter()
        .filter(|file| file.path.starts_with("docs/adr/"))
        .collect();
    let mut offences = Vec::new();
    let mut numbers = Vec::new();
    for file in &records {
        let name = file.path.trim_start_matches("docs/adr/");
        let number = name.split('-').next().unwrap_or_default();
        if number.len() != 4 || !number.chars().all(|digit| digit.is_ascii_digit()) {
            offences.push(format!("{name}: has no number"));
        }
        if !file.text.lines().any(|line| line.starts_with("Date: 20")) {
            offences.push(format!("{name}: has no date"));
        }
        if numbers.contains(&number) {
            offences.push(format!("{name}: {number} is taken"));
        }
        numbers.push(number);
    }
    refuse("docs/adr/NNNN-title.md with a date", offences);
}

#[test]
fn every_dependency_comes_from_crates_io() {
    let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let sources = lock.lines().filter(|line| line.starts_with("source = "));
    let offences: Vec<String> = sources
        .filter(|source| !source.ends_with("/crates.io-index\""))
        .map(str::to_owned)
        .collect();
    refuse("no git and no other registry", offences);
}

/// The targets of a document's links, outside of its code.
fn links(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut in_code = false;
    for line in text.lines() {
        in_code ^= line.trim_start().starts_with("```");
        if !in_code {
            let targets = line.split("](").skip(1);
            found.extend(targets.filter_map(|target| target.split(')').next()));
        }
    }
    found
}

/// What a heading is called in an address: lower case, hyphens for spaces, no punctuation.
fn anchor(heading: &str) -> String {
    let heading = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = heading.chars().filter_map(|c| match c {
        ' ' => Some('-'),
        c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
        _ => None,
    });
    kept.collect()
}

#[test]
fn every_link_between_documents_leads_somewhere() {
    let mut offences = Vec::new();
    let documents: Vec<File> = files()
        .into_iter()
        .filter(|file| file.path.ends_with(".md"))
        .collect();
    for document in &documents {
        let folder = root().join(&document.path);
        let folder = folder.parent().unwrap();
        for link in links(&document.text) {
            if link.contains("://") {
                continue;
            }
            let (path, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = match path {
                "" => root().join(&document.path),
                path => folder.join(path),
            };
            let text = fs::read_to_string(&target).unwrap_or_default();
            let mut headings = text.lines().filter(|line| line.starts_with('#'));
            let leads = heading.is_empty() || headings.any(|line| anchor(line) == heading);
            if !target.exists() || !leads {
                offences.push(format!("{}: {link}", document.path));
            }
        }
    }
    refuse("a link leads to a file, and to a heading in it", offences);
}
