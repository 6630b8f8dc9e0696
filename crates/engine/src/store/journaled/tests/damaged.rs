//! Damage in the journal takes the executions it hit, says so, and leaves the others alone.

use super::*;

/// Executions 1 to 4 with three commits each, in turn, one batch each, nothing indexed.
fn written(folder: &TempDir) -> SimDisk {
    let disk = SimDisk::new(1);
    let mut options = manual();
    options.segment_bytes = 1 << 20;
    let shared = Shared::open(
        Folder::open(folder.path()).unwrap(),
        Arc::new(disk.clone()),
        options,
    )
    .unwrap();
    let mut all: Vec<Commit> = (1..5).map(|number| create(number, 1)).collect();
    for _ in 0..3 {
        for next in &mut all {
            commit(&shared, next.clone()).unwrap();
            *next = follow(next, 1);
        }
    }
    disk
}

/// Batches are a sector each, after the head of the segment.
fn place(batch: usize) -> usize {
    512 * (1 + batch)
}

fn check_others(shared: &Shared, hit: u128) {
    for number in (1..5).filter(|number| *number != hit) {
        let stored = shared.view().load(create(number, 1).execution).unwrap();
        assert_eq!(stored.unwrap().head.version, 3, "{number}");
    }
}

#[test]
fn a_lost_frame_damages_its_execution_for_good_and_no_other() {
    // In a payload, the header tells whose it was; in a header, the next commit does not fit.
    for place in [place(5) + 80, place(5)] {
        let folder = folder();
        let disk = written(&folder);
        disk.damage("0000000001.journal", place..place + 4);
        let hit = create(2, 1);
        for opened in 0..3 {
            let shared = steps(&folder, &disk).unwrap();
            let reports = shared.damage().len();
            assert_eq!(
                reports,
                usize::from(opened < 2),
                "the journal proves it until it is indexed"
            );
            assert_eq!(shared.damaged().len(), 1);
            let error = shared.view().load(hit.execution).unwrap_err();
            assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
            assert!(shared.view().head(hit.execution).is_err());
            assert!(shared.view().records(hit.execution, 0, 9).is_err());
            let refused = commit(&shared, follow(&hit, 1));
            assert!(
                matches!(refused, Err(CommitError::Damaged(_))),
                "{refused:?}"
            );
            check_others(&shared, 2);
            if opened == 1 {
                shared.index();
                check_others(&shared, 2);
            }
        }
        let shared = steps(&folder, &disk).unwrap();
        let everything = Query {
            max: 99,
            ..Query::default()
        };
        let listed = shared.view().list(&everything).unwrap();
        let (_, head) = (listed.iter())
            .find(|(execution, _)| *execution == hit.execution)
            .unwrap();
        let deleting = shared.hand_over(Change::Delete {
            execution: hit.execution,
            expected: head.version,
        });
        shared.write_queued();
        deleting.wait().unwrap();
        assert_eq!(shared.view().head(hit.execution), Ok(None));
        shared.index();
        drop(shared);
        let shared = steps(&folder, &disk).unwrap();
        assert_eq!(shared.damaged(), []);
        commit(&shared, hit).unwrap();
    }
}

#[test]
fn a_lost_last_commit_of_an_execution_is_reported_though_nobody_can_say_whose_it_was() {
    let folder = folder();
    let disk = written(&folder);
    disk.damage("0000000001.journal", place(9)..place(9) + 4);
    let shared = steps(&folder, &disk).unwrap();
    assert_eq!(shared.damage().len(), 1);
    assert_eq!(shared.damage()[0].lost, 9..10);
    assert_eq!(shared.damage()[0].execution, None);
    check_others(&shared, 2);
}
