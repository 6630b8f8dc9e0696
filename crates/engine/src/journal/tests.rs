//! The journal on a disk that fails at every call, one after the other.

use super::*;
use crate::disk::sim::{Fault, SimDisk};

const SEGMENT_BYTES: u64 = 4096;

/// What a program outside the journal knows.
#[derive(Clone, Debug, Default)]
struct Ledger {
    /// Payloads in order, from sequence 0 on.
    acknowledged: Vec<Vec<u8>>,
    /// Those of the last batch, when nobody knows.
    unknown: Vec<Vec<u8>>,
    /// Up to where they are indexed.
    position: usize,
}

type Opened = (Journal, Recovered, Vec<(u64, Vec<u8>)>);

fn open_at(disk: &SimDisk, position: u64) -> Result<Opened, OpenError> {
    let mut frames = Vec::new();
    let (journal, recovered) = open(
        Arc::new(disk.clone()),
        SEGMENT_BYTES,
        position,
        |frame: Frame<'_>| frames.push((frame.sequence, frame.payload.unwrap().to_vec())),
    )?;
    Ok((journal, recovered, frames))
}

impl Ledger {
    /// Opens the journal and demands that it agrees; what was unknown is known then.
    fn open(&mut self, disk: &SimDisk) -> Result<Journal, OpenError> {
        let (journal, recovered, frames) = open_at(disk, self.position as u64)?;
        assert_eq!(recovered.damage, []);
        let sequences: Vec<u64> = frames.iter().map(|(sequence, _)| *sequence).collect();
        let end = (self.position + frames.len()) as u64;
        assert_eq!(sequences, (self.position as u64..end).collect::<Vec<_>>());
        let found: Vec<Vec<u8>> = frames.into_iter().map(|(_, payload)| payload).collect();
        let mut expected = self.acknowledged.split_off(self.position);
        assert!(
            found.len() >= expected.len(),
            "an acknowledged frame is lost"
        );
        expected.append(&mut self.unknown);
        assert_eq!(found, expected[..found.len()]);
        assert_eq!(journal.sequence(), end);
        self.acknowledged.extend(found);
        Ok(journal)
    }

    /// Appends a batch of frames of these lengths.
    fn append(&mut self, journal: &mut Journal, lengths: &[usize]) -> Result<(), AppendError> {
        let batch: Vec<Vec<u8>> = (lengths.iter().enumerate())
            .map(|(index, length)| {
                let number = self.acknowledged.len() + index;
                let mut payload = format!("frame {number} ").into_bytes();
                payload.resize(payload.len() + length, number.to_le_bytes()[0]);
                payload
            })
            .collect();
        for payload in &batch {
            journal.stage(1, 7, |bytes| bytes.extend_from_slice(payload));
        }
        let outcome = journal.append();
        match &outcome {
            Ok(()) => self.acknowledged.extend(batch),
            Err(AppendError::Full(_)) => {}
            Err(AppendError::Poisoned(_)) => self.unknown = batch,
        }
        outcome
    }

    fn release(&mut self, journal: &mut Journal) {
        self.position = self.acknowledged.len();
        let released = journal.release(self.position as u64);
        journal.keeper().remove(&released);
    }

    /// A life of a journal: small and large batches, changes of segment, segments given up, one of
    /// them made ready beforehand. Goes on after a full disk, ends at any other failure.
    fn live(&mut self, disk: &SimDisk) -> Result<(), Stop> {
        let mut journal = self.open(disk).map_err(|_| Stop)?;
        let batches: [&[usize]; 9] = [
            &[10],
            &[600, 3, 1_200],
            &[1],
            &[400, 400, 400, 400],
            &[1_500, 20],
            &[5],
            &[2_000],
            &[5_000, 1],
            &[80, 80],
        ];
        for (index, lengths) in batches.into_iter().enumerate() {
            if index == 3 {
                journal.keeper().prepare(journal.next_segment());
            }
            if let Err(AppendError::Poisoned(_)) = self.append(&mut journal, lengths) {
                let again = self.clone().append(&mut journal, &[1]);
                assert!(matches!(again, Err(AppendError::Poisoned(_))));
                return Err(Stop);
            }
            if index % 4 == 2 {
                self.release(&mut journal);
            }
        }
        Ok(())
    }
}

