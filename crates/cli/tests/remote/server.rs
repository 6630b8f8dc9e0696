//! A server for one test.

use crate::program;
use outlast::{App, Remote, Worker};
use outlast_http::{Call, Http, Options};
use std::{path::Path, process::Child};
use tempfile::TempDir;

/// A server on a folder; killed when this is dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) remote: Remote,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// Starts a server on a folder and waits until it serves.
    pub(crate) fn begin(folder: &Path, listen: &str, more: &[&str]) -> Self {
        Self::with(
            folder,
            &[&["--dev", "--listen", listen], more].concat(),
            None,
        )
    }

    /// Starts a server with these flags; clients of this process have this token.
    pub(crate) fn with(folder: &Path, flags: &[&str], token: Option<&str>) -> Self {
        let (child, serving) = program::start(Path::new("."), |program| {
            let program = program.args(["--json", "serve", "--data"]).arg(folder);
            program.args(flags)
        });
        let endpoint = serving["endpoint"].as_str().unwrap();
        let remote = match token {
            Some(token) => Remote::with_token(endpoint, token).unwrap(),
            None => Remote::new(endpoint).unwrap(),
        };
        Self { child, remote }
    }

    /// The address it listens on.
    pub(crate) fn address(&self) -> String {
        let endpoint = self.remote.endpoint();
        endpoint.strip_prefix("http://").unwrap().to_owned()
    }

    /// What it has counted.
    pub(crate) async fn metrics(&self) -> String {
        let endpoint = self.remote.endpoint().parse().unwrap();
        let http = Http::new(&Options::new(endpoint)).unwrap();
        let call = Call::get(http.uri("/metrics").unwrap());
        let reply = http.send(&call).await.unwrap();
        String::from_utf8(reply.body.to_vec()).unwrap()
    }

    /// Asks for something that the typed client has no words for.
    pub(crate) async fn post(&self, path: &str, body: &str) {
        let endpoint = self.remote.endpoint().parse().unwrap();
        let http = Http::new(&Options::new(endpoint)).unwrap();
        let call = Call::post(http.uri(path).unwrap(), body.as_bytes().to_vec());
        let reply = http.send(&call).await.unwrap();
        assert!(reply.status.is_success(), "{reply:?}");
    }

    /// Ends it as a crash would.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// A server on a folder of its own, and a worker of it.
pub(crate) async fn serving(app: App) -> (TempDir, Server, Worker) {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::begin(folder.path(), "127.0.0.1:0", &[]);
    let worker = app.work_for(&server.remote).await.unwrap();
    (folder, server, worker)
}
