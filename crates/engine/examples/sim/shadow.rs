//! What the disk holds, folded beside the engine, with everything checked that must always hold.

use outlast::core::{
    Execution, Record,
    id::OperationId,
    record::{Change, OperationChange, Starting, Subject, nothing},
    wire::{OperationAction, OperationStatus, OperationUpdate, sub_type},
};
use outlast_engine::store::Commit;
use std::{collections::BTreeMap, sync::Arc};

/// Bytes before each record in a run: its length and its checksum.
const FRAME_HEADER_BYTES: usize = 8;

/// An execution as the disk has it.
#[derive(Debug)]
pub(crate) struct Shadow {
    /// The fold of everything durable.
    pub(crate) execution: Execution,
    /// Whether retention has deleted it.
    pub(crate) deleted: bool,
    /// Timers by operation: the boot and the true time they were set at, and for how long.
    timers: BTreeMap<u32, Timer>,
}

#[derive(Clone, Copy, Debug)]
struct Timer {
    boot: usize,
    set_at: u64,
    seconds: u32,
}

/// When a commit was handed over: the boot, and the true time in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// The boot.
    pub(crate) boot: usize,
    /// The true time.
    pub(crate) at: u64,
}

/// A callback that somebody outside may answer.
#[derive(Clone, Debug)]
pub(crate) struct Opened {
    /// The name of its operation.
    pub(crate) name: Arc<str>,
    /// The operation.
    pub(crate) operation: OperationId,
    /// What answers it.
    pub(crate) callback_id: Arc<str>,
}

/// What a commit made durable.
#[derive(Debug, Default)]
pub(crate) struct News {
    /// What happened, in a few words.
    pub(crate) words: Vec<String>,
    /// Callbacks that were opened.
    pub(crate) opened: Vec<Opened>,
}

impl Shadow {
    /// Folds a durable commit into `shadow` and checks it.
    ///
    /// # Errors
    /// With the law that was broken.
    pub(crate) fn commit(
        shadow: &mut Option<Self>,
        commit: &Commit,
        moment: Moment,
    ) -> Result<News, String> {
        let mut news = News::default();
        let known = shadow.as_ref().map_or(0, |it| it.execution.records());
        demand(known == commit.expected, || {
            format!("version {} follows {known}", commit.expected)
        })?;
        for record in decode(&commit.records.bytes)? {
            match shadow {
                None => {
                    let execution = Execution::from_records([&record]);
                    *shadow = Some(Self {
                        execution: execution.map_err(|error| error.to_string())?,
                        deleted: false,
                        timers: BTreeMap::new(),
                    });
                }
                Some(shadow) => shadow.apply(&record, moment)?,
            }
            describe(&record, &mut news);
        }
        let Some(shadow) = shadow else {
            return Err("a commit without records created an execution".to_owned());
        };
        shadow.check_head(commit)?;
        shadow.check_snapshot(commit)?;
        shadow.execution.check_invariants()?;
        Ok(news)
    }

    fn apply(&mut self, record: &Record, moment: Moment) -> Result<(), String> {
        demand(!self.deleted, || "a deleted execution goes on".to_owned())?;
        let ended = self.execution.status().is_terminal();
        // An invocation that was running when its execution ended still ends itself.
        let late = matches!(record.change, Change::InvocationCompleted { .. });
        demand(!ended || late || !record.change.is_event(), || {
            format!("an event after the end: {:?}", record.change)
        })?;
        demand(
            record.events == self.execution.events() + u64::from(record.change.is_event()),
            || {
                format!(
                    "event {} follows {}",
                    record.events,
                    self.execution.events()
                )
            },
        )?;
        if let Change::Operation { subject, change } = &record.change {
            let number = match subject {
                Subject::New(_) => self.execution.operation_count(),
                Subject::Known(number) => *number,
            };
            self.check_timer(number, change, moment)?;
        }
        self.execution
            .apply(record)
            .map_err(|error| error.to_string())
    }

    /// Within one boot no timer fires early by true time, whatever the wall clock says.
    fn check_timer(
        &mut self,
        number: u32,
        change: &OperationChange,
        moment: Moment,
    ) -> Result<(), String> {
        let seconds = match change {
            OperationChange::Started(Starting::Wait { seconds }) => Some(*seconds),
            OperationChange::Retried { delay_seconds, .. } => Some(*delay_seconds),
            OperationChange::Ready
            | OperationChange::Closed {
                status: OperationStatus::Succeeded,
                ..
            } => {
                if let Some(timer) = self.timers.remove(&number)
                    && timer.boot == moment.boot
                {
                    let passed = moment.at - timer.set_at;
                    demand(passed >= u64::from(timer.seconds) * 1_000, || {
                        format!("a timer of {} s fired after {passed} ms", timer.seconds)
                    })?;
                }
                None
            }
            OperationChange::Started(_)
            | OperationChange::Heartbeat { .. }
            | OperationChange::Closed { .. }
            | OperationChange::SignalTaken => None,
        };
        if let Some(seconds) = seconds {
            let timer = Timer {
                boot: moment.boot,
                set_at: moment.at,
                seconds,
            };
            self.timers.insert(number, timer);
        }
        Ok(())
    }

