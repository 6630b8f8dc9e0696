//! The folder as the file system shows it: whether it can be examined, and how large it is.

use anyhow::{Context, bail, ensure};
use outlast_engine::store::folder::LOCK_FILE;
use serde::Serialize;
use std::{
    fs::{self, File, TryLockError},
    io::Read,
    path::Path,
};

/// What lies in a folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Files {
    /// How many files.
    pub(crate) count: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
}

impl Files {
    /// Counts the files of a folder and of those below it.
    ///
    /// # Errors
    /// When a folder cannot be read.
    pub(crate) fn below(folder: &Path) -> anyhow::Result<Self> {
        let unreadable = |path: &Path| format!("the folder {} cannot be read", path.display());
        let mut files = Self::default();
        let mut folders = vec![folder.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).with_context(|| unreadable(&folder))? {
                let entry = entry.with_context(|| unreadable(&folder))?;
                let metadata = entry.metadata().with_context(|| unreadable(&folder))?;
                if metadata.is_dir() {
                    folders.push(entry.path());
                } else {
                    files.count += 1;
                    files.bytes += metadata.len();
                }
            }
        }
        Ok(files)
    }
}

/// Makes sure that a folder is a data folder that nobody has open, without changing anything:
/// opening a store would make one where there is none.
///
/// # Errors
/// When it is not, with what to do about it.
pub(crate) fn find_store(folder: &Path) -> anyhow::Result<()> {
    let shown = folder.display();
    ensure!(
        folder.exists(),
        "there is no folder {shown}; name the data folder with --data or OUTLAST_DATA"
    );
    ensure!(
        folder.is_dir(),
        "{shown} is not a folder; name the data folder with --data or OUTLAST_DATA"
    );
    let path = folder.join(LOCK_FILE);
    ensure!(
        path.exists(),
        "{shown} is not a data folder: it has no file {LOCK_FILE}; \
         name the data folder with --data or OUTLAST_DATA"
    );
    let mut lock = File::open(&path).with_context(|| format!("{} is locked", path.display()))?;
    match lock.try_lock_shared() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => {
            let mut owner = String::new();
            // Only a hint for people; the lock is what counts.
            let _ = lock.read_to_string(&mut owner);
            let owner = match owner.trim() {
                "" => "another process".to_owned(),
                process => format!("process {process}"),
            };
            bail!(
                "{shown} is in use by {owner}; a folder is examined when no engine runs on it: \
                 stop that process and try again"
            )
        }
        Err(TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("{} cannot be locked", path.display()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_counted_in_folders_below_too() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Files::below(folder.path()).unwrap(), Files::default());
        fs::create_dir(folder.path().join("blobs")).unwrap();
        fs::write(folder.path().join("a"), [0; 10]).unwrap();
        fs::write(folder.path().join("blobs/b"), [0; 5]).unwrap();
        let files = Files::below(folder.path()).unwrap();
        assert_eq!(
            files,
            Files {
                count: 2,
                bytes: 15
            }
        );
    }

    #[test]
    fn looking_for_a_store_makes_none() {
        let folder = tempfile::tempdir().unwrap();
        let error = find_store(folder.path()).unwrap_err().to_string();
        assert!(error.contains("not a data folder"), "{error}");
        assert_eq!(Files::below(folder.path()).unwrap().count, 0);
    }

    #[test]
    fn a_lock_that_is_held_is_noticed_until_it_is_released() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(LOCK_FILE);
        fs::write(&path, "4711\n").unwrap();
        find_store(folder.path()).unwrap();
        let lock = File::options().write(true).open(&path).unwrap();
        lock.lock().unwrap();
        let error = find_store(folder.path()).unwrap_err().to_string();
        assert!(error.contains("in use by process 4711"), "{error}");
        drop(lock);
        find_store(folder.path()).unwrap();
    }
}
