//! The program as its users call it: the real binary, its output and its exit codes.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod bench;
#[cfg(unix)]
mod client;
mod dev;
mod doctor;
mod guide;
#[cfg(unix)]
mod handler;
mod keys;
mod new;
#[path = "../both/program.rs"]
mod program;
#[cfg(unix)]
mod secure;
#[cfg(unix)]
mod serve;
#[cfg(unix)]
mod stand;
mod usage;
#[cfg(unix)]
mod worker;

use std::process::{Command, Output};

/// Calls the program in a folder of its own, without what the environment says.
fn outlast(arguments: &[&str]) -> Called {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_outlast"))
        .args(arguments)
        .current_dir(folder.path())
        .env_remove("OUTLAST_DATA")
        .env_remove("OUTLAST_ENDPOINT")
        .env_remove("OUTLAST_TOKEN")
        .env_remove("AWS_ENDPOINT_URL_LAMBDA")
        .env_remove("OUTLAST_CONFIG")
        .env("COLUMNS", "100")
        .output()
        .unwrap();
    let left = std::fs::read_dir(folder.path()).unwrap();
    assert_eq!(left.count(), 0, "it leaves nothing in the current folder");
    Called::new(output)
}

/// How a call went.
#[derive(Debug)]
struct Called {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Called {
    fn new(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// The one line of JSON on stdout.
    #[track_caller]
    fn json(&self) -> serde_json::Value {
        assert_eq!(self.stdout.lines().count(), 1, "one line: {self:?}");
        assert!(self.stdout.ends_with('\n'));
        serde_json::from_str(&self.stdout).unwrap()
    }
}