#[derive(Debug)]
struct Stop;

fn calls_of_a_life() -> u64 {
    let disk = SimDisk::new(0);
    let mut ledger = Ledger::default();
    ledger.live(&disk).unwrap();
    ledger.live(&disk).unwrap();
    assert_eq!(ledger.acknowledged.len(), 2 * 17);
    disk.calls()
}

#[test]
fn a_power_cut_at_any_call_loses_nothing_that_was_acknowledged() {
    let calls = calls_of_a_life();
    for call in 0..calls {
        for seed in 0..4 {
            let disk = SimDisk::new(seed);
            disk.set_fault(Some(Fault::CutAt(call)));
            let mut ledger = Ledger::default();
            assert!(
                ledger
                    .live(&disk)
                    .and_then(|()| ledger.live(&disk))
                    .is_err()
            );
            let disk = disk.restart(seed ^ call);
            ledger.live(&disk).unwrap();
            ledger.live(&disk).unwrap();
        }
    }
}

#[test]
fn a_second_power_cut_while_recovering_loses_nothing_either() {
    let calls = calls_of_a_life();
    for call in 0..calls {
        let disk = SimDisk::new(call);
        disk.set_fault(Some(Fault::CutAt(call)));
        let mut ledger = Ledger::default();
        let _ = ledger.live(&disk).and_then(|()| ledger.live(&disk));
        let recovering = disk.restart(call);
        drop(ledger.clone().open(&recovering).unwrap());
        for second in 0..recovering.calls() {
            let disk = disk.restart(call);
            disk.set_fault(Some(Fault::CutAt(second)));
            let mut ledger = ledger.clone();
            let before = ledger.clone();
            assert!(ledger.open(&disk).is_err());
            let mut ledger = before;
            ledger.live(&disk.restart(second)).unwrap();
        }
    }
}

#[test]
fn a_failure_of_any_call_loses_nothing_that_was_acknowledged() {
    for call in 0..calls_of_a_life() {
        for seed in 0..3 {
            let disk = SimDisk::new(seed);
            disk.set_fault(Some(Fault::FailAt(call)));
            let mut ledger = Ledger::default();
            let _ = ledger.live(&disk).and_then(|()| ledger.live(&disk));
            ledger.clone().live(&disk.survive_kill()).unwrap();
            ledger.live(&disk.restart(seed)).unwrap();
        }
    }
}

#[test]
fn a_full_disk_at_any_call_leaves_no_trace_of_what_it_refused() {
    let mut refused = 0;
    for call in 0..calls_of_a_life() {
        for seed in 0..3 {
            let disk = SimDisk::new(seed);
            disk.set_fault(Some(Fault::FullAt(call)));
            let mut ledger = Ledger::default();
            let lived = ledger.live(&disk).and_then(|()| ledger.live(&disk));
            refused += u64::from(lived.is_ok() && ledger.acknowledged.len() < 34);
            ledger.clone().live(&disk.survive_kill()).unwrap();
            ledger.live(&disk.restart(seed)).unwrap();
        }
    }
    assert!(
        refused > 30,
        "most of it is survived without poison: {refused}"
    );
}

#[test]
fn a_full_disk_refuses_and_works_again_when_there_is_room() {
    let disk = SimDisk::new(1);
    let mut ledger = Ledger::default();
    let mut journal = ledger.open(&disk).unwrap();
    disk.set_capacity(Some(SEGMENT_BYTES + 100));
    let mut appended = 0;
    while ledger.append(&mut journal, &[500]).is_ok() {
        appended += 1;
    }
    assert!(matches!(
        ledger.append(&mut journal, &[500]),
        Err(AppendError::Full(_))
    ));
    assert_eq!(appended, 3, "two sectors each, after the head");
    ledger.clone().open(&disk.restart(3)).unwrap();
    disk.set_capacity(None);
    ledger.append(&mut journal, &[500]).unwrap();
    ledger.open(&disk.restart(4)).unwrap();
}

