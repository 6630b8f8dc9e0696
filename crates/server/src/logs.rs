//! The last lines that the workers of each function printed, in memory, for whoever asks.
//!
//! Nothing here survives a restart, and nobody waits for it: whoever prints more than is kept loses
//! the oldest lines. It is a look at what happens now, not an archive.

use crate::host::{
    lock,
    process::{Line, LineSink, Stream},
};
use outlast_core::{
    arn::Function,
    time::{Timestamp, epoch_seconds},
};
use outlast_engine::clock::{Clock, EngineClock};
use serde::Serialize;
use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    sync::{Arc, Mutex},
};
use tokio::sync::watch;

/// Lines that are kept of one function.
pub const LINES_MAX: usize = 1_000;
/// Bytes of lines that are kept of one function.
pub const BYTES_MAX: usize = 1_048_576;
/// Functions of which lines are kept; those that were silent the longest are forgotten.
pub const FUNCTIONS_MAX: usize = 1_024;

/// A line that is kept.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Kept {
    /// Grows from line to line; starts anew with the server.
    pub number: u64,
    /// When it was printed.
    #[serde(with = "epoch_seconds")]
    pub timestamp: Timestamp,
    /// The version of the function.
    pub version: Arc<str>,
    /// The process that printed it, on its own machine.
    pub process: u32,
    /// Where it was printed.
    pub stream: Stream,
    /// The line.
    pub text: Arc<str>,
}

/// The last lines of every function.
pub struct Logs {
    clock: Arc<dyn Clock>,
    functions: Mutex<BTreeMap<Arc<str>, Ring>>,
    /// The number of the newest line of all.
    newest: watch::Sender<u64>,
}

#[derive(Default)]
struct Ring {
    lines: VecDeque<Kept>,
    bytes: usize,
}

impl Logs {
    /// Keeps lines with the time of a clock.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            functions: Mutex::default(),
            newest: watch::Sender::new(0),
        }
    }

    /// A sink that keeps lines and hands them on.
    pub fn before(self: &Arc<Self>, next: Arc<dyn LineSink>) -> Arc<dyn LineSink> {
        Arc::new(Before(self.clone(), next))
    }

    /// Lines of a function: those after a number, the oldest first, or else the last ones. A number
    /// that was never given belongs to a server that is gone, and counts as none.
    pub fn read(&self, function: &str, after: Option<u64>, max: usize) -> Vec<Kept> {
        let after = after.filter(|after| *after <= *self.newest.borrow());
        let functions = lock(&self.functions);
        let Some(ring) = functions.get(function) else {
            return Vec::new();
        };
        match after {
            Some(after) => {
                let first = ring.lines.partition_point(|line| line.number <= after);
                ring.lines.iter().skip(first).take(max).cloned().collect()
            }
            None => {
                let first = ring.lines.len().saturating_sub(max);
                ring.lines.iter().skip(first).cloned().collect()
            }
        }
    }

    /// The number of the newest line of all.
    pub fn newest(&self) -> u64 {
        *self.newest.borrow()
    }

    /// Waits until there is a line of a function after this number.
    pub(crate) async fn grown(&self, function: &str, after: u64) {
        let mut newest = self.newest.subscribe();
        loop {
            newest.mark_unchanged();
            if !self.read(function, Some(after), 1).is_empty() || newest.changed().await.is_err() {
                return;
            }
        }
    }
}

impl Default for Logs {
    fn default() -> Self {
        Self::new(Arc::new(EngineClock::system()))
    }
}

impl fmt::Debug for Logs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let functions = lock(&self.functions).len();
        f.debug_struct("Logs")
            .field("functions", &functions)
            .finish_non_exhaustive()
    }
}

impl LineSink for Logs {
    fn line(&self, line: Line<'_>) {
        let timestamp = self.clock.now();
        let mut functions = lock(&self.functions);
        let name = &line.function.name;
        if functions.len() >= FUNCTIONS_MAX && !functions.contains_key(name) {
            let newest = |ring: &Ring| ring.lines.back().map(|line| line.number);
            let silent = functions.iter().min_by_key(|(_, ring)| newest(ring));
            let silent = silent.map(|(name, _)| name.clone());
            silent.and_then(|silent| functions.remove(&silent));
        }
        let number = *self.newest.borrow() + 1;
        functions.entry(name.clone()).or_default().push(Kept {
            number,
            timestamp,
            version: line.function.version.clone(),
            process: line.process,
            stream: line.stream,
            text: line.text.into(),
        });
        // Under the lock, so that numbers are in order.
        self.newest.send_replace(number);
    }
}

