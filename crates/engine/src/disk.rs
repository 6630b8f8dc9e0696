//! The disk as the journal sees it: one folder of files, written at offsets and synced by name.
//!
//! It is a trait so that tests can put a disk under the journal that fails, fills up or loses power
//! at any call ([`sim`]). Nothing here knows what is in a file. There is no way to ask for free
//! space: the answer is old when it arrives, and a write that finds no room says so itself.

pub mod sim;

use std::{
    fmt,
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

/// One folder of files.
pub trait Disk: fmt::Debug + Send + Sync + 'static {
    /// Names of the files there are, in order.
    ///
    /// # Errors
    /// When the folder cannot be read.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Makes a new, empty file. Its name is durable after [`Disk::sync_folder`].
    ///
    /// # Errors
    /// When it exists or cannot be made.
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;

    /// Opens a file for reading and writing.
    ///
    /// # Errors
    /// When it is not there or cannot be opened.
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;

    /// Removes a file. It may come back after a power cut unless the folder is synced.
    ///
    /// # Errors
    /// When it cannot be removed.
    fn delete(&self, name: &str) -> io::Result<()>;

    /// Gives a file another name.
    ///
    /// # Errors
    /// When it cannot be renamed.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Makes names durable.
    ///
    /// # Errors
    /// When that is not certain.
    fn sync_folder(&self) -> io::Result<()>;
}

/// One open file.
pub trait DiskFile: fmt::Debug + Send + Sync + 'static {
    /// Fills `bytes` from `offset` on.
    ///
    /// # Errors
    /// When the file ends before, or cannot be read.
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()>;

    /// Writes all of `bytes` at `offset`.
    ///
    /// # Errors
    /// When not all could be written; part of it may have been.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes what was written durable (`fdatasync`).
    ///
    /// # Errors
    /// When that is not certain. Calling it again proves nothing: the kernel may have dropped the
    /// bytes.
    fn sync(&self) -> io::Result<()>;

    /// Bytes in the file.
    ///
    /// # Errors
    /// When they cannot be told.
    fn len(&self) -> io::Result<u64>;

    /// Whether the file is empty.
    ///
    /// # Errors
    /// When that cannot be told.
    fn is_empty(&self) -> io::Result<bool> {
        self.len().map(|bytes| bytes == 0)
    }
}

/// A folder of the file system.
#[derive(Debug)]
pub struct RealDisk {
    folder: PathBuf,
}

impl RealDisk {
    /// The folder at `folder`, made if it is not there.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        if let Some(parent) = folder.parent() {
            sync_names(parent)?;
        }
        Ok(Self {
            folder: folder.to_owned(),
        })
    }
}

impl Disk for RealDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            names.extend(entry?.file_name().into_string());
        }
        names.sort_unstable();
        Ok(names)
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(self.folder.join(name))?;
        Ok(Box::new(RealFile(Mutex::new(file))))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(self.folder.join(name))?;
        Ok(Box::new(RealFile(Mutex::new(file))))
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.folder.join(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.folder.join(from), self.folder.join(to))
    }

    fn sync_folder(&self) -> io::Result<()> {
        sync_names(&self.folder)
    }
}

/// Only Unix has folders that can be synced; elsewhere names are the file system's own business.
fn sync_names(folder: &Path) -> io::Result<()> {
    if cfg!(unix) && !folder.as_os_str().is_empty() {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

/// The position of the file is shared, so one call at a time: a journal has one writer anyway.
#[derive(Debug)]
struct RealFile(Mutex<File>);

impl RealFile {
    fn at<T>(&self, offset: u64, act: impl FnOnce(&mut File) -> io::Result<T>) -> io::Result<T> {
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        file.seek(SeekFrom::Start(offset))?;
        act(&mut file)
    }
}

impl DiskFile for RealFile {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.at(offset, |file| file.read_exact(bytes))
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.at(offset, |file| file.write_all(bytes))
    }

    fn sync(&self) -> io::Result<()> {
        let file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        file.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        let file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(file.metadata()?.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_keeps_what_is_written_to_its_files() {
        let folder = tempfile::tempdir().unwrap();
        let disk = RealDisk::new(&folder.path().join("journal")).unwrap();
        let file = disk.create("b").unwrap();
        assert!(file.is_empty().unwrap());
        file.write_at(3, b"xyz").unwrap();
        file.sync().unwrap();
        disk.create("a").unwrap();
        disk.sync_folder().unwrap();
        assert!(disk.create("a").is_err());

        assert_eq!(disk.list().unwrap(), ["a", "b"]);
        let file = disk.open("b").unwrap();
        assert_eq!(file.len().unwrap(), 6);
        let mut bytes = [9; 4];
        file.read_at(2, &mut bytes).unwrap();
        assert_eq!(bytes, [0, b'x', b'y', b'z']);
        assert!(file.read_at(3, &mut bytes).is_err());

        disk.rename("a", "c").unwrap();
        disk.delete("b").unwrap();
        assert_eq!(disk.list().unwrap(), ["c"]);
        assert!(disk.open("b").is_err());
    }
}
