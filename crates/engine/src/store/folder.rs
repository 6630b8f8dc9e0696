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
    // Only held: the lock goes when the file is closed, by us or by the end of the process.
    _lock: File,
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

impl Folder {
    /// Makes the folder if need be and locks it.
    ///
    /// # Errors
    /// [`OpenError::InUse`] if somebody else has it open, [`OpenError::Io`] if it cannot be made.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let failed = |error: io::Error| OpenError::io(path, &error);
        fs::create_dir_all(path).map_err(failed)?;
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
            _lock: lock,
        };
        folder.sync().map_err(failed)?;
        Ok(folder)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the folder's list of files durable, and its own entry in the folder above.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn sync(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()?;
        match self.path.canonicalize()?.parent() {
            // Not everybody may open the folder above theirs; then it was not made by us.
            Some(parent) => match File::open(parent) {
                Ok(parent) => parent.sync_all(),
                Err(_) => Ok(()),
            },
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
