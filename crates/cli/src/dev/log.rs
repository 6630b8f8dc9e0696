//! What the processes of all functions print, each line with its function's name, on stderr.
//!
//! A thread of its own writes, so that a terminal that does not read holds up nobody. What it
//! cannot keep up with is left out, and said to be.

use outlast_core::arn::Function;
use outlast_server::host::process::{Line, LineSink};
use std::{
    io::{IsTerminal as _, Write as _},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
};

/// Lines that wait to be written, at most.
const WAITING_MAX: usize = 10_000;
/// Colours that are told apart on dark and bright ground.
const COLOURS: [u8; 6] = [36, 33, 35, 32, 34, 31];

/// Where processes' lines go.
pub(crate) struct Log {
    lines: SyncSender<String>,
    left_out: AtomicU64,
    coloured: bool,
    /// Functions in the order in which they were first heard of: which colour is whose.
    names: Mutex<Vec<String>>,
}

impl Log {
    /// A log on stderr, in colours if that is a terminal.
    pub(crate) fn new() -> anyhow::Result<Self> {
        let (lines, waiting) = sync_channel(WAITING_MAX);
        thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || write(&waiting))?;
        let coloured = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Ok(Self {
            lines,
            left_out: AtomicU64::new(0),
            coloured,
            names: Mutex::default(),
        })
    }

    /// Makes room for a name and gives it its colour.
    pub(crate) fn knows(&self, name: &str) {
        self.place(name);
    }

    /// Says something about a function.
    pub(crate) fn say(&self, name: &str, text: &str) {
        let left_out = self.left_out.swap(0, Ordering::Relaxed);
        if left_out > 0 {
            self.send(format!("({left_out} lines left out)"));
        }
        let (number, width) = self.place(name);
        let prefix = prefix(name, width, self.coloured.then_some(number));
        self.send(format!("{prefix} {text}"));
    }

    fn send(&self, line: String) {
        if self.lines.try_send(line).is_err() {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The number of a function, and how wide the widest name is.
    fn place(&self, name: &str) -> (usize, usize) {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let number = names.iter().position(|known| known == name);
        let number = number.unwrap_or_else(|| {
            names.push(name.to_owned());
            names.len() - 1
        });
        let width = names.iter().map(|name| name.chars().count()).max();
        (number, width.unwrap_or_default())
    }
}

impl LineSink for Log {
    fn line(&self, line: Line<'_>) {
        self.say(&line.function.name, line.text);
    }

    fn ended(&self, function: &Function, how: &str) {
        self.say(&function.name, &format!("! {how}"));
    }
}

fn prefix(name: &str, width: usize, colour: Option<usize>) -> String {
    match colour {
        None => format!("{name:width$} |"),
        Some(number) => {
            let colour = COLOURS.get(number % COLOURS.len()).unwrap_or(&0);
            format!("\u{1b}[{colour}m{name:width$} |\u{1b}[0m")
        }
    }
}

fn write(waiting: &Receiver<String>) {
    while let Ok(line) = waiting.recv() {
        // Nobody listens any more: that is no reason to stop.
        let _ = writeln!(std::io::stderr().lock(), "{line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_their_functions_name_in_its_colour() {
        assert_eq!(prefix("a", 3, None), "a   |");
        assert_eq!(prefix("abc", 3, Some(0)), "\u{1b}[36mabc |\u{1b}[0m");
        assert_eq!(prefix("a", 1, Some(7)), "\u{1b}[33ma |\u{1b}[0m");
    }

    #[test]
    fn names_are_as_wide_as_the_widest() {
        let log = Log::new().unwrap();
        assert_eq!(log.place("ab"), (0, 2));
        assert_eq!(log.place("abcd"), (1, 4));
        assert_eq!(log.place("ab"), (0, 4));
    }
}
