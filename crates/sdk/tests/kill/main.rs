//! Nothing is lost under `kill -9`.
//!
//! A child process serves mixed executions on the embedded engine and is killed at random moments,
//! again and again on the same folder; then everything is let run to its end and compared with a
//! ledger that the engine never sees. The child is this binary, started again with a variable that
//! tells it so: an ordinary test, which can be filtered and listed like any other, and one program
//! to build.
//!
//! `OUTLAST_KILLS=1000` kills more often, `OUTLAST_SEED=7` chooses the moments. Moments in real time
//! do not repeat exactly: a failure also names the folder and the ledger, which are kept.

#[cfg(test)]
mod book;
#[cfg(test)]
mod check;
#[cfg(test)]
mod client;
#[cfg(test)]
mod functions;
#[cfg(test)]
mod ledger;

#[cfg(test)]
mod tests {
    use crate::{
        book::Book,
        check::compare,
        client::{self, Load},
        ledger::Ledger,
    };
    use outlast::core::random::SplitMix64;
    use std::{
        hash::{BuildHasher as _, RandomState},
        path::Path,
        process::Stdio,
        time::Duration,
    };
    use tokio::process::{Child, Command};

    /// Kills unless `OUTLAST_KILLS` says otherwise.
    const KILLS: u64 = 50;
    /// The variable that makes this binary the child, and tells it where to work.
    const CHILD_VARIABLE: &str = "OUTLAST_KILL_CHILD";
    /// How soon and how late after the load began a child is killed, in milliseconds.
    const KILL_MS: (u64, u64) = (20, 400);
    /// How long anything may take before the test says that it hangs.
    const PATIENCE: Duration = Duration::from_secs(120);

    fn number(variable: &str) -> Option<u64> {
        std::env::var(variable).ok()?.parse().ok()
    }

    /// The child: does nothing unless it was started as one. It never ends by itself.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_process_that_is_killed() {
        let Some(place) = std::env::var_os(CHILD_VARIABLE) else {
            return;
        };
        let boot = number("OUTLAST_KILL_BOOT").unwrap();
        client::serve(Path::new(&place), Load::New { boot }).await;
        std::future::pending::<()>().await;
    }

    fn child(place: &Path, boot: u64) -> Child {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tests::the_process_that_is_killed"])
            .args(["--nocapture", "--test-threads=1"])
            .env(CHILD_VARIABLE, place)
            .env("OUTLAST_KILL_BOOT", boot.to_string())
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap()
    }

    /// Starts a child, waits until its load has begun, and kills it a while later.
    async fn run_and_kill(place: &Path, book: &mut Book, boot: u64, after_ms: u64) {
        book.write_owed(place);
        let mut child = child(place, boot);
        while !book.read(place).has_begun(boot) {
            if let Some(status) = child.try_wait().unwrap() {
                panic!("process {boot} ended by itself before its load began: {status}");
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        tokio::time::sleep(Duration::from_millis(after_ms)).await;
        child.kill().await.unwrap();
        book.read(place);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn nothing_acknowledged_is_lost_when_the_process_is_killed_at_any_moment() {
        let kills = number("OUTLAST_KILLS").unwrap_or(KILLS);
        let seed = number("OUTLAST_SEED").unwrap_or_else(|| RandomState::new().hash_one(0_u8));
        let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))
            .unwrap()
            .keep();
        let again = format!(
            "run it again: OUTLAST_SEED={seed} OUTLAST_KILLS={kills} cargo test -p outlast --test kill -- \
             --nocapture; folder and ledger are kept in {}",
            place.display()
        );
        println!("{again}");
        let mut random = SplitMix64::new(seed);
        let mut book = Book::default();
        Ledger::open(&place);
        for boot in 0..kills {
            let after_ms = KILL_MS.0 + random.below(KILL_MS.1 - KILL_MS.0);
            let killed = run_and_kill(&place, &mut book, boot, after_ms);
            let killed = tokio::time::timeout(PATIENCE, killed).await;
            killed.unwrap_or_else(|_| panic!("process {boot} does not come up; {again}"));
        }
        book.write_owed(&place);
        let home = client::serve(&place, Load::Finish).await;
        let problems = compare(&home, &mut book, &place, PATIENCE).await;
        home.engine().shut_down().await;
        println!("{}", book.summary());
        assert!(
            problems.is_empty(),
            "{} problems, the first:\n{}\n{again}",
            problems.len(),
            problems[..problems.len().min(20)].join("\n")
        );
        std::fs::remove_dir_all(&place).unwrap();
    }
}
