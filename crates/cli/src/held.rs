//! Programs that end with whoever started them, even if that one is killed: a runtime client that
//! asks a port for work which nobody has any more may ask as fast as it can, for ever.
//!
//! On Linux a process is killed when the thread that started it ends, if it asked for that. Only it
//! can ask: so this program is started in its place, asks, and becomes it. Elsewhere programs outlive
//! a parent that was killed.

use crate::arguments::Held;
use anyhow::{Context as _, bail};
use std::ffi::OsString;

/// What to start so that a program is held, and with which arguments.
pub(crate) fn held(program: OsString, arguments: Vec<OsString>) -> (OsString, Vec<OsString>) {
    if !cfg!(target_os = "linux") {
        return (program, arguments);
    }
    let parent = std::process::id().to_string();
    let mut words: Vec<OsString> = vec!["held".into(), parent.into(), "--".into(), program];
    words.extend(arguments);
    // The same program even if its file has been replaced since.
    ("/proc/self/exe".into(), words)
}

/// Becomes the program. Comes back only if that cannot be done.
#[cfg(target_os = "linux")]
pub(crate) fn run(held: &Held) -> anyhow::Result<crate::Verdict> {
    use rustix::process::{Signal, getppid, set_parent_process_death_signal};
    use std::os::unix::process::CommandExt as _;

    set_parent_process_death_signal(Some(Signal::KILL)).context("the kernel holds nobody")?;
    // It may have ended before it was asked about.
    if getppid().map(|parent| parent.as_raw_nonzero().get()) != Some(held.parent) {
        bail!("whoever started this has ended");
    }
    let mut words = held.command.iter();
    let program = words.next().context("no program is named")?;
    let error = std::process::Command::new(program).args(words).exec();
    Err(error).with_context(|| format!("{} cannot be started", program.display()))
}

/// Nobody is held here.
#[cfg(not(target_os = "linux"))]
pub(crate) fn run(_: &Held) -> anyhow::Result<crate::Verdict> {
    bail!("programs are held on Linux only");
}
