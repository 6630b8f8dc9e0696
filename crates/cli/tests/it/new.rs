//! `outlast new`: the project it makes, whose program is compiled and run here.

use std::{path::Path, process::Command};

#[path = "../../src/new/main.rs"]
#[expect(
    dead_code,
    unreachable_pub,
    clippy::print_stdout,
    reason = "it is a program; only its handler is called here"
)]
mod made;

fn new(folder: &Path, arguments: &[&str]) -> crate::Called {
    let output = Command::new(env!("CARGO_BIN_EXE_outlast"))
        .arg("new")
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap();
    crate::Called::new(output)
}

#[test]
fn a_project_is_made_once() {
    let folder = tempfile::tempdir().unwrap();
    let made = new(folder.path(), &["my-app"]);
    assert_eq!((made.code, made.stderr.as_str()), (Some(0), ""), "{made:?}");
    assert!(made.stdout.contains("cargo run"), "{made:?}");
    let project = folder.path().join("my-app");
    let main = std::fs::read_to_string(project.join("src/main.rs")).unwrap();
    assert_eq!(main, include_str!("../../src/new/main.rs"));
    let manifest = std::fs::read_to_string(project.join("Cargo.toml")).unwrap();
    assert!(manifest.contains(concat!("outlast = \"", env!("CARGO_PKG_VERSION"), "\"")));
    assert!(project.join("README.md").exists());

    let again = new(folder.path(), &["my-app"]);
    assert_eq!(again.code, Some(2), "{again:?}");
    assert!(
        again.stderr.contains("my-app is there already"),
        "{again:?}"
    );
    for (arguments, what) in [
        (&["../up"][..], "cannot be a package's name"),
        (
            &["x", "--path", "my-app"],
            "has no Cargo.toml of the package outlast",
        ),
    ] {
        let refused = new(folder.path(), arguments);
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.stderr.contains(what), "{refused:?}");
    }
    assert!(!folder.path().join("x").exists());
}

#[test]
fn a_project_uses_the_library_of_a_repository() {
    let folder = tempfile::tempdir().unwrap();
    let repository = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let made = new(folder.path(), &["my-app", "--path", repository]);
    assert_eq!(made.code, Some(0), "{made:?}");
    let manifest = folder.path().join("my-app/Cargo.toml");
    let manifest = manifest.to_str().unwrap();
    // It resolves: every package it names is there.
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let read = Command::new(cargo)
        .args([
            "metadata",
            "--no-deps",
            "--offline",
            "--format-version=1",
            "--manifest-path",
            manifest,
        ])
        .output()
        .unwrap();
    assert!(
        read.status.success(),
        "{}",
        String::from_utf8_lossy(&read.stderr)
    );
}

#[tokio::test]
async fn the_made_function_runs() {
    let folder = tempfile::tempdir().unwrap();
    let app = outlast::App::new().function("greet", made::greet);
    let app = app.open_at(folder.path()).await.unwrap();
    let execution = app.start("greet", "Ada").await.unwrap();
    let outcome: String = execution.result().await.unwrap();
    assert_eq!(outcome, "Hello, Ada! Goodbye, Ada!");
    app.shut_down().await;
}
