//! The only place that prints: reports to stdout, notes and progress to stderr.

use crate::{paint::Paint, problem::Problem};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use std::{
    fmt::Write as _,
    io::{IsTerminal, Write as _},
};

/// How a command that ran to its end went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// All is well.
    Good,
    /// The report says what is wrong.
    Bad,
}

/// What a command found out.
pub(crate) trait Report: Serialize {
    /// The same for people: what, and how much.
    fn rows(&self) -> Vec<(String, String)>;
}

/// Where everything is printed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    json: bool,
}

#[derive(Serialize)]
struct Failure {
    error: String,
    /// The service's exception, if it was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    exception: Option<String>,
}

impl Output {
    /// Answers in JSON, or for people.
    pub(crate) fn new(json: bool) -> Self {
        Self { json }
    }

    /// Whether answers are JSON.
    pub(crate) fn is_json(self) -> bool {
        self.json
    }

    /// Prints what a command found out: one line of JSON, or a table.
    ///
    /// # Errors
    /// When it cannot be written as JSON.
    pub(crate) fn report(self, report: &impl Report) -> anyhow::Result<()> {
        let text = if self.json {
            serde_json::to_string(report)?
        } else {
            table(&report.rows())
        };
        to_stdout(&text);
        Ok(())
    }

    /// Prints an answer: one line of JSON, or what `text` makes of it. An empty text is no line.
    ///
    /// # Errors
    /// When it cannot be written as JSON.
    pub(crate) fn answer(
        self,
        answer: &impl Serialize,
        text: impl FnOnce(Paint) -> String,
    ) -> anyhow::Result<()> {
        if self.json {
            to_stdout(&serde_json::to_string(answer)?);
            return Ok(());
        }
        let text = text(self.paint());
        if !text.is_empty() {
            to_stdout(&text);
        }
        Ok(())
    }

    /// How stdout is to look.
    pub(crate) fn paint(self) -> Paint {
        let terminal = std::io::stdout().is_terminal();
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Paint {
            terminal,
            colour: terminal && wanted,
        }
    }

    /// Says why a command could not do its work.
    pub(crate) fn failed(self, error: &anyhow::Error) {
        let exception = error.downcast_ref::<Problem>();
        let exception = exception.and_then(|problem| problem.exception.clone());
        let error = format!("{error:#}");
        self.note(&format!("error: {error}"));
        if self.json
            && let Ok(line) = serde_json::to_string(&Failure { error, exception })
        {
            to_stdout(&line);
        }
    }

    /// Says something beside the report.
    pub(crate) fn note(self, text: &str) {
        // Nobody listens any more: that is no reason to stop.
        let _ = writeln!(std::io::stderr().lock(), "{text}");
    }

    /// A sign that something is being waited for; visible on a terminal only.
    pub(crate) fn waiting(self, what: String) -> ProgressBar {
        let bar = ProgressBar::new_spinner().with_message(what);
        if std::io::stderr().is_terminal() {
            bar.enable_steady_tick(std::time::Duration::from_millis(100));
        } else {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        bar
    }

    /// A bar of so many pieces; visible on a terminal only.
    pub(crate) fn progress(self, what: &'static str, pieces: u64) -> ProgressBar {
        let target = if std::io::stderr().is_terminal() {
            ProgressDrawTarget::stderr_with_hz(5)
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(Some(pieces), target).with_message(what);
        match ProgressStyle::with_template("{msg:20} {wide_bar} {human_pos}/{human_len}") {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        }
    }
}

fn to_stdout(text: &str) {
    // A reader that has gone away wants no more of it.
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}

fn table(rows: &[(String, String)]) -> String {
    let width = rows.iter().map(|(what, _)| what.len()).max();
    let width = width.unwrap_or_default();
    let mut text = String::new();
    for (what, value) in rows {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{what:width$}  {value}");
    }
    text.truncate(text.trim_end().len());
    text
}

/// A number of bytes for people.
pub(crate) fn bytes(count: u64) -> String {
    indicatif::HumanBytes(count).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_aligned_and_ends_without_a_blank_line() {
        let rows = [("a", "1"), ("long", "2")];
        let rows = rows.map(|(what, value)| (what.to_owned(), value.to_owned()));
        assert_eq!(table(&rows), "a     1\nlong  2");
        assert_eq!(table(&[]), "");
    }
}
