//! The program, started and heard; how it ends is each test's own.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

/// Starts the program in a folder, as `told`; gives it and the first line it prints, as JSON.
pub(crate) fn start(
    folder: &Path,
    told: impl FnOnce(&mut Command) -> &mut Command,
) -> (Child, serde_json::Value) {
    let mut program = Command::new(env!("CARGO_BIN_EXE_outlast"));
    program.current_dir(folder).stderr(Stdio::null());
    let mut child = told(&mut program).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let stdout = child.stdout.take().unwrap();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    (child, serde_json::from_str(&line).unwrap())
}
