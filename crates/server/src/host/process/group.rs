//! A process with everything it starts, as one group of the system: signals reach all of them.
//! Where there are no groups, only the process itself can be killed, by its own handle.

use tokio::process::{Child, Command};

/// The group a process leads; killed when dropped.
#[derive(Debug)]
pub struct Group {
    #[cfg(unix)]
    leader: Option<rustix::process::Pid>,
}

/// Makes the process that `command` starts the leader of a new group.
pub fn lead(command: &mut Command) {
    #[cfg(unix)]
    command.process_group(0);
    #[cfg(not(unix))]
    let _ = command;
}

#[cfg(unix)]
impl Group {
    /// The group that this process leads.
    pub fn of(child: &Child) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        Self {
            leader: id.and_then(rustix::process::Pid::from_raw),
        }
    }

    /// Asks everybody to stop.
    pub fn terminate(&self) {
        self.send(rustix::process::Signal::TERM);
    }

    /// Stops everybody.
    pub fn kill(&self) {
        self.send(rustix::process::Signal::KILL);
    }

    fn send(&self, signal: rustix::process::Signal) {
        if let Some(leader) = self.leader {
            // Nobody left to get it is just as well.
            let _ = rustix::process::kill_process_group(leader, signal);
        }
    }
}

#[cfg(not(unix))]
impl Group {
    /// There are no groups.
    pub fn of(_: &Child) -> Self {
        Self {}
    }

    /// There is no way to ask.
    pub fn terminate(&self) {}

    /// The process is killed by its own handle.
    pub fn kill(&self) {}
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}
