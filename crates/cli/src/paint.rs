//! How answers look: tables, durations and colours. Pure; nothing is printed here.
//!
//! Tables and colours are for terminals. Anything else gets one line per row, its cells apart by a
//! tab, without a head: easy to cut.

use outlast::core::time::{Timestamp, iso};
use std::fmt::Write as _;

/// Spaces between columns.
const GAP: &str = "  ";

/// What the reader can show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Paint {
    /// A person looks at it.
    pub(crate) terminal: bool,
    /// Colours can be seen, and are wanted.
    pub(crate) colour: bool,
}

/// A colour that means something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Good,
    Bad,
    Busy,
    Quiet,
    Plain,
}

impl Tone {
    /// The tone of a status of an execution or operation.
    pub(crate) fn of(status: &str) -> Self {
        match status {
            "SUCCEEDED" => Self::Good,
            "FAILED" | "TIMED_OUT" => Self::Bad,
            "STOPPED" | "CANCELLED" => Self::Quiet,
            "RUNNING" | "STARTED" | "PENDING" | "READY" => Self::Busy,
            _ => Self::Plain,
        }
    }
}

/// One cell of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    /// A cell whose tone is that of the status it shows.
    pub(crate) fn status(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            tone: Tone::of(text),
        }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self {
            text: text.into(),
            tone: Tone::Plain,
        }
    }
}

impl Paint {
    /// A text in a tone.
    pub(crate) fn tint(self, text: &str, tone: Tone) -> String {
        let code = match tone {
            Tone::Good => "32",
            Tone::Bad => "31",
            Tone::Busy => "36",
            Tone::Quiet => "2",
            Tone::Plain => return text.to_owned(),
        };
        if self.colour && !text.is_empty() {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }

    /// A table with its head, or lines to cut.
    pub(crate) fn table(self, head: &[&str], rows: &[Vec<Cell>]) -> String {
        if !self.terminal {
            let line = |row: &Vec<Cell>| {
                let cells: Vec<String> = row.iter().map(|cell| one_line(&cell.text)).collect();
                cells.join("\t")
            };
            return rows.iter().map(line).collect::<Vec<_>>().join("\n");
        }
        let head: Vec<Cell> = head
            .iter()
            .map(|name| Cell {
                text: (*name).to_owned(),
                tone: Tone::Quiet,
            })
            .collect();
        self.columns(std::iter::once(&head).chain(rows))
    }

    /// Rows whose columns are aligned, on any reader.
    pub(crate) fn columns<'a>(self, rows: impl IntoIterator<Item = &'a Vec<Cell>>) -> String {
        let rows: Vec<&Vec<Cell>> = rows.into_iter().collect();
        let mut widths: Vec<usize> = Vec::new();
        for row in &rows {
            for (index, cell) in row.iter().enumerate() {
                let width = one_line(&cell.text).chars().count();
                match widths.get_mut(index) {
                    Some(widest) => *widest = width.max(*widest),
                    None => widths.push(width),
                }
            }
        }
        let mut text = String::new();
        for row in rows {
            let last = row.iter().rposition(|cell| !cell.text.is_empty());
            let cells = row
                .iter()
                .zip(&widths)
                .take(last.map_or(0, |last| last + 1));
            for (index, (cell, width)) in cells.enumerate() {
                let shown = one_line(&cell.text);
                if index > 0 {
                    text.push_str(GAP);
                }
                text.push_str(&self.tint(&shown, cell.tone));
                if Some(index) != last {
                    let missing = width.saturating_sub(shown.chars().count());
                    text.extend(std::iter::repeat_n(' ', missing));
                }
            }
            text.push('\n');
        }
        text.truncate(text.trim_end_matches('\n').len());
        text
    }
}

/// The same text without anything that would break a line, or steer a terminal.
pub(crate) fn one_line(text: &str) -> String {
    let shown = |letter: char| if letter.is_control() { ' ' } else { letter };
    text.chars().map(shown).collect()
}

/// At most so many letters of a text, with a sign when some are missing.
pub(crate) fn short(text: &str, letters: usize) -> String {
    let text = one_line(text);
    match text.char_indices().nth(letters) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

/// A span of time for people.
pub(crate) fn duration(ms: u64) -> String {
    let seconds = ms / 1_000;
    match seconds {
        0 => format!("{ms} ms"),
        1..60 => format!("{seconds}.{} s", ms % 1_000 / 100),
        60..3_600 => format!("{} m {} s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{} h {} m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

/// A moment for people and scripts.
pub(crate) fn moment(at: Timestamp) -> String {
    iso::utc(at)
}

/// What and how much, a line each.
pub(crate) fn fields(rows: &[(&str, String)]) -> String {
    let width = rows.iter().map(|(what, _)| what.len()).max();
    let width = width.unwrap_or_default();
    let mut text = String::new();
    for (what, value) in rows {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{what:width$}{GAP}{}", one_line(value));
    }
    text.truncate(text.trim_end().len());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Vec<Cell>> {
        vec![
            vec!["a".into(), Cell::status("RUNNING"), "x".into()],
            vec!["longer".into(), Cell::status("FAILED"), "".into()],
            vec!["b\tc\u{1b}[2J".into(), Cell::status("ODD"), "".into()],
        ]
    }

    #[test]
    fn a_terminal_gets_a_table_with_its_head() {
        let paint = Paint {
            terminal: true,
            colour: false,
        };
        insta::assert_snapshot!(paint.table(&["NAME", "STATUS", "WHAT"], &rows()), @"
        NAME     STATUS   WHAT
        a        RUNNING  x
        longer   FAILED
        b c [2J  ODD
        ");
        assert_eq!(paint.table(&["NAME"], &[]), "NAME");
    }

    #[test]
    fn anybody_else_gets_lines_to_cut() {
        let table = Paint::default().table(&["NAME", "STATUS", "WHAT"], &rows());
        assert_eq!(table, "a\tRUNNING\tx\nlonger\tFAILED\t\nb c [2J\tODD\t");
        assert_eq!(Paint::default().table(&["NAME"], &[]), "");
    }

    #[test]
    fn colours_do_not_disturb_the_columns() {
        let paint = Paint {
            terminal: true,
            colour: true,
        };
        let table = paint.table(&["N", "S"], &[vec!["abc".into(), Cell::status("FAILED")]]);
        assert_eq!(
            table,
            "\u{1b}[2mN\u{1b}[0m    \u{1b}[2mS\u{1b}[0m\nabc  \u{1b}[31mFAILED\u{1b}[0m"
        );
    }

    #[test]
    fn durations_have_two_units_at_most() {
        let cases = [
            (0, "0 ms"),
            (999, "999 ms"),
            (1_000, "1.0 s"),
            (59_999, "59.9 s"),
            (60_000, "1 m 0 s"),
            (3_599_999, "59 m 59 s"),
            (3_600_000, "1 h 0 m"),
            (86_399_999, "23 h 59 m"),
            (86_400_000, "1 d 0 h"),
            (90_000_000, "1 d 1 h"),
        ];
        for (ms, expected) in cases {
            assert_eq!(duration(ms), expected);
        }
    }

    #[test]
    fn a_long_text_is_cut_between_letters() {
        assert_eq!(short("äöü", 2), "äö…");
        assert_eq!(short("äöü", 3), "äöü");
        assert_eq!(short("a\nb", 4), "a b");
    }
}
