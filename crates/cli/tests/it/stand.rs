//! A server with a worker, both the real program, and a way to call the program against it.

use crate::{Called, handler, program};
use std::{
    path::Path,
    process::{Child, Command, Stdio},
};

/// Calls of the program until something has come about, at most.
const TRIES_MAX: usize = 3_000;

/// A process that ends with this.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    /// Starts the program; gives it and the first line it prints, as JSON.
    pub(crate) fn start(folder: &Path, arguments: &[&str]) -> (Self, serde_json::Value) {
        let (child, report) = program::start(folder, |program| {
            program
                .args(arguments)
                .env(handler::ROLE, "1")
                .env_remove("OUTLAST_ENDPOINT")
                .env_remove("OUTLAST_TOKEN")
                .stderr(Stdio::inherit())
        });
        (Self(child), report)
    }

    /// Ends it as a service manager would; gives its exit code.
    pub(crate) fn end(&mut self) -> Option<i32> {
        let id = self.0.id().to_string();
        let killed = Command::new("kill").args(["-TERM", &id]).status().unwrap();
        assert!(killed.success());
        self.0.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            let _ = self.end();
        }
    }
}

/// A server with the function `play`, and a worker for it.
pub(crate) struct Stand {
    // Dropped in this order.
    pub(crate) worker: Option<Running>,
    _server: Running,
    pub(crate) endpoint: String,
    pub(crate) folder: tempfile::TempDir,
}

impl Stand {
    pub(crate) fn new() -> Self {
        let mut stand = Self::without_worker();
        let exe = std::env::current_exe().unwrap();
        let arguments = [
            "--json",
            "worker",
            "--server",
            &stand.endpoint,
            "--function",
            "play",
            "--",
            exe.to_str().unwrap(),
            "--exact",
            handler::TEST,
            "--nocapture",
        ];
        let (worker, report) = Running::start(stand.folder.path(), &arguments);
        assert!(
            report["function"]
                .as_str()
                .unwrap()
                .ends_with("function:play:$LATEST")
        );
        stand.worker = Some(worker);
        stand
    }

    pub(crate) fn without_worker() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let functions =
            r#"{"play": {"Timeout": 60, "DurableConfig": {"ExecutionTimeout": 600}}, "plain": {}}"#;
        std::fs::write(folder.path().join("functions.json"), functions).unwrap();
        let arguments = [
            "--json",
            "serve",
            "--dev",
            "--listen",
            "127.0.0.1:0",
            "--data",
            "data",
            "--functions",
            "functions.json",
        ];
        let (server, report) = Running::start(folder.path(), &arguments);
        Self {
            worker: None,
            _server: server,
            endpoint: report["endpoint"].as_str().unwrap().to_owned(),
            folder,
        }
    }

    /// Calls the program against the server.
    pub(crate) fn outlast(&self, arguments: &[&str]) -> Called {
        let output = Command::new(env!("CARGO_BIN_EXE_outlast"))
            .args(arguments)
            .env("OUTLAST_ENDPOINT", &self.endpoint)
            .env_remove("OUTLAST_TOKEN")
            .env("COLUMNS", "100")
            .output()
            .unwrap();
        Called::new(output)
    }

    /// What the program prints, when all is well.
    #[track_caller]
    pub(crate) fn good(&self, arguments: &[&str]) -> String {
        let called = self.outlast(arguments);
        assert_eq!(called.code, Some(0), "{arguments:?}: {called:?}");
        called.stdout
    }

    /// Asks until what is printed contains `expected`.
    #[track_caller]
    pub(crate) fn until(&self, arguments: &[&str], expected: &str) -> String {
        let mut printed = String::new();
        for _ in 0..TRIES_MAX {
            printed = self.good(arguments);
            if printed.contains(expected) {
                return printed;
            }
        }
        panic!("{arguments:?} never says {expected:?}, but {printed}");
    }
}

/// A text without what differs from run to run.
pub(crate) fn same(text: &str) -> String {
    let patterns = [
        (
            r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
            "ID",
        ),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+\+0000|Z)", "TIME"),
        (r"\b(\d+ ms|\d+\.\d s|\d+ m \d+ s)( +|\n|$)", "TOOK$2"),
        (r"TOOK +", "TOOK  "),
        (r"[A-Za-z0-9_-]{60,}", "CALLBACK"),
        (r"\+\d+\.\d{3}", "+S"),
    ];
    let mut text = text.to_owned();
    for (pattern, with) in patterns {
        let pattern = regex_lite::Regex::new(pattern).unwrap();
        text = pattern.replace_all(&text, with).into_owned();
    }
    text
}
