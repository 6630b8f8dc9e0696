//! A file beside the engine in which the load notes what it did, one line per write.
//!
//! A line is in the kernel's hands when `note` returns and survives the process; the order of lines
//! is the order of events. Nothing is synced: the machine does not go down in this test.

use std::{
    fs::File,
    io::Write as _,
    path::{Path, PathBuf},
};

/// Where lines are appended.
#[derive(Debug)]
pub(crate) struct Ledger(File);

/// The file in a folder.
pub(crate) fn path(place: &Path) -> PathBuf {
    place.join("ledger")
}

impl Ledger {
    /// Opens the ledger of a folder, making it if it is not there.
    pub(crate) fn open(place: &Path) -> Self {
        let file = File::options().append(true).create(true).open(path(place));
        Self(file.unwrap())
    }

    /// Appends a line of words in one write.
    pub(crate) fn note<const N: usize>(&self, words: [&str; N]) {
        assert!(!words.iter().any(|word| word.contains(['\t', '\n'])));
        let mut line = words.join("\t");
        line.push('\n');
        // One call: a killed process leaves a whole line or none.
        let written = (&self.0).write(line.as_bytes()).unwrap();
        assert_eq!(written, line.len());
    }
}
