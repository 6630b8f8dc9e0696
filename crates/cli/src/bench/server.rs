//! A server in a process of its own, for as long as a measurement lasts.

use crate::bench::{home::Used, process};
use anyhow::{Context, bail};
use serde::Deserialize;
use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};
use tokio::time::Instant;

/// How long a server may take to end once it was asked to.
const END_MAX: Duration = Duration::from_secs(30);
/// How often the stand looks whether it has ended.
const LOOK: Duration = Duration::from_millis(5);

/// A server; killed when this is dropped.
#[derive(Debug)]
pub(crate) struct ServerProcess {
    child: Child,
    endpoint: String,
}

#[derive(Deserialize)]
struct Serving {
    endpoint: String,
}

impl ServerProcess {
    /// Starts this program as a server on a folder, on any free port.
    ///
    /// # Errors
    /// When it does not come up.
    pub(crate) async fn begin(folder: &Path) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("this program cannot be found")?;
        let mut child = Command::new(program)
            .args(["--json", "serve", "--dev", "--listen", "127.0.0.1:0"])
            .arg("--data")
            .arg(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("the server cannot be started")?;
        let stdout = child.stdout.take();
        let first_line = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            if let Some(stdout) = stdout {
                BufReader::new(stdout).read_line(&mut line)?;
            }
            std::io::Result::Ok(line)
        });
        let mut server = Self {
            child,
            endpoint: String::new(),
        };
        let line = first_line.await??;
        let serving: Serving = serde_json::from_str(&line)
            .with_context(|| format!("the server did not come up: {}", line.trim()))?;
        server.endpoint = serving.endpoint;
        Ok(server)
    }

    /// Where it is.
    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// What it has used.
    pub(crate) fn used(&self) -> Used {
        Used {
            cpu: process::cpu_time_of(self.child.id()),
            rss_bytes: process::rss_bytes_of(self.child.id()),
        }
    }

    /// Lets it end cleanly.
    ///
    /// # Errors
    /// When it does not.
    pub(crate) async fn end(mut self) -> anyhow::Result<()> {
        terminate(&mut self.child)?;
        let begun = Instant::now();
        loop {
            match self.child.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => bail!("the server ended badly: {status}"),
                None if begun.elapsed() > END_MAX => bail!("the server does not end"),
                None => tokio::time::sleep(LOOK).await,
            }
        }
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // Fails when it has ended, which is as well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(unix)]
fn terminate(child: &mut Child) -> anyhow::Result<()> {
    let id = i32::try_from(child.id())
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    let id = id.context("the server has no process id")?;
    rustix::process::kill_process(id, rustix::process::Signal::TERM)?;
    Ok(())
}

#[cfg(not(unix))]
fn terminate(child: &mut Child) -> anyhow::Result<()> {
    // There is no milder way; what was acknowledged survives it.
    Ok(child.kill()?)
}
