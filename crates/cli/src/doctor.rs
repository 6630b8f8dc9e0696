//! `outlast doctor`: looks at a data folder that no engine has open.
//!
//! It calls no handler and changes no execution. Opening the store may finish what a crash left
//! half done, as the next engine would. Whatever is wrong is said in words, and the exit code tells.

mod files;
mod findings;

use crate::{
    arguments::Doctor,
    doctor::{
        files::{Files, find_store},
        findings::{Damage, Findings},
    },
    output::{Output, Verdict},
};
use anyhow::Context;
use outlast::core::{arn::ExecutionId, time::Timestamp};
use outlast_engine::{
    check,
    clock::{Clock, EngineClock},
    store::{
        Head, Query, Store, StoreError, Wake,
        journaled::{JournaledStore, Options},
    },
};
use std::collections::BTreeMap;

/// Heads or wakes read at a time.
const READ_MAX: usize = 1_000;
/// Damaged executions that are named; the others are only counted.
const DAMAGE_MAX: usize = 100;

/// Examines the folder and reports.
///
/// # Errors
/// When there is nothing to examine, or it cannot be read at all.
pub(crate) fn run(doctor: &Doctor, output: &Output) -> anyhow::Result<Verdict> {
    find_store(&doctor.data)?;
    let options = Options {
        // Whoever asks a doctor wants to know.
        check_first: true,
        ..Options::default()
    };
    let store = JournaledStore::open(&doctor.data, options)
        .with_context(|| format!("the folder {} cannot be opened", doctor.data.display()))?;
    let now = EngineClock::system().now();
    let examined = examine(&store, doctor, now, *output);
    // Opened means to be closed, or the next one finds a folder that was not.
    store.close();
    let findings = Findings {
        folder: doctor.data.display().to_string(),
        files: Files::below(&doctor.data)?,
        ..examined?
    };
    output.report(&findings)?;
    Ok(if findings.problems.is_empty() {
        Verdict::Good
    } else {
        Verdict::Bad
    })
}

fn examine(
    store: &dyn Store,
    doctor: &Doctor,
    now: Timestamp,
    output: Output,
) -> anyhow::Result<Findings> {
    let mut findings = Findings::of(store.about(), &store.status());
    let heads = count_heads(store, now, &mut findings)?;
    if doctor.deep {
        let bar = output.progress("reading executions", findings.executions_total());
        each_head(store, |id, _| {
            bar.inc(1);
            examine_execution(store, id, &mut findings)
        })?;
        bar.finish_and_clear();
        compare_wakes(store, &heads, &mut findings)?;
        findings.deep = true;
    }
    findings.conclude();
    Ok(findings)
}

/// What the heads say about wakes, by when.
#[derive(Debug, Default)]
struct Heads {
    wakes: BTreeMap<Timestamp, u64>,
}

fn count_heads(
    store: &dyn Store,
    now: Timestamp,
    findings: &mut Findings,
) -> anyhow::Result<Heads> {
    let mut heads = Heads::default();
    each_head(store, |_, head| {
        findings.add(head, now);
        if let Some(wake) = head.wake {
            *heads.wakes.entry(wake).or_default() += 1;
        }
        Ok(())
    })?;
    Ok(heads)
}

fn each_head(
    store: &dyn Store,
    mut look: impl FnMut(ExecutionId, &Head) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut query = Query {
        max: READ_MAX,
        ..Query::default()
    };
    loop {
        let page = store
            .list(&query)
            .context("the executions cannot be listed")?;
        for (id, head) in &page {
            look(*id, head)?;
        }
        match page.last() {
            Some((id, head)) if page.len() == READ_MAX => query.after = Some((head.started, *id)),
            _ => return Ok(()),
        }
    }
}

fn examine_execution(
    store: &dyn Store,
    id: ExecutionId,
    findings: &mut Findings,
) -> anyhow::Result<()> {
    match check(store, id) {
        Ok(sound) => {
            findings.records += sound.map_or(0, |sound| sound.records);
            findings.held += u64::from(sound.is_some_and(|sound| sound.held));
        }
        Err(StoreError::Damaged { reason, .. }) => {
            findings.damaged_count += 1;
            if findings.damaged.len() < DAMAGE_MAX {
                findings.damaged.push(Damage {
                    execution: id.to_string(),
                    reason: reason.to_string(),
                });
            }
        }
        Err(error @ StoreError::Unreadable(_)) => return Err(error.into()),
    }
    Ok(())
}

/// Every wake of a head has to be in the index: a timer that is not would never fire.
fn compare_wakes(store: &dyn Store, heads: &Heads, findings: &mut Findings) -> anyhow::Result<()> {
    let mut indexed: BTreeMap<Timestamp, u64> = BTreeMap::new();
    let mut after: Option<Wake> = None;
    loop {
        let until = Timestamp::from_millis(i64::MAX as u64);
        let page = store
            .due(after, until, READ_MAX)
            .context("the wakes cannot be read")?;
        for wake in &page {
            *indexed.entry(wake.at).or_default() += 1;
        }
        match page.last() {
            Some(last) if page.len() == READ_MAX => after = Some(*last),
            _ => break,
        }
    }
    if indexed != heads.wakes {
        let (known, found): (u64, u64) = (heads.wakes.values().sum(), indexed.values().sum());
        findings.problems.push(format!(
            "the index of wakes is wrong: it has {found} entries, the executions have {known}, \
             and they are not the same"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
