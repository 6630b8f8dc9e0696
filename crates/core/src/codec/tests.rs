//! Every record reads back, damage is refused, and format 1 stays as it is.

use super::*;
use crate::{
    arn::{ExecutionArn, ExecutionId},
    id::Position,
    properties::{any_journal, config},
    record::{
        Change, Ending, HoldCause, Identity, IntentKey, InvokeStart, InvokeTarget, OperationChange,
        ParentLink, Profile, SharedError, Starting, Subject,
    },
    wire::{DurableConfig, ErrorObject, ExecutionStatus, OperationStatus, OperationType},
    world::{at, function},
};
use alloc::{format, string::ToString as _, vec};
use proptest::prelude::*;

/// One record of each kind as format 1 wrote it; never regenerated.
const FORMAT_1: &str = include_str!("format_1.txt");

fn encoded(record: &Record) -> Vec<u8> {
    let mut bytes = Vec::new();
    record.encode(&mut bytes);
    bytes
}

fn written(value: &impl Binary) -> Vec<u8> {
    let mut bytes = Vec::new();
    value.write(&mut bytes);
    bytes
}

/// Reads all of `bytes` as one value.
fn read<T: Binary>(bytes: &[u8]) -> Result<T, Undecodable> {
    let mut input = Reader {
        rest: bytes,
        length: bytes.len(),
    };
    let value = T::read(&mut input)?;
    input.end()?;
    Ok(value)
}

fn error() -> SharedError {
    Arc::new(ErrorObject {
        error_type: Some("Boom".into()),
        error_message: Some("it broke: ü".into()),
        error_data: Some("{\"code\":7}".into()),
        stack_trace: Some(vec!["main".into(), String::new()]),
    })
}

fn arn(name: &str) -> ExecutionArn {
    ExecutionArn::new(function("order"), name.into(), ExecutionId::from_bits(42))
}

fn settings() -> DurableConfig {
    DurableConfig {
        execution_timeout: 31_622_400,
        retention_period_in_days: Some(90),
        kms_key_arn: Some("arn:aws:kms:us-east-1:123456789012:key/1".into()),
    }
}

fn plain_settings() -> DurableConfig {
    DurableConfig {
        execution_timeout: 1,
        retention_period_in_days: None,
        kms_key_arn: None,
    }
}

fn identity(operation_type: OperationType, label: Option<&str>) -> Identity {
    Identity {
        id: Position::root().child(3).id(),
        operation_type,
        parent: Some("a context".into()),
        name: Some("charge".into()),
        sub_type: label.map(Arc::from),
    }
}

