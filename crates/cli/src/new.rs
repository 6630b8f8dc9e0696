//! `outlast new NAME`: a small Rust project that runs.
//!
//! The library is the published one; inside Outlast's own repository, or with `--path`, it is the one
//! in that folder.

use crate::{
    arguments::client::New,
    output::{Output, Verdict},
    problem::Problem,
};
use anyhow::Context as _;
use serde_json::json;
use std::{
    env, fs,
    path::{Path, PathBuf},
};

/// Letters of a name, at most: as many as a crate's may have.
const NAME_LETTERS_MAX: usize = 64;
/// The program of the project. It is compiled and run by this crate's tests.
const MAIN: &str = include_str!("new/main.rs");
/// Words that cannot be the name of a package.
const RESERVED: [&str; 7] = ["outlast", "test", "core", "std", "self", "crate", "build"];

/// Makes the project.
///
/// # Errors
/// When the name cannot be a package's, the folder exists, or something cannot be written.
pub(crate) fn run(new: &New, output: Output) -> anyhow::Result<Verdict> {
    check(&new.name)?;
    let library = match &new.path {
        Some(path) => Some(at_path(path)?),
        None => repository(),
    };
    let folder = PathBuf::from(&new.name);
    if folder.exists() {
        return Err(Problem::usage(format!(
            "{} is there already: choose another name, or remove it",
            folder.display()
        ))
        .into());
    }
    let cannot = |what: &Path| format!("{} cannot be written", what.display());
    fs::create_dir_all(folder.join("src")).with_context(|| cannot(&folder))?;
    for (file, text) in [
        ("Cargo.toml", manifest(&new.name, library.as_deref())),
        ("src/main.rs", MAIN.to_owned()),
        ("README.md", readme(&new.name)),
        (".gitignore", "/target\n/.outlast\n".to_owned()),
    ] {
        let file = folder.join(file);
        fs::write(&file, text).with_context(|| cannot(&file))?;
    }
    let answer = json!({
        "folder": new.name,
        "library": library.as_ref().map(|path| path.display().to_string()),
    });
    let name = &new.name;
    output.answer(&answer, |_| {
        format!("made {name}; now:\n\n  cd {name}\n  cargo run -- Ada")
    })?;
    Ok(Verdict::Good)
}

/// Whether a package, and a folder, can have this name.
fn check(name: &str) -> Result<(), Problem> {
    let legal = |letter: u8| {
        letter.is_ascii_lowercase() || letter.is_ascii_digit() || b"-_".contains(&letter)
    };
    let begins = name
        .bytes()
        .next()
        .is_some_and(|first| first.is_ascii_lowercase());
    if begins
        && name.bytes().all(legal)
        && name.len() <= NAME_LETTERS_MAX
        && !RESERVED.contains(&name)
    {
        return Ok(());
    }
    Err(Problem::usage(format!(
        "{name:?} cannot be a package's name: use a to z, 0 to 9, - and _, beginning with a letter, \
         {NAME_LETTERS_MAX} at most"
    )))
}

/// The library in the folder that somebody named.
fn at_path(path: &Path) -> anyhow::Result<PathBuf> {
    let found = [path.to_owned(), path.join("crates/sdk")];
    let found = found.into_iter().find(|folder| is_library(folder));
    let Some(found) = found else {
        return Err(Problem::usage(format!(
            "{} has no Cargo.toml of the package outlast: name the folder crates/sdk of Outlast's \
             repository",
            path.display()
        ))
        .into());
    };
    found
        .canonicalize()
        .with_context(|| format!("{} cannot be read", found.display()))
}

/// The library of the repository that the current folder is in, if it is Outlast's.
fn repository() -> Option<PathBuf> {
    let here = env::current_dir().ok()?;
    let candidates = here.ancestors().map(|folder| folder.join("crates/sdk"));
    candidates.into_iter().find(|folder| is_library(folder))
}

fn is_library(folder: &Path) -> bool {
    let manifest = fs::read_to_string(folder.join("Cargo.toml"));
    manifest.is_ok_and(|text| text.lines().any(|line| line == "name = \"outlast\""))
}

fn manifest(name: &str, library: Option<&Path>) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let rust = env!("CARGO_PKG_RUST_VERSION");
    let (library, workspace) = match library {
        None => (format!("\"{version}\""), ""),
        // Inside another workspace, it stays one of its own.
        Some(path) => {
            let path = path.display().to_string();
            let path = serde_json::Value::from(path);
            (format!("{{ path = {path} }}"), "\n[workspace]\n")
        }
    };
    format!(
        "[package]\n\
         name = \"{name}\"\n\
         version = \"0.1.0\"\n\
         edition = \"2024\"\n\
         rust-version = \"{rust}\"\n\
         publish = false\n\
         \n\
         [dependencies]\n\
         outlast = {library}\n\
         tokio = {{ version = \"1\", features = [\"macros\", \"rt-multi-thread\"] }}\n\
         {workspace}"
    )
}

fn readme(name: &str) -> String {
    format!(
        "# {name}\n\
         \n\
         A durable function made with [Outlast](https://github.com/outlast-rs/outlast).\n\
         \n\
         ```text\n\
         cargo run -- Ada\n\
         ```\n\
         \n\
         greets Ada, waits five seconds and says goodbye. End it in the middle, with Ctrl-C or \
         `kill -9`, and run the same command again: it goes on where it was, and what was done is not \
         done again. What is known of every execution is in the folder `.outlast`; `outlast doctor` \
         examines it.\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_packages() {
        let longest = "a".repeat(NAME_LETTERS_MAX);
        let shorter = "a".repeat(NAME_LETTERS_MAX - 1);
        for name in ["a", "my-app", "my_app2", &longest, &shorter] {
            assert_eq!(check(name), Ok(()), "{name}");
        }
        let too_long = "a".repeat(NAME_LETTERS_MAX + 1);
        for name in [
            "", "2", "-a", "A", "a b", "a/b", "..", "ü", "outlast", "test", &too_long,
        ] {
            assert!(check(name).is_err(), "{name}");
        }
    }

    #[test]
    fn the_library_is_published_or_in_a_folder() {
        insta::assert_snapshot!(manifest("shop", Some(Path::new("some \"where\""))), @r#"
        [package]
        name = "shop"
        version = "0.1.0"
        edition = "2024"
        rust-version = "1.95"
        publish = false

        [dependencies]
        outlast = { path = "some \"where\"" }
        tokio = { version = "1", features = ["macros", "rt-multi-thread"] }

        [workspace]
        "#);
        let published = manifest("shop", None);
        let version = concat!("outlast = \"", env!("CARGO_PKG_VERSION"), "\"\n");
        assert!(published.contains(version), "{published}");
        assert!(!published.contains("[workspace]"), "{published}");
    }
}
