//! A folder of every format that was ever written opens in this release, and its executions go on.
//!
//! The folder `1` beside this file was written by the release that introduced format 1. It holds an
//! index that has everything and a journal that has everything too, so that it stands for two
//! folders: with its index nothing is left to replay, without it all of it is. `histories.txt` is
//! what its executions looked like to whoever wrote it.
//!
//! A folder is never written again. When the format changes, the new one is written beside it with
//!
//! ```text
//! OUTLAST_WRITE_FORMAT=1 cargo test -p outlast-engine --test formats
//! ```

#[cfg(test)]
mod folder;
#[cfg(test)]
mod functions;
#[cfg(test)]
#[path = "../both/stand.rs"]
mod stand;

#[cfg(test)]
mod tests {
    use crate::{
        folder::{Parts, copy, fixtures, keep, write},
        functions::{MADE_AT, answer, boot, end, histories},
    };
    use outlast_core::wire::ExecutionStatus;
    use outlast_engine::store::{
        Store,
        journaled::{JournaledStore, Options},
    };
    use std::{fs, path::Path, sync::Arc};
    use tempfile::TempDir;

    const HOUR_MS: u64 = 3_600_000;

    /// Opens a copy of a folder two hours after it was written: everything is as it was, and
    /// everything that waited goes on to its end.
    async fn check(folder: &Path, parts: Parts) {
        let copied = TempDir::new().unwrap();
        copy(folder, copied.path(), parts);
        let expected = fs::read_to_string(folder.join("histories.txt")).unwrap();
        let store = JournaledStore::open(copied.path(), Options::default()).unwrap();
        assert_eq!((store.damage(), store.damaged()), (&[][..], Vec::new()));
        let (closed, lags) = match parts {
            Parts::All => (Some(true), false),
            Parts::JournalAlone => (None, true),
        };
        assert_eq!(store.about().closed_cleanly, closed);
        assert_eq!(store.status().index_lag_bytes > 0, lags);
        let long = store.find("long", "long").unwrap().unwrap();
        assert!(store.load(long).unwrap().unwrap().snapshot.is_some());

        let engine = boot(Arc::new(store), MADE_AT + 2 * HOUR_MS).await;
        assert_eq!(histories(&engine).await, expected);
        let runner = engine.clone();
        let running = tokio::runtime::Handle::current().spawn(async move { runner.run().await });
        answer(&engine, "caller", "\"yes\"").await;
        for (name, result) in [
            ("sleeper", "\"slept\""),
            ("caller", "\"yes\""),
            ("parent", "\"slept\""),
            ("long", "\"slept\""),
            ("closed", "\"a result\""),
        ] {
            let end = end(&engine, name).await;
            assert_eq!(end.status, ExecutionStatus::Succeeded, "{name}");
            assert_eq!(end.result.as_deref(), Some(result), "{name}");
        }
        for (name, status) in [
            ("failed", ExecutionStatus::Failed),
            ("stopped", ExecutionStatus::Stopped),
        ] {
            assert_eq!(end(&engine, name).await.status, status);
        }
        assert_eq!(engine.health().quarantined, []);
        engine.shut_down().await;
        running.await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_folder_of_every_format_opens_and_goes_on() {
        for fixture in fixtures() {
            check(&fixture, Parts::All).await;
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_folder_of_every_format_opens_and_goes_on_when_nothing_was_indexed() {
        for fixture in fixtures() {
            check(&fixture, Parts::JournalAlone).await;
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_folder_of_todays_format_is_written_as_the_kept_ones_were() {
        let folder = TempDir::new().unwrap();
        write(folder.path()).await;
        check(folder.path(), Parts::All).await;
        check(folder.path(), Parts::JournalAlone).await;
        if std::env::var_os("OUTLAST_WRITE_FORMAT").is_some() {
            keep(folder.path());
        }
    }
}