impl Ring {
    fn push(&mut self, line: Kept) {
        self.bytes += line.text.len();
        self.lines.push_back(line);
        while self.lines.len() > LINES_MAX || (self.bytes > BYTES_MAX && self.lines.len() > 1) {
            if let Some(oldest) = self.lines.pop_front() {
                self.bytes -= oldest.text.len();
            }
        }
    }
}

struct Before(Arc<Logs>, Arc<dyn LineSink>);

impl LineSink for Before {
    fn line(&self, line: Line<'_>) {
        self.0.line(line);
        self.1.line(line);
    }

    fn ended(&self, function: &Function, how: &str) {
        self.1.ended(function, how);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str) -> Function {
        let arn = format!("arn:aws:lambda:r:000000000000:function:{name}:$LATEST");
        arn.parse().unwrap()
    }

    fn print(logs: &Logs, name: &str, text: &str) {
        logs.line(Line {
            function: &function(name),
            process: 7,
            stream: Stream::Out,
            text,
        });
    }

    fn texts(lines: &[Kept]) -> Vec<&str> {
        lines.iter().map(|line| &*line.text).collect()
    }

    #[test]
    fn lines_are_read_from_the_end_or_after_a_number() {
        let logs = Logs::default();
        assert!(logs.read("f", None, 9).is_empty());
        for text in ["a", "b", "c"] {
            print(&logs, "f", text);
            print(&logs, "g", text);
        }
        assert_eq!(texts(&logs.read("f", None, 2)), ["b", "c"]);
        let first = logs.read("f", Some(0), 1);
        assert_eq!(texts(&first), ["a"]);
        let rest = logs.read("f", Some(first[0].number), 9);
        assert_eq!(texts(&rest), ["b", "c"]);
        assert!(logs.read("f", Some(logs.newest()), 9).is_empty());
        let restarted = logs.read("f", Some(logs.newest() + 1), 9);
        assert_eq!(texts(&restarted), ["a", "b", "c"]);
    }

    #[test]
    fn lines_and_bytes_are_bounded() {
        for (printed, kept) in [
            (LINES_MAX - 1, LINES_MAX - 1),
            (LINES_MAX, LINES_MAX),
            (LINES_MAX + 1, LINES_MAX),
        ] {
            let logs = Logs::default();
            for _ in 0..printed {
                print(&logs, "f", "x");
            }
            assert_eq!(logs.read("f", None, usize::MAX).len(), kept);
        }
        let half = "x".repeat(BYTES_MAX / 2);
        for (third, kept) in [("", 3), ("x", 2)] {
            let logs = Logs::default();
            for text in [&*half, &*half, third] {
                print(&logs, "f", text);
            }
            assert_eq!(logs.read("f", None, 9).len(), kept, "{third}");
        }
        let logs = Logs::default();
        print(&logs, "f", &"x".repeat(BYTES_MAX + 1));
        assert_eq!(
            logs.read("f", None, 9).len(),
            1,
            "the newest line is always there"
        );
    }

    #[test]
    fn the_function_that_was_silent_the_longest_is_forgotten() {
        let logs = Logs::default();
        for number in 0..FUNCTIONS_MAX {
            print(&logs, &format!("f{number}"), "x");
        }
        print(&logs, "f0", "again");
        assert_eq!(logs.read("f1", None, 9).len(), 1);
        print(&logs, "one-more", "x");
        assert!(logs.read("f1", None, 9).is_empty());
        assert_eq!(logs.read("f0", None, 9).len(), 2);
    }

    #[tokio::test]
    async fn whoever_waits_is_told_of_a_line_of_its_function() {
        let logs = Arc::new(Logs::default());
        let waiting = logs.clone();
        let waiting = async move {
            waiting.grown("f", 0).await;
            waiting.read("f", Some(0), 9).len()
        };
        let printing = async {
            print(&logs, "g", "x");
            tokio::task::yield_now().await;
            print(&logs, "f", "x");
        };
        let (found, ()) = tokio::join!(waiting, printing);
        assert_eq!(found, 1);
    }
}
