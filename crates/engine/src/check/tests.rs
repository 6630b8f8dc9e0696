//! Damage of every kind is found, wherever it lies.

use super::*;
use crate::store::{About, Commit, Committing, Head, Query, Run, Status, Stored, Wake};
use outlast_core::{
    Env, Input, Quotas, Start,
    arn::Function,
    record::nothing,
    time::Timestamp,
    token::{Key, Keys},
    wire::DurableConfig,
};

/// One execution; every record is a run of its own.
struct One {
    id: ExecutionId,
    stored: Stored,
}

impl Store for One {
    fn commit(&self, _: Commit) -> Committing {
        unreachable!()
    }
    fn delete(&self, _: ExecutionId, _: u64) -> Committing {
        unreachable!()
    }
    fn head(&self, _: ExecutionId) -> Result<Option<Head>, StoreError> {
        unreachable!()
    }
    fn load(&self, id: ExecutionId) -> Result<Option<Stored>, StoreError> {
        Ok((id == self.id).then(|| self.stored.clone()))
    }
    fn records(&self, _: ExecutionId, from: u64, _: usize) -> Result<Vec<Run>, StoreError> {
        let runs = self.stored.records.iter();
        Ok(runs
            .filter(|run| run.first >= from)
            .take(1)
            .cloned()
            .collect())
    }
    fn find(&self, _: &str, _: &str) -> Result<Option<ExecutionId>, StoreError> {
        unreachable!()
    }
    fn due(&self, _: Option<Wake>, _: Timestamp, _: usize) -> Result<Vec<Wake>, StoreError> {
        unreachable!()
    }
    fn list(&self, _: &Query) -> Result<Vec<(ExecutionId, Head)>, StoreError> {
        unreachable!()
    }
    fn setting(&self, _: &str) -> Result<Option<Vec<u8>>, StoreError> {
        unreachable!()
    }
    fn put_setting(&self, _: &str, _: Vec<u8>) -> Committing {
        unreachable!()
    }
    fn status(&self) -> Status {
        unreachable!()
    }
    fn about(&self) -> About {
        unreachable!()
    }
    fn close(&self) {}
}

/// An execution that has been started, invoked and stopped.
fn stopped() -> One {
    let keys = Keys::new(Key::new(1, [7; 32]));
    let quotas = Quotas::unlimited();
    let env = Env {
        now: Timestamp::from_millis(1_000),
        random: [3; 32],
        keys: &keys,
        limits: &quotas,
        resolve: &|_| unreachable!(),
        load: &nothing,
    };
    let start = Start {
        function: Function {
            partition: "aws".into(),
            region: "local".into(),
            account: "000000000000".into(),
            name: "order".into(),
            version: "1".into(),
        },
        name: Some("a".into()),
        input: None,
        config: DurableConfig {
            execution_timeout: 60,
            retention_period_in_days: None,
            kms_key_arn: None,
        },
        synchronous: false,
        tenant: None,
        trace: None,
        client_context: None,
        parent: None,
    };
    let (mut execution, mut records) = Execution::start(&env, start).unwrap();
    let invoke = Input::Invoke {
        invocation_id: "i".into(),
    };
    for input in [invoke, Input::Stop { error: None }] {
        records.extend(execution.decide(&env, input).unwrap().records);
    }
    let runs = records
        .iter()
        .map(|record| frame::run(std::slice::from_ref(record)));
    One {
        id: execution.id(),
        stored: Stored {
            head: head(&execution, None),
            snapshot: None,
            records: runs.collect(),
        },
    }
}

fn reason(store: &One) -> String {
    match check(store, store.id) {
        Err(StoreError::Damaged { reason, .. }) => reason.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_sound_execution_is_read_whole() {
    let store = stopped();
    let records = store.stored.records.len() as u64;
    assert!(records >= 3);
    let sound = Sound {
        records,
        held: false,
    };
    assert_eq!(check(&store, store.id).unwrap(), Some(sound));
}

#[test]
fn an_execution_that_is_not_there_is_nothing() {
    let other = ExecutionId::from_bits(1);
    assert_eq!(check(&stopped(), other).unwrap(), None);
}

#[test]
fn a_changed_byte_in_any_record_is_found() {
    for index in 0..stopped().stored.records.len() {
        let mut store = stopped();
        *store.stored.records[index].bytes.last_mut().unwrap() ^= 1;
        let reason = reason(&store);
        assert!(reason.contains(&format!("record {index}")), "{reason}");
    }
}

#[test]
fn a_missing_record_is_found_at_any_place() {
    for index in 0..stopped().stored.records.len() {
        let mut store = stopped();
        store.stored.records.remove(index);
        reason(&store);
    }
    let mut store = stopped();
    store.stored.records.clear();
    assert_eq!(reason(&store), "it has no records");
}

#[test]
fn a_head_that_says_something_else_is_found() {
    let mut store = stopped();
    store.stored.head.ended = None;
    assert_eq!(reason(&store), "its records and its head disagree");
}

#[test]
fn a_snapshot_that_makes_no_sense_is_found() {
    let mut store = stopped();
    store.stored.snapshot = Some((1, vec![0xff; 10]));
    reason(&store);
}
