//! What the ledger says: what was acknowledged, what contradicts itself, and what is still owed.

use crate::ledger;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::{Read as _, Seek as _, SeekFrom},
    path::Path,
};

/// Something that was sent, in the order of sending, and whether it was acknowledged.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) value: String,
    pub(crate) acknowledged: bool,
}

/// What somebody noted about one execution.
#[derive(Clone, Debug, Default)]
pub(crate) struct Noted {
    /// Answers, signals or stops.
    pub(crate) sent: Vec<Sent>,
    /// The callback it waits for.
    pub(crate) asked: Option<String>,
    pub(crate) ended: Option<String>,
    /// Function and input, once its start was acknowledged.
    pub(crate) started: Option<(String, u64)>,
    /// Steps whose outcome the handler was given.
    got: BTreeSet<String>,
    /// Attempts of steps whose bodies ran, and how often.
    pub(crate) ran: BTreeMap<(String, u32), u32>,
}

/// Everything that was noted.
#[derive(Debug, Default)]
pub(crate) struct Book {
    pub(crate) executions: BTreeMap<String, Noted>,
    /// Starts that were asked for and, once acknowledged, their ARNs.
    pub(crate) starts: BTreeMap<(String, u64), Option<String>>,
    /// Children by parent and place.
    pub(crate) children: BTreeMap<(String, String), BTreeSet<String>>,
    /// What the ledger alone shows to be wrong.
    pub(crate) problems: Vec<String>,
    begun: BTreeSet<String>,
    lines: u64,
    read_bytes: u64,
}

/// What a killed process left undone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Debt {
    Start { function: String, input: u64 },
    Answer { arn: String, id: String },
    Signal { arn: String },
    Stop { arn: String },
}

impl Book {
    /// Reads what was added to the ledger.
    pub(crate) fn read(&mut self, place: &Path) -> &Self {
        let mut file = File::open(ledger::path(place)).unwrap();
        file.seek(SeekFrom::Start(self.read_bytes)).unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        for line in text[..whole].lines() {
            self.lines += 1;
            self.enter(&line.split('\t').collect::<Vec<_>>());
        }
        self.read_bytes += u64::try_from(whole).unwrap();
        self
    }

    pub(crate) fn has_begun(&self, boot: u64) -> bool {
        self.begun.contains(&boot.to_string())
    }

    fn enter(&mut self, line: &[&str]) {
        match *line {
            ["begun", mark] => {
                self.begun.insert(mark.to_owned());
            }
            ["broken", what] => self.problems.push(format!("a client failed: {what}")),
            ["starting", function, name] => {
                let start = (function.to_owned(), name.parse().unwrap());
                self.starts.entry(start).or_default();
            }
            ["started", function, name, arn] => self.enter_start(function, name, arn),
            ["ran", arn, step, attempt, mode] => {
                self.enter_run(arn, step, attempt.parse().unwrap(), mode);
            }
            ["got", arn, step] => {
                self.noted(arn).got.insert(step.to_owned());
            }
            ["asked", arn, id] => self.enter_question(arn, id),
            ["child", parent, index, arn] => {
                let place = (parent.to_owned(), index.to_owned());
                let children = self.children.entry(place).or_default();
                children.insert(arn.to_owned());
            }
            ["answering" | "signalling" | "stopping", arn, value] => {
                self.noted(arn).sent.push(Sent {
                    value: value.to_owned(),
                    acknowledged: false,
                });
            }
            ["answered" | "signalled" | "stopped", arn, value] => {
                let sent = self.noted(arn).sent.iter_mut();
                let found = sent.rev().find(|sent| sent.value == value);
                found.unwrap().acknowledged = true;
            }
            ["refused", arn, value] => {
                self.noted(arn).sent.retain(|sent| sent.value != value);
            }
            ["ended", arn, end] => self.enter_end(arn, end),
            _ => self
                .problems
                .push(format!("the ledger has a strange line: {line:?}")),
        }
    }

    fn noted(&mut self, arn: &str) -> &mut Noted {
        self.executions.entry(arn.to_owned()).or_default()
    }

    fn enter_start(&mut self, function: &str, name: &str, arn: &str) {
        let start = (function.to_owned(), name.parse().unwrap());
        self.noted(arn).started = Some(start.clone());
        let before = self.starts.insert(start, Some(arn.to_owned())).flatten();
        if let Some(before) = before.filter(|before| before != arn) {
            let problem = format!("the start {function} {name} made {before}, then {arn}");
            self.problems.push(problem);
        }
    }