#[test]
fn a_frame_at_the_end_of_a_segment_fits_exactly_or_goes_to_the_next() {
    let room = usize::try_from(SEGMENT_BYTES).unwrap() - SECTOR_BYTES - HEADER_BYTES;
    for (length, segments) in [(room - 1, 1), (room, 1), (room + 1, 2)] {
        let disk = SimDisk::new(0);
        let (mut journal, _, _) = open_at(&disk, 0).unwrap();
        journal.stage(1, 0, |bytes| bytes.push(1));
        journal.append().unwrap();
        journal.stage(1, 0, |bytes| {
            bytes.resize(bytes.len() + length - SECTOR_BYTES, 2)
        });
        journal.append().unwrap();
        assert_eq!(disk.list().unwrap().len(), segments, "{length}");
    }
}

#[test]
fn a_frame_longer_than_a_segment_gets_a_longer_segment() {
    let disk = SimDisk::new(0);
    let mut ledger = Ledger::default();
    let mut journal = ledger.open(&disk).unwrap();
    journal.keeper().prepare(journal.next_segment());
    ledger.append(&mut journal, &[20_000]).unwrap();
    ledger.append(&mut journal, &[20]).unwrap();
    ledger.open(&disk.restart(0)).unwrap();
}

#[test]
fn one_batch_is_one_write_and_one_sync() {
    let disk = SimDisk::new(0);
    let mut ledger = Ledger::default();
    let mut journal = ledger.open(&disk).unwrap();
    ledger.append(&mut journal, &[10]).unwrap();
    let (calls, syncs) = (disk.calls(), disk.syncs());
    ledger.append(&mut journal, &[10, 20, 30]).unwrap();
    assert_eq!((disk.calls() - calls, disk.syncs() - syncs), (2, 1));
    journal.append().unwrap();
    assert_eq!(disk.calls() - calls, 2, "an empty batch costs nothing");
}

/// A journal with batches of the frames 0, 1 2, 3, 4, each a sector or two, in one segment.
fn written() -> SimDisk {
    let disk = SimDisk::new(0);
    let mut ledger = Ledger::default();
    let mut journal = ledger.open(&disk).unwrap();
    for batch in [&[100][..], &[100, 600], &[100], &[100]] {
        ledger.append(&mut journal, batch).unwrap();
    }
    disk
}

fn found(disk: &SimDisk) -> (Vec<(u64, bool)>, Recovered) {
    let mut frames = Vec::new();
    let (_, recovered) = open(
        Arc::new(disk.clone()),
        SEGMENT_BYTES,
        0,
        |frame: Frame<'_>| frames.push((frame.sequence, frame.payload.is_some())),
    )
    .unwrap();
    (frames, recovered)
}

#[test]
fn damage_to_a_payload_is_reported_with_the_execution_and_the_rest_is_read() {
    let disk = written();
    let at = SECTOR_BYTES * 2 + HEADER_BYTES + 3;
    disk.damage(&segment::name(1), at..at + 1);
    let (frames, recovered) = found(&disk);
    assert_eq!(
        frames,
        [(0, true), (1, false), (2, true), (3, true), (4, true)]
    );
    let lost = Damage {
        segment: 1,
        offset: SECTOR_BYTES as u64 + 168,
        lost: 1..2,
        execution: Some(7),
    };
    assert_eq!(recovered.damage, [lost]);
}

