//! What doctor found, and which of it is wrong.

use crate::{
    doctor::files::Files,
    output::{Report, bytes},
};
use outlast::core::time::Timestamp;
use outlast_engine::store::{About, Head, Status};
use serde::Serialize;
use std::collections::BTreeMap;

/// Everything about a folder.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Findings {
    pub(crate) folder: String,
    pub(crate) store: &'static str,
    pub(crate) format: Option<u64>,
    pub(crate) sync: &'static str,
    pub(crate) closed_cleanly: Option<bool>,
    pub(crate) files: Files,
    pub(crate) index_lag_bytes: u64,
    /// How many there are in each state.
    pub(crate) executions: BTreeMap<&'static str, u64>,
    /// Those that somebody worked on when the folder was last used.
    pub(crate) in_flight: u64,
    /// Those whose time to go on has come.
    pub(crate) overdue: u64,
    /// Closed ones that need not be kept any longer.
    pub(crate) expired: u64,
    /// Whether every record was read; if not, the rest is not known.
    pub(crate) deep: bool,
    pub(crate) records: u64,
    /// Those that wait until somebody lets them go on.
    pub(crate) held: u64,
    pub(crate) damaged_count: u64,
    /// The first of them.
    pub(crate) damaged: Vec<Damage>,
    /// What is wrong, in words.
    pub(crate) problems: Vec<String>,
}

/// An execution that makes no sense. An engine leaves it alone.
#[derive(Debug, Serialize)]
pub(crate) struct Damage {
    pub(crate) execution: String,
    pub(crate) reason: String,
}

impl Findings {
    /// What the store says of itself.
    pub(crate) fn of(about: About, status: &Status) -> Self {
        let mut problems = Vec::new();
        if let Some(reason) = &status.poisoned {
            problems.push(format!("the store cannot be written: {reason}"));
        }
        if status.full {
            problems.push("the disk is full: make room".to_owned());
        }
        Self {
            store: about.kind,
            format: about.format,
            sync: about.sync,
            closed_cleanly: about.closed_cleanly,
            index_lag_bytes: status.index_lag_bytes,
            problems,
            ..Self::default()
        }
    }

    /// Counts an execution.
    pub(crate) fn add(&mut self, head: &Head, now: Timestamp) {
        *self.executions.entry(head.status.as_str()).or_default() += 1;
        let Some(wake) = head.wake.filter(|wake| *wake <= now) else {
            return;
        };
        if head.status.is_terminal() {
            self.expired += u64::from(wake.as_millis() > 0);
        } else if wake.as_millis() == 0 {
            self.in_flight += 1;
        } else {
            self.overdue += 1;
        }
    }

    /// How many executions there are.
    pub(crate) fn executions_total(&self) -> u64 {
        self.executions.values().sum()
    }

    /// Draws conclusions when everything has been looked at.
    pub(crate) fn conclude(&mut self) {
        if self.damaged_count > 0 {
            self.problems.push(format!(
                "{} damaged; an engine leaves them alone and serves the others: \
                 restore the folder from a backup, or stop using them",
                executions(self.damaged_count)
            ));
        }
    }
}

fn executions(count: u64) -> String {
    match count {
        1 => "1 execution is".to_owned(),
        _ => format!("{count} executions are"),
    }
}

impl Report for Findings {
    fn rows(&self) -> Vec<(String, String)> {
        let mut rows = Vec::new();
        let mut row = |what: &str, value: String| rows.push((what.to_owned(), value));
        row("folder", self.folder.clone());
        row("store", self.store.to_owned());
        let format = (self.format).map_or_else(|| "none".to_owned(), |format| format.to_string());
        row("format", format);
        row("sync", self.sync.to_owned());
        let closed = match self.closed_cleanly {
            Some(true) => "cleanly".to_owned(),
            Some(false) => "not closed: it was recovered when it was opened".to_owned(),
            None => "never: it is new".to_owned(),
        };
        row("last closed", closed);
        let size = format!("{} in {} files", bytes(self.files.bytes), self.files.count);
        row("on disk", size);
        row("not yet indexed", bytes(self.index_lag_bytes));
        row("executions", self.executions_total().to_string());
        for (status, count) in &self.executions {
            row(&format!("  {status}"), count.to_string());
        }
        row("  in flight", self.in_flight.to_string());
        row("  overdue", self.overdue.to_string());
        row("  to be deleted", self.expired.to_string());
        if self.deep {
            row("  held", self.held.to_string());
            row("  damaged", self.damaged_count.to_string());
            row("records read", self.records.to_string());
        } else {
            row("records", "not read: --deep reads them all".to_owned());
        }
        for damage in &self.damaged {
            row(
                "damaged",
                format!("{}: {}", damage.execution, damage.reason),
            );
        }
        for problem in &self.problems {
            row("PROBLEM", problem.clone());
        }
        if self.problems.is_empty() {
            row("verdict", "nothing wrong was found".to_owned());
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outlast::core::wire::ExecutionStatus;

    fn about(closed_cleanly: Option<bool>) -> About {
        About {
            kind: "a drawer",
            format: Some(7),
            sync: "never",
            closed_cleanly,
        }
    }

    fn head(status: ExecutionStatus, wake: Option<u64>) -> Head {
        Head {
            version: 1,
            function: "order".into(),
            function_version: "1".into(),
            name: "a".into(),
            status,
            started: Timestamp::from_millis(1),
            ended: None,
            wake: wake.map(Timestamp::from_millis),
        }
    }

    #[test]
    fn a_wake_is_in_flight_overdue_expired_or_to_come() {
        let mut findings = Findings::default();
        let now = Timestamp::from_millis(1_000);
        for wake in [None, Some(0), Some(999), Some(1_000), Some(1_001)] {
            findings.add(&head(ExecutionStatus::Running, wake), now);
            findings.add(&head(ExecutionStatus::Succeeded, wake), now);
        }
        assert_eq!(findings.executions_total(), 10);
        assert_eq!(findings.executions.len(), 2);
        assert_eq!(
            (findings.in_flight, findings.overdue, findings.expired),
            (1, 2, 2)
        );
    }

    #[test]
    fn what_the_store_says_of_itself_is_reported_in_words() {
        for (closed, words) in [
            (None, "never: it is new"),
            (Some(true), "cleanly"),
            (
                Some(false),
                "not closed: it was recovered when it was opened",
            ),
        ] {
            let findings = Findings::of(about(closed), &Status::default());
            let rows = findings.rows();
            for (what, value) in [
                ("store", "a drawer"),
                ("format", "7"),
                ("sync", "never"),
                ("last closed", words),
            ] {
                let row = (what.to_owned(), value.to_owned());
                assert!(rows.contains(&row), "{row:?} in {rows:?}");
            }
        }
    }

    #[test]
    fn damage_and_a_store_that_does_not_work_are_problems() {
        let mut findings = Findings::of(about(None), &Status::default());
        findings.conclude();
        assert!(findings.problems.is_empty());
        let status = Status {
            poisoned: Some("a sync failed".into()),
            full: true,
            ..Status::default()
        };
        let mut findings = Findings::of(about(None), &status);
        findings.damaged_count = 1;
        findings.conclude();
        assert_eq!(findings.problems.len(), 3, "{:?}", findings.problems);
        let rows = findings.rows();
        let problems = rows.iter().filter(|(what, _)| what == "PROBLEM");
        assert_eq!(problems.count(), 3);
    }
}