    fn check_head(&self, commit: &Commit) -> Result<(), String> {
        let (execution, head) = (&self.execution, &commit.head);
        demand(
            head.version == execution.records()
                && head.status == execution.status()
                && head.ended == execution.ended()
                && head.started == execution.started(),
            || format!("a head that is not its execution's: {head:?}"),
        )?;
        let running = !execution.status().is_terminal();
        let busy = execution.invocation().is_some() || execution.has_intents();
        demand((!running && !busy) || head.wake.is_some(), || {
            format!("nobody will look at it: {head:?}")
        })?;
        demand(
            !busy || head.wake.is_some_and(|at| at.as_millis() == 0),
            || format!("a crash would leave it alone: {head:?}"),
        )?;
        demand(
            execution
                .next_wake()
                .is_none_or(|at| head.wake.is_some_and(|wake| wake <= at)),
            || format!("it wakes after its first timer: {head:?}"),
        )
    }

    /// Whoever goes on from a snapshot goes on from the same execution.
    fn check_snapshot(&self, commit: &Commit) -> Result<(), String> {
        let Some(snapshot) = &commit.snapshot else {
            return Ok(());
        };
        let restored = Execution::from_snapshot(snapshot).map_err(|error| error.to_string())?;
        let mut folded = self.execution.clone();
        folded.release_payloads();
        demand(restored == folded, || {
            format!("a snapshot of {restored:?}, which is {folded:?}")
        })
    }

    /// What an acknowledged update promised is durable.
    pub(crate) fn check_update(&self, update: &OperationUpdate) -> Result<(), String> {
        let found = self.execution.operation(&update.id, &nothing);
        let found = found.map_err(|error| error.to_string())?;
        let Some(operation) = found else {
            return Err(format!(
                "{} of {} was acknowledged and is not there",
                update.action, update.id
            ));
        };
        let status = operation.status;
        let kept = match update.action {
            OperationAction::Start => true,
            OperationAction::Succeed => status == OperationStatus::Succeeded,
            OperationAction::Fail => status == OperationStatus::Failed,
            OperationAction::Retry => operation
                .step_details
                .as_ref()
                .is_some_and(|details| details.attempt > 0),
            OperationAction::Cancel => status.is_terminal(),
        };
        demand(kept, || {
            format!(
                "{} of {} was acknowledged and it is {status}",
                update.action, update.id
            )
        })
    }

    /// Whether an operation, or the whole execution, is over.
    pub(crate) fn is_over(&self, operation: &OperationId) -> bool {
        let found = self.execution.operation(operation, &nothing);
        self.execution.status().is_terminal()
            || matches!(found, Ok(Some(operation)) if operation.status.is_terminal())
    }
}

fn demand(holds: bool, law: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(law()) }
}

/// Reads the records of a run without the engine's help.
fn decode(mut bytes: &[u8]) -> Result<Vec<Record>, String> {
    let mut records = Vec::new();
    while let Some((length, _)) = bytes.split_first_chunk::<4>() {
        let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
        let frame = bytes.get(FRAME_HEADER_BYTES..FRAME_HEADER_BYTES + length);
        let body = frame.ok_or("a frame is cut off")?;
        records.push(Record::decode(body).map_err(|error| error.to_string())?);
        bytes = bytes.get(FRAME_HEADER_BYTES + length..).unwrap_or_default();
    }
    Ok(records)
}

fn describe(record: &Record, news: &mut News) {
    let Change::Operation { subject, change } = &record.change else {
        news.words.push(first_word(&record.change));
        return;
    };
    let who = match subject {
        Subject::New(identity) => identity.name.as_deref().unwrap_or("").to_owned(),
        Subject::Known(number) => format!("#{number}"),
    };
    let what = match change {
        OperationChange::Closed { status, .. } => status.to_string(),
        OperationChange::Started(starting) => format!("started {}", first_word(starting)),
        OperationChange::Retried { .. }
        | OperationChange::Ready
        | OperationChange::Heartbeat { .. }
        | OperationChange::SignalTaken => first_word(change),
    };
    news.words.push(format!("{who} {what}"));
    if let Subject::New(identity) = subject
        && let OperationChange::Started(Starting::Callback { callback_id, .. }) = change
        && identity.sub_type.as_deref() != Some(sub_type::SIGNAL)
    {
        news.opened.push(Opened {
            name: identity.name.clone().unwrap_or_else(|| "".into()),
            operation: identity.id.clone(),
            callback_id: callback_id.clone(),
        });
    }
}

fn first_word(value: &impl std::fmt::Debug) -> String {
    let text = format!("{value:?}");
    let end = text.find(|letter: char| !letter.is_alphanumeric());
    text.get(..end.unwrap_or(text.len()))
        .unwrap_or_default()
        .to_owned()
}