    fn enter_run(&mut self, arn: &str, step: &str, attempt: u32, mode: &str) {
        let noted = self.noted(arn);
        let runs = noted.ran.entry((step.to_owned(), attempt)).or_default();
        *runs += 1;
        let twice = mode == "most" && *runs > 1;
        let again = noted.got.contains(step);
        if again {
            let problem = format!("{step} of {arn} ran again after it was acknowledged");
            self.problems.push(problem);
        }
        if twice {
            let problem = format!("attempt {attempt} of {step} of {arn} ran twice");
            self.problems.push(problem);
        }
    }

    fn enter_question(&mut self, arn: &str, id: &str) {
        let before = self.noted(arn).asked.replace(id.to_owned());
        if before.is_some_and(|before| before != id) {
            let problem = format!("{arn} asked with two callback ids");
            self.problems.push(problem);
        }
    }

    fn enter_end(&mut self, arn: &str, end: &str) {
        let before = self.noted(arn).ended.replace(end.to_owned());
        if let Some(before) = before.filter(|before| before != end) {
            let problem = format!("{arn} ended as {before}, then as {end}");
            self.problems.push(problem);
        }
    }

    fn owed(&self) -> Vec<Debt> {
        let unstarted = self.starts.iter().filter(|(_, arn)| arn.is_none());
        let mut owed: Vec<Debt> = unstarted
            .map(|((function, input), _)| Debt::Start {
                function: function.clone(),
                input: *input,
            })
            .collect();
        for (arn, noted) in &self.executions {
            let acknowledged = noted.sent.iter().filter(|sent| sent.acknowledged).count();
            let function = noted.started.as_ref().map(|(function, _)| &**function);
            let arn = arn.clone();
            match (function, &noted.asked) {
                _ if noted.ended.is_some() => {}
                (_, Some(id)) if acknowledged == 0 => owed.push(Debt::Answer {
                    arn,
                    id: id.clone(),
                }),
                (Some("listen"), _) if acknowledged < 2 => owed.push(Debt::Signal { arn }),
                (Some("forever"), _) if acknowledged == 0 => owed.push(Debt::Stop { arn }),
                _ => {}
            }
        }
        owed
    }

    /// Tells the next process what is owed.
    pub(crate) fn write_owed(&self, place: &Path) {
        let mut text = String::new();
        for debt in self.owed() {
            text += &match debt {
                Debt::Start { function, input } => format!("start\t{function}\t{input}\n"),
                Debt::Answer { arn, id } => format!("answer\t{arn}\t{id}\n"),
                Debt::Signal { arn } => format!("signal\t{arn}\n"),
                Debt::Stop { arn } => format!("stop\t{arn}\n"),
            };
        }
        std::fs::write(place.join("owed"), text).unwrap();
    }

    /// How much happened.
    pub(crate) fn summary(&self) -> String {
        let noted = self.executions.values();
        let runs: u32 = noted.clone().flat_map(|noted| noted.ran.values()).sum();
        let attempts: usize = noted.clone().map(|noted| noted.ran.len()).sum();
        let got: usize = noted.clone().map(|noted| noted.got.len()).sum();
        let sent = noted.flat_map(|noted| &noted.sent);
        format!(
            "{} lines: {} executions, {} children, {attempts} attempts of steps in {runs} runs, {got} steps \
             acknowledged, {} of {} messages acknowledged",
            self.lines,
            self.executions.len(),
            self.children.len(),
            sent.clone().filter(|sent| sent.acknowledged).count(),
            sent.count(),
        )
    }
}

/// What the book says is owed.
pub(crate) fn read_owed(place: &Path) -> Vec<Debt> {
    let text = std::fs::read_to_string(place.join("owed")).unwrap();
    let debt = |line: &str| match *line.split('\t').collect::<Vec<_>>() {
        ["start", function, input] => Debt::Start {
            function: function.to_owned(),
            input: input.parse().unwrap(),
        },
        ["answer", arn, id] => Debt::Answer {
            arn: arn.to_owned(),
            id: id.to_owned(),
        },
        ["signal", arn] => Debt::Signal {
            arn: arn.to_owned(),
        },
        ["stop", arn] => Debt::Stop {
            arn: arn.to_owned(),
        },
        _ => panic!("a strange debt: {line}"),
    };
    text.lines().map(debt).collect()
}