#[test]
fn damage_to_a_header_is_reported_with_what_is_lost_and_the_rest_is_read() {
    let disk = written();
    disk.damage(&segment::name(1), SECTOR_BYTES * 2..SECTOR_BYTES * 2 + 4);
    let (frames, recovered) = found(&disk);
    assert_eq!(frames, [(0, true), (2, true), (3, true), (4, true)]);
    assert_eq!(recovered.damage.len(), 1);
    assert_eq!(recovered.damage[0].lost, 1..2);
    assert_eq!(recovered.damage[0].execution, None);
}

#[test]
fn damage_to_the_last_batch_looks_like_a_torn_one_and_ends_the_log() {
    let disk = written();
    let last = SECTOR_BYTES * 5;
    disk.damage(&segment::name(1), last..last + 4);
    let (frames, recovered) = found(&disk);
    assert_eq!(frames.len(), 4);
    assert_eq!(recovered.damage, []);
    assert!(recovered.discarded_bytes > 0);
}

#[test]
fn damage_to_the_head_of_a_segment_loses_no_frame() {
    let disk = written();
    disk.damage(&segment::name(1), 0..SECTOR_BYTES);
    // It is the only segment, so nothing says where the journal begins but its frames.
    let (frames, _) = found(&disk);
    assert_eq!(frames.len(), 5);
}

#[test]
fn damage_in_a_segment_that_others_follow_is_reported_to_its_end() {
    let disk = SimDisk::new(0);
    let mut ledger = Ledger::default();
    let mut journal = ledger.open(&disk).unwrap();
    for _ in 0..3 {
        ledger.append(&mut journal, &[2_000]).unwrap();
    }
    assert_eq!(disk.list().unwrap().len(), 3);
    disk.damage(&segment::name(1), SECTOR_BYTES..4_096);
    let (frames, recovered) = found(&disk);
    assert_eq!(frames, [(1, true), (2, true)]);
    assert_eq!(recovered.damage[0].lost, 0..1);

    let (mut journal, _, _) = open_at(&disk, 0).unwrap();
    let released = journal.release(2);
    journal.keeper().remove(&released);
    let names = disk.list().unwrap();
    assert_eq!(names, [segment::damaged_name(1), segment::name(3)]);
}

#[test]
fn a_newer_format_is_refused_with_both_numbers() {
    let disk = written();
    let file = disk.open(&segment::name(1)).unwrap();
    let mut head = [0; 36];
    file.read_at(0, &mut head).unwrap();
    head[8..12].copy_from_slice(&(FORMAT + 1).to_le_bytes());
    let checksum = crc32c::crc32c(&head[..32]);
    head[32..].copy_from_slice(&checksum.to_le_bytes());
    file.write_at(0, &head).unwrap();
    let error = open_at(&disk, 0).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the journal has format 2 and this release reads formats up to 1; open the folder with \
         the release that wrote it, or a newer one"
    );
}

#[test]
fn a_journal_that_does_not_reach_back_to_the_index_is_refused() {
    let disk = SimDisk::new(0);
    let mut ledger = Ledger::default();
    let mut journal = ledger.open(&disk).unwrap();
    for _ in 0..3 {
        ledger.append(&mut journal, &[2_000]).unwrap();
    }
    let missing = |disk: &SimDisk, position| {
        let outcome = open_at(disk, position);
        assert!(
            matches!(outcome, Err(OpenError::Missing { .. })),
            "{outcome:?}"
        );
    };
    let gap = disk.survive_kill();
    gap.delete(&segment::name(2)).unwrap();
    missing(&gap, 0);
    gap.delete(&segment::name(1)).unwrap();
    missing(&gap, 0);
    open_at(&gap, 2).unwrap();
    gap.delete(&segment::name(3)).unwrap();
    missing(&gap, 2);
    open_at(&gap, 0).unwrap();
}