/// Names of samples, with what is sampled.
type Samples<T> = Vec<(&'static str, T)>;

/// One change of each kind, every field filled in one of them and left out in another.
fn changes() -> Samples<Change> {
    let about_operations = [operation_starts(), operation_moves(), operation_ends()].concat();
    let about_operations = about_operations
        .into_iter()
        .map(|(name, (subject, change))| (name, Change::Operation { subject, change }));
    let mut changes = [
        execution_starts(),
        execution_ends(),
        execution_moves(),
        invocation_changes(),
    ]
    .concat();
    changes.extend(about_operations);
    changes
}

fn execution_starts() -> Samples<Change> {
    let full = Profile {
        arn: arn("run-1"),
        config: settings(),
        synchronous: true,
        input_digest: "00ff".repeat(16),
        tenant: Some("tenant".into()),
        trace: Some("Root=1-2".into()),
        client_context: Some("e30=".into()),
        parent: Some(ParentLink {
            execution: arn("parent"),
            operation: Position::root().child(9).id(),
        }),
    };
    let bare = Profile {
        config: plain_settings(),
        synchronous: false,
        tenant: None,
        trace: None,
        client_context: None,
        parent: None,
        ..full.clone()
    };
    let started = |profile| Change::ExecutionStarted {
        profile: Arc::new(profile),
        input: "{\"n\":1}".into(),
    };
    vec![
        ("started-full", started(full)),
        ("started-bare", started(bare)),
    ]
}

fn execution_ends() -> Samples<Change> {
    use ExecutionStatus::{Failed, Running, Stopped, Succeeded, TimedOut};
    let closed = |status, result: Option<&str>, error| Change::ExecutionClosed {
        status,
        result: result.map(Arc::from),
        error,
    };
    vec![
        ("closed-running", closed(Running, None, None)),
        ("closed-succeeded", closed(Succeeded, Some("42"), None)),
        ("closed-failed", closed(Failed, None, Some(error()))),
        ("closed-timed-out", closed(TimedOut, None, None)),
        (
            "closed-stopped",
            closed(Stopped, None, Some(Arc::default())),
        ),
    ]
}

fn execution_moves() -> Samples<Change> {
    let held = |cause| Change::Held {
        cause,
        reason: error(),
    };
    let signal = |payload: Option<&str>| Change::SignalBuffered {
        name: "go".into(),
        payload: payload.map(Arc::from),
    };
    let acknowledged = |intent| Change::Acknowledged { intent };
    let invoke = IntentKey::Invoke("not a digest".into());
    vec![
        ("held-mismatch", held(HoldCause::Mismatch)),
        ("held-no-progress", held(HoldCause::NoProgress)),
        ("held-operator", held(HoldCause::Operator)),
        ("resumed", Change::Resumed),
        ("signal", signal(Some("\"now\""))),
        ("signal-empty", signal(None)),
        ("acknowledged-parent", acknowledged(IntentKey::Parent)),
        ("acknowledged-invoke", acknowledged(invoke)),
    ]
}

fn invocation_changes() -> Samples<Change> {
    let completed = |ending| Change::InvocationCompleted {
        invocation: "invocation-1".into(),
        started: at(1),
        error: Some(error()),
        ending,
    };
    let dropped = |error, ending| Change::InvocationDropped {
        invocation: "invocation-1".into(),
        error,
        ending,
    };
    let retry_at = at(1_000);
    let failed = |interrupted| Ending::Failed {
        retry_at,
        interrupted,
    };
    vec![
        (
            "invocation-started",
            Change::InvocationStarted {
                invocation: "invocation-1".into(),
            },
        ),
        ("completed-clean", completed(Ending::Clean)),
        ("completed-failed", completed(failed(false))),
        ("completed-interrupted", completed(failed(true))),
        (
            "completed-empty-pending",
            completed(Ending::EmptyPending { retry_at }),
        ),
        (
            "dropped-undelivered",
            dropped(None, Ending::Undelivered { retry_at }),
        ),
        ("dropped-clean", dropped(Some(error()), Ending::Clean)),
        (
            "checkpointed",
            Change::Checkpointed {
                client_token: Some("client-1".into()),
                key: 7,
                updates: 200,
            },
        ),
        (
            "checkpointed-bare",
            Change::Checkpointed {
                client_token: None,
                key: 0,
                updates: 0,
            },
        ),
    ]
}

fn operation_starts() -> Samples<(Subject, OperationChange)> {
    use OperationType::{Callback, ChainedInvoke, Context, Step, Wait};
    let new = |operation_type, label, starting| {
        let identity = identity(operation_type, label);
        (Subject::New(identity), OperationChange::Started(starting))
    };
    let bare = Identity {
        id: "1".into(),
        operation_type: Step,
        parent: None,
        name: None,
        sub_type: None,
    };
    let bare = (Subject::New(bare), OperationChange::Started(Starting::Step));
    let wait = Starting::Wait { seconds: 300 };
    let callback = Starting::Callback {
        callback_id: "callback-1".into(),
        timeout_seconds: 60,
        heartbeat_seconds: 0,
    };
    let durable = invoke(Some(InvokeTarget::Durable {
        child: arn("child"),
        config: plain_settings(),
    }));
    let plain = invoke(Some(InvokeTarget::Plain {
        version: "$LATEST".into(),
    }));
    let refused = invoke(None);
    vec![
        ("context", new(Context, Some("Map"), Starting::Context)),
        ("step", new(Step, Some("Step"), Starting::Step)),
        ("step-bare", bare),
        ("wait", new(Wait, Some("Wait"), wait)),
        ("callback", new(Callback, Some("Signal"), callback)),
        (
            "invoke-durable",
            new(ChainedInvoke, Some("my own"), durable),
        ),
        ("invoke-plain", new(ChainedInvoke, None, plain)),
        ("invoke-refused", new(ChainedInvoke, Some(""), refused)),
    ]
}

fn operation_moves() -> Samples<(Subject, OperationChange)> {
    let known = |change| (Subject::Known(70_000), change);
    let retried = OperationChange::Retried {
        result: Some("1".into()),
        error: Some(error()),
        attempt: 2,
        delay_seconds: u32::MAX,
    };
    let heartbeat = OperationChange::Heartbeat {
        deadline: at(5_000),
    };
    let execution = Subject::New(identity(OperationType::Execution, None));
    vec![
        ("execution-operation", (execution, OperationChange::Ready)),
        ("retried", known(retried)),
        ("ready", known(OperationChange::Ready)),
        ("heartbeat", known(heartbeat)),
        ("signal-taken", known(OperationChange::SignalTaken)),
    ]
}

fn operation_ends() -> Samples<(Subject, OperationChange)> {
    use OperationStatus::{
        Cancelled, Failed, Pending, Ready, Started, Stopped, Succeeded, TimedOut,
    };
    let closed = |status, result: Option<&str>, error| {
        let change = OperationChange::Closed {
            status,
            result: result.map(Arc::from),
            error,
            attempt: 3,
            replay_children: result.is_none(),
        };
        (Subject::Known(70_000), change)
    };
    vec![
        ("op-started", closed(Started, None, None)),
        ("op-pending", closed(Pending, None, None)),
        ("op-ready", closed(Ready, None, None)),
        ("op-succeeded", closed(Succeeded, Some("[1,2]"), None)),
        ("op-failed", closed(Failed, None, Some(error()))),
        ("op-cancelled", closed(Cancelled, None, None)),
        ("op-timed-out", closed(TimedOut, None, None)),
        ("op-stopped", closed(Stopped, None, None)),
    ]
}

fn invoke(target: Option<InvokeTarget>) -> Starting {
    let given = target.is_some();
    Starting::Invoke(Box::new(InvokeStart {
        function_name: "durable:1".into(),
        tenant: given.then(|| "tenant".into()),
        trace: given.then(|| "Root=1".into()),
        input: given.then(|| "{\"x\":1}".into()),
        target,
    }))
}

fn samples() -> Samples<Record> {
    (0u64..)
        .zip(changes())
        .map(|(index, (name, change))| {
            let record = Record {
                number: index * 1_000,
                events: index * 900,
                at: at(index),
                change,
            };
            (name, record)
        })
        .collect()
}

#[test]
fn every_kind_of_record_reads_back() {
    for (name, record) in samples() {
        assert_eq!(Record::decode(&encoded(&record)), Ok(record), "{name}");
    }
}

#[test]
fn records_of_format_1_are_read_and_written_as_ever() {
    let lines: Vec<(&str, &str)> = FORMAT_1
        .lines()
        .map(|line| line.split_once(' ').unwrap())
        .collect();
    let samples = samples();
    assert_eq!(lines.len(), samples.len());
    for ((name, hex), (expected_name, record)) in lines.into_iter().zip(samples) {
        assert_eq!(name, expected_name);
        let bytes = crate::token::unhex(hex).unwrap();
        assert_eq!(Record::decode(&bytes), Ok(record.clone()), "{name}");
        assert_eq!(encoded(&record), bytes, "{name}");
    }
}

#[test]
fn payloads_lie_in_a_record_raw_and_once() {
    let payload = "\"a payload with \\\" and ü\"";
    let record = Record {
        number: 1,
        events: 1,
        at: at(0),
        change: Change::SignalBuffered {
            name: "go".into(),
            payload: Some(payload.into()),
        },
    };
    let bytes = encoded(&record);
    let found = bytes
        .windows(payload.len())
        .filter(|window| *window == payload.as_bytes());
    assert_eq!(found.count(), 1);
    assert_eq!(bytes.len(), payload.len() + 15);
}

#[test]
fn encoding_appends_and_leaves_what_is_there() {
    let (_, record) = samples().remove(0);
    let mut bytes = vec![9, 9];
    record.encode(&mut bytes);
    assert_eq!(bytes[..2], [9, 9]);
    assert_eq!(Record::decode(&bytes[2..]), Ok(record));
}

#[test]
fn a_record_cut_off_anywhere_or_followed_by_anything_is_refused() {
    for (name, record) in samples() {
        let mut bytes = encoded(&record);
        for length in 0..bytes.len() {
            assert!(Record::decode(&bytes[..length]).is_err(), "{name} {length}");
        }
        bytes.push(0);
        let damage = Undecodable::Damaged {
            at: bytes.len() - 1,
            reason: "more bytes than were written",
        };
        assert_eq!(Record::decode(&bytes), Err(damage), "{name}");
    }
}

/// Whatever decodes is a record: it reads back, and takes no more room than it had.
fn check_damaged(bytes: &[u8]) {
    if let Ok(record) = Record::decode(bytes) {
        let again = encoded(&record);
        assert_eq!(Record::decode(&again), Ok(record));
        assert!(again.len() <= bytes.len());
    }
}

#[test]
fn no_value_of_any_byte_of_a_record_does_harm() {
    for (_, record) in samples() {
        let bytes = encoded(&record);
        for index in 0..bytes.len() {
            let mut damaged = bytes.clone();
            for value in 0..=u8::MAX {
                damaged[index] = value;
                check_damaged(&damaged);
            }
        }
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_record_of_a_life_reads_back(journal in any_journal()) {
        for record in journal {
            prop_assert_eq!(Record::decode(&encoded(&record)), Ok(record));
        }
    }

    #[test]
    fn no_damage_to_the_records_of_a_life_does_harm(
        journal in any_journal(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        for record in journal {
            let mut bytes = encoded(&record);
            for length in 0..bytes.len() {
                prop_assert!(Record::decode(&bytes[..length]).is_err());
            }
            for (index, value) in &flips {
                let index = index.index(bytes.len());
                bytes[index] ^= value;
            }
            check_damaged(&bytes);
        }
    }

    #[test]
    fn no_bytes_at_all_do_harm(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        check_damaged(&bytes);
        if let Some(version) = bytes.first_mut() {
            *version = RECORD_FORMAT;
        }
        check_damaged(&bytes);
    }

    #[test]
    fn every_number_reads_back_in_seven_bits_a_byte(number in any::<u64>(), shift in 0..64u32) {
        let number = number >> shift;
        let bytes = written(&number);
        let bits = (u64::BITS - number.leading_zeros()).max(1);
        prop_assert_eq!(bytes.len(), bits.div_ceil(7) as usize);
        prop_assert_eq!(read::<u64>(&bytes), Ok(number));
    }
}

#[test]
fn numbers_grow_by_a_byte_at_every_seventh_bit() {
    for length in 1..10u32 {
        let last = (1u64 << (7 * length)) - 1;
        for (number, bytes) in [(last - 1, length), (last, length), (last + 1, length + 1)] {
            assert_eq!(written(&number).len(), bytes as usize, "{number}");
            assert_eq!(read::<u64>(&written(&number)), Ok(number));
        }
    }
    assert_eq!(written(&0u64), [0]);
    assert_eq!(written(&300u64), [0xac, 0x02]);
    let largest = [255, 255, 255, 255, 255, 255, 255, 255, 255, 1];
    assert_eq!(written(&u64::MAX), largest);
    assert_eq!(read::<u64>(&largest), Ok(u64::MAX));
}

#[test]
fn numbers_that_are_too_large_or_too_long_are_refused() {
    let damaged = |at, reason| Err(Undecodable::Damaged { at, reason });
    let mut bytes = [255, 255, 255, 255, 255, 255, 255, 255, 255, 2];
    let large = "a number of more than 64 bits";
    assert_eq!(read::<u64>(&bytes), damaged(9, large));
    bytes[9] = 0x81;
    assert_eq!(read::<u64>(&bytes), damaged(9, large));
    assert_eq!(read::<u64>(&[0x80; 11]), damaged(9, large));
    let zeros = "a number with leading zeros";
    assert_eq!(read::<u64>(&[0x80, 0]), damaged(1, zeros));
    assert_eq!(read::<u64>(&[0x81, 0x80, 0]), damaged(2, zeros));
    for number in [u32::MAX - 1, u32::MAX] {
        assert_eq!(read::<u32>(&written(&number)), Ok(number));
    }
    let beyond = written(&(u64::from(u32::MAX) + 1));
    let beyond = read::<u32>(&beyond).unwrap_err();
    assert_eq!(
        beyond.to_string(),
        "damaged at byte 4: a number of more than 32 bits"
    );
}

#[test]
fn a_length_may_fill_the_rest_and_no_more() {
    let long = Undecodable::Damaged {
        at: 0,
        reason: "longer than the rest",
    };
    assert_eq!(read::<String>(&[3, b'a', b'b', b'c']), Ok("abc".into()));
    assert_eq!(read::<String>(&[4, b'a', b'b', b'c']), Err(long.clone()));
    assert!(read::<String>(&[2, b'a', b'b', b'c']).is_err());
    assert_eq!(read::<Vec<bool>>(&[2, 0, 1]), Ok(vec![false, true]));
    assert_eq!(read::<Vec<bool>>(&[3, 0, 1]), Err(long));
    assert!(read::<Vec<bool>>(&written(&u64::MAX)).is_err());
    for (count, fits) in [(1, true), (2, true), (3, false)] {
        let bytes = [count, 0, 0, 0, 0, 0];
        let mut input = Reader {
            rest: &bytes,
            length: bytes.len(),
        };
        assert_eq!(input.count(2).is_ok(), fits, "{count}");
    }
}

#[test]
fn text_is_utf_8_and_switches_are_yes_or_no() {
    assert!(read::<Arc<str>>(&[1, 0xff]).is_err());
    assert!(read::<bool>(&[2]).is_err());
    assert!(read::<Option<bool>>(&[2, 0]).is_err());
    assert_eq!(read::<Option<bool>>(&[1, 1]), Ok(Some(true)));
}

#[test]
fn ids_of_64_hex_digits_take_32_bytes() {
    let digest = Position::root().child(1).id();
    assert_eq!(written(&digest).len(), 33);
    let digits = digest.as_str();
    let texts = [
        String::new(),
        digits[..63].to_string(),
        digits.to_string(),
        format!("{digits}0"),
        digits.to_uppercase(),
        digits.replace('6', "g"),
        "ü".repeat(32),
    ];
    for text in texts {
        let id = OperationId::from(text.as_str());
        let bytes = written(&id);
        let length = if text == digits { 33 } else { 2 + text.len() };
        assert_eq!(bytes.len(), length, "{text}");
        assert_eq!(read::<OperationId>(&bytes), Ok(id));
    }
    let mut every = String::new();
    for byte in 0..64 {
        every.push(char::from(b"0123456789abcdef"[byte % 16]));
    }
    let every = OperationId::from(every.as_str());
    assert_eq!(written(&every).len(), 33);
    assert_eq!(read(&written(&every)), Ok(every));
}

#[test]
fn the_tags_of_labels_never_change() {
    let frozen = "Step WaitForCondition Wait Callback Signal ChainedInvoke RunInChildContext \
                  WaitForCallback Map MapIteration Parallel ParallelBranch";
    assert_eq!(LABELS.join(" "), frozen);
}

#[test]
fn known_labels_take_a_byte() {
    let mut bytes = Vec::new();
    for (index, label) in LABELS.iter().enumerate() {
        bytes.clear();
        write_label(Some(label), &mut bytes);
        assert_eq!(bytes, [u8::try_from(index).unwrap() + FIRST_LABEL]);
        let mut input = Reader {
            rest: &bytes,
            length: 1,
        };
        assert_eq!(read_label(&mut input).unwrap().as_deref(), Some(*label));
    }
    bytes[0] += 1;
    let mut input = Reader {
        rest: &bytes,
        length: 1,
    };
    let newer = Undecodable::Newer {
        at: 0,
        what: "label",
        tag: 14,
    };
    assert_eq!(read_label(&mut input), Err(newer));
}

#[test]
fn what_a_newer_release_wrote_is_refused_with_the_remedy() {
    let mut bytes = encoded(&Record {
        number: 1,
        events: 1,
        at: Timestamp::from_millis(1),
        change: Change::Resumed,
    });
    assert_eq!(bytes, [1, 1, 1, 1, 11]);
    bytes[4] = 12;
    assert_eq!(
        Record::decode(&bytes).unwrap_err().to_string(),
        "change 12 at byte 4 is unknown to this release: it was written by a newer one; \
         run that release, or a later one"
    );
    bytes[0] = 2;
    let newer = Undecodable::Newer {
        at: 0,
        what: "record format",
        tag: 2,
    };
    assert_eq!(Record::decode(&bytes), Err(newer));
    bytes[0] = 0;
    assert_eq!(
        Record::decode(&bytes).unwrap_err().to_string(),
        "damaged at byte 0: there is no version 0"
    );
    assert_eq!(
        Record::decode(&[]).unwrap_err().to_string(),
        "damaged at byte 0: ends too early"
    );
}
