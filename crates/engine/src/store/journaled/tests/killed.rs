//! What the suite says of a process that is killed holds for the journal too, and no frame is lost.

use super::*;
use crate::store::suite::killed::{self, Kills};

struct Killed(TempDir);

impl Home for Killed {
    fn open(&mut self) -> Arc<dyn Store> {
        let store = JournaledStore::open(self.0.path(), small()).unwrap();
        assert_eq!(store.damage(), []);
        assert_eq!(store.damaged(), []);
        Arc::new(store)
    }
}

/// Only ever does something when it is run by the test below.
#[test]
fn a_child_that_commits_until_it_is_killed() {
    if let Some(folder) = killed::folder_of_child() {
        let store = JournaledStore::open(&folder, small()).unwrap();
        killed::commit_until_killed(&store).unwrap();
    }
}

#[test]
fn what_was_acknowledged_survives_kill_9() {
    let mut home = Killed(folder());
    let path = home.0.path().to_owned();
    let child = "store::journaled::tests::killed::a_child_that_commits_until_it_is_killed";
    let kills = Kills {
        rounds: 10,
        acknowledged_max: 400,
        seed: 3,
    };
    killed::survives(&mut home, kills, || killed::child(child, &path)).unwrap();
}