#[test]
fn an_index_ahead_of_the_journal_is_damage_and_writing_goes_on_behind_it() {
    let disk = written();
    let (mut journal, recovered, frames) = open_at(&disk, 9).unwrap();
    assert_eq!(frames, []);
    assert_eq!(recovered.damage[0].lost, 5..9);
    journal.stage(1, 0, |bytes| bytes.push(1));
    journal.append().unwrap();
    let (_, recovered, frames) = open_at(&disk, 9).unwrap();
    assert_eq!(frames, [(9, vec![1])]);
    assert_eq!(recovered.damage, []);
}

#[test]
fn segments_below_the_position_that_came_back_are_removed() {
    let disk = SimDisk::new(0);
    let mut ledger = Ledger::default();
    let mut journal = ledger.open(&disk).unwrap();
    for _ in 0..4 {
        ledger.append(&mut journal, &[2_000]).unwrap();
    }
    disk.delete(&segment::name(2)).unwrap();
    let (_, recovered, frames) = open_at(&disk, 3).unwrap();
    assert_eq!(frames.len(), 1);
    assert_eq!(recovered.damage, []);
    assert_eq!(disk.list().unwrap(), [segment::name(4)]);
}

#[test]
fn a_frame_that_followed_another_one_does_not_count() {
    let disks = [b'a', b'b'].map(|letter| {
        let disk = SimDisk::new(0);
        let (mut journal, _, _) = open_at(&disk, 0).unwrap();
        for _ in 0..2 {
            journal.stage(1, 7, |bytes| bytes.resize(bytes.len() + 50, letter));
            journal.append().unwrap();
        }
        disk
    });
    // The second batch of one journal behind the first of the other: same place, same sequence.
    let [from, to] = disks
        .each_ref()
        .map(|disk| disk.open(&segment::name(1)).unwrap());
    let mut sector = [0; SECTOR_BYTES];
    from.read_at(2 * SECTOR_BYTES as u64, &mut sector).unwrap();
    to.write_at(2 * SECTOR_BYTES as u64, &sector).unwrap();
    let [_, disk] = disks;
    let (_, recovered, frames) = open_at(&disk, 0).unwrap();
    assert_eq!(frames, [(0, vec![b'b'; 50])]);
    assert!(recovered.discarded_bytes > 0);
}

#[test]
fn what_recovery_accepts_is_durable_even_if_a_kill_or_a_failed_sync_came_before() {
    for fault in [Fault::CutAt, Fault::FailAt] {
        for seed in 0..16 {
            let disk = SimDisk::new(seed);
            let mut ledger = Ledger::default();
            let mut journal = ledger.open(&disk).unwrap();
            ledger.append(&mut journal, &[100]).unwrap();
            // The sync after the next write.
            disk.set_fault(Some(fault(disk.calls() + 1)));
            let outcome = ledger.append(&mut journal, &[100, 1_000]);
            assert!(matches!(outcome, Err(AppendError::Poisoned(_))));
            let disk = disk.survive_kill();
            ledger.open(&disk).unwrap();
            assert_eq!(ledger.acknowledged.len(), 3, "the kernel still had it");
            ledger.open(&disk.restart(seed)).unwrap();
        }
    }
}

#[test]
fn what_lies_behind_a_torn_frame_does_not_come_back_when_that_is_written_again() {
    let disk = SimDisk::new(0);
    let (mut journal, _, _) = open_at(&disk, 0).unwrap();
    let first = |bytes: &mut Vec<u8>| bytes.resize(bytes.len() + SECTOR_BYTES - HEADER_BYTES, 1);
    journal.stage(1, 7, first);
    journal.stage(1, 7, |bytes| bytes.push(2));
    journal.append().unwrap();
    disk.damage(&segment::name(1), SECTOR_BYTES..SECTOR_BYTES + 4);
    let (mut journal, _, frames) = open_at(&disk, 0).unwrap();
    assert_eq!(frames, []);
    journal.stage(1, 7, first);
    journal.append().unwrap();
    let (_, _, frames) = open_at(&disk, 0).unwrap();
    assert_eq!(frames.len(), 1);
}
