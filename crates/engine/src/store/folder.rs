//! The folder a store lives in, and why one cannot be opened.
//!
//! One process at a time: whoever opens a folder holds a lock on its `LOCK` file until it ends,
//! however it ends. What else lies in the folder is the business of the store that opened it.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Read, Seek, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

/// The file that is locked.
pub const LOCK_FILE: &str = "LOCK";

/// An open folder that no other process has open.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    // The lock goes with this, or with the end of the process.
    lock: File,
}

/// Why a folder cannot be opened as a store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process, or another store in this one, has the folder open.
    #[error(
        "{} is in use by process {owner}; stop that process, or give this one a folder of its own",
        .folder.display()
    )]
    InUse {
        /// The folder.
        folder: PathBuf,
        /// Who has it open, as written in the lock file.
        owner: Arc<str>,
    },
    /// The folder was written by a newer release.
    #[error(
        "{} has format {found} and this release reads formats up to {supported}; \
         open it with the release that wrote it, or a newer one",
        .path.display()
    )]
    NewerFormat {
        /// What was to be opened.
        path: PathBuf,
        /// Its format.
        found: u64,
        /// The newest format this release knows.
        supported: u64,
    },
    /// The folder belongs to another kind of store.
    #[error("{} was made as {found} and cannot be opened as {wanted}", .path.display())]
    OtherKind {
        /// What was to be opened.
        path: PathBuf,
        /// What it is.
        found: Arc<str>,
        /// What was asked for.
        wanted: &'static str,
    },
    /// What lies there is not what was written.
    #[error("{} is damaged: {reason}; restore it from a backup", .path.display())]
    Damaged {
        /// What was to be opened.
        path: PathBuf,
        /// What was found.
        reason: Arc<str>,
    },
    /// The disk or the operating system refused.
    #[error("{} cannot be opened: {reason}", .path.display())]
    Io {
        /// What was to be opened.
        path: PathBuf,
        /// What it said.
        reason: Arc<str>,
    },
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Closing the file is not enough: a child process that is just being started has a copy of
        // it, and would hold the lock until it runs its own program.
        self.release();
    }
}

impl Folder {
    /// Makes the folder if need be and locks it.
    ///
    /// # Errors
    /// [`OpenError::InUse`] if somebody else has it open, [`OpenError::Io`] if it cannot be made.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let failed = |error: io::Error| OpenError::io(path, &error);
        make(path).map_err(failed)?;
        let mut lock = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path.join(LOCK_FILE))
            .map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut owner = String::new();
                // The lock is what counts; who holds it is only a hint for people.
                let _ = lock.read_to_string(&mut owner);
                let owner = match owner.trim() {
                    "" => "unknown",
                    pid => pid,
                };
                return Err(OpenError::InUse {
                    folder: path.to_owned(),
                    owner: owner.into(),
                });
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        write_owner(&mut lock).map_err(failed)?;
        let folder = Self {
            path: path.to_owned(),
            lock,
        };
        folder.sync().map_err(failed)?;
        Ok(folder)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Lets others open the folder: for a store that writes no more but is still held by somebody.
    pub fn release(&self) {
        // What fails here is made good by the end of the process.
        let _ = self.lock.unlock();
    }

    /// Makes the folder's list of files durable, and its own entry in the folder above.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn sync(&self) -> io::Result<()> {
        // Elsewhere a folder cannot be opened as a file, and its entries need no sync.
        if !cfg!(unix) {
            return Ok(());
        }
        File::open(&self.path)?.sync_all()?;
        let path = self.path.canonicalize()?;
        // Not everybody may open the folder above theirs; then it was not made by us.
        match path.parent().and_then(|parent| File::open(parent).ok()) {
            Some(parent) => parent.sync_all(),
            None => Ok(()),
        }
    }

    /// Bytes of all files in the folder.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn bytes(&self) -> io::Result<u64> {
        let mut bytes = 0;
        for entry in fs::read_dir(&self.path)? {
            // A file that went away meanwhile takes no room.
            if let Ok(metadata) = entry?.metadata()
                && metadata.is_file()
            {
                bytes += metadata.len();
            }
        }
        Ok(bytes)
    }
}

/// Makes the folder, for its owner alone where the system knows owners: payloads and keys lie there.
fn make(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

fn write_owner(lock: &mut File) -> io::Result<()> {
    lock.set_len(0)?;
    lock.rewind()?;
    writeln!(lock, "{}", std::process::id())?;
    lock.flush()
}

impl OpenError {
    /// The error for what the operating system said about `path`.
    pub fn io(path: &Path, error: &io::Error) -> Self {
        Self::Io {
            path: path.to_owned(),
            reason: error.to_string().into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    #[test]
    fn a_new_folder_is_for_its_owner_alone_and_an_old_one_is_left_as_it_is() {
        let home = TempDir::new().unwrap();
        let path = home.path().join("above").join("data");
        let folder = Folder::open(&path).unwrap();
        assert_eq!(folder.path(), path);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode(), 0o700);
            drop(folder);
            fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).unwrap();
            let _folder = Folder::open(&path).unwrap();
            assert_eq!(mode(), 0o750);
        }
    }

    #[test]
    fn a_lock_ends_with_its_owner_and_an_old_file_does_not_matter() {
        let home = TempDir::new().unwrap();
        fs::write(home.path().join(LOCK_FILE), "4000000 and more from before").unwrap();
        let folder = Folder::open(home.path()).unwrap();
        let owner = fs::read_to_string(home.path().join(LOCK_FILE)).unwrap();
        assert_eq!(owner, format!("{}\n", std::process::id()));
        assert!(matches!(
            Folder::open(home.path()),
            Err(OpenError::InUse { .. })
        ));
        folder.release();
        let again = Folder::open(home.path()).unwrap();
        // Releasing twice takes nothing from whoever has it now.
        drop(folder);
        assert!(matches!(
            Folder::open(home.path()),
            Err(OpenError::InUse { .. })
        ));
        drop(again);
        Folder::open(home.path()).unwrap();
    }

    #[test]
    fn the_bytes_of_a_folder_are_those_of_its_files() {
        let home = TempDir::new().unwrap();
        let folder = Folder::open(home.path()).unwrap();
        let before = folder.bytes().unwrap();
        fs::write(home.path().join("file"), [0; 1_000]).unwrap();
        assert_eq!(folder.bytes().unwrap(), before + 1_000);
    }
}
