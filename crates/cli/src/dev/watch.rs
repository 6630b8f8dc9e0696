//! Notices that files have changed, by looking: works on every file system, and for a project's own
//! files looking twice a second costs next to nothing.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

/// How often to look.
pub(crate) const PERIOD: Duration = Duration::from_millis(400);
/// Files that are looked at, at most; a folder with more is no folder of somebody's own code.
const FILES_MAX: usize = 20_000;
/// Folders in one another, at most.
const DEPTH_MAX: usize = 32;
/// Folders that tools fill and nobody edits.
const IGNORED: [&str; 5] = [
    "node_modules",
    "__pycache__",
    "venv",
    "target",
    "site-packages",
];
/// How files end that programs write while they run.
const WRITTEN: [&str; 10] = [
    ".pyc", ".log", "~", ".swp", ".tmp", ".db", ".sqlite", ".sqlite3", "-wal", "-shm",
];

/// What files looked like.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Look {
    files: Vec<(PathBuf, Option<SystemTime>, u64)>,
}

impl Look {
    /// Looks at files, and at folders with all that lies in them.
    fn at(places: &[PathBuf], except: &Path) -> Self {
        let mut look = Self::default();
        for place in places {
            // A change while it is looked at is seen the next time.
            let _ = look.add(place, except, 0);
        }
        look
    }

    fn add(&mut self, place: &Path, except: &Path, depth: usize) -> io::Result<()> {
        let about = fs::metadata(place)?;
        if !about.is_dir() {
            let file = (place.to_owned(), about.modified().ok(), about.len());
            self.files.push(file);
            return Ok(());
        }
        if depth > DEPTH_MAX || place == except {
            return Ok(());
        }
        let mut inside: Vec<PathBuf> = fs::read_dir(place)?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| !is_ignored(path))
            .collect();
        inside.sort();
        for path in inside {
            if self.files.len() >= FILES_MAX {
                break;
            }
            let _ = self.add(&path, except, depth + 1);
        }
        Ok(())
    }
}

/// Hidden files, and what tools write.
fn is_ignored(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with('.')
        || WRITTEN.iter().any(|ending| name.ends_with(ending))
        || IGNORED.contains(&&*name) && path.is_dir()
}

/// Tells a change once it is over: nothing has changed since the look before.
#[derive(Debug)]
pub(crate) struct Watch {
    places: Vec<PathBuf>,
    /// A folder that changes all the time, wherever it lies.
    except: PathBuf,
    /// As it was when last told.
    told: Look,
    /// As it was the last time.
    last: Look,
}

impl Watch {
    /// Watches files, and folders with all that lies in them but one folder.
    pub(crate) fn new(places: Vec<PathBuf>, except: &Path) -> Self {
        let now = Look::at(&places, except);
        Self {
            places,
            except: except.to_owned(),
            told: now.clone(),
            last: now,
        }
    }

    /// Looks again; whether there was a change that is over.
    pub(crate) fn has_changed(&mut self) -> bool {
        let now = Look::at(&self.places, &self.except);
        let over = now == self.last && now != self.told;
        if over {
            self.told = now.clone();
        }
        self.last = now;
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_told_once_when_it_is_over() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("app.py");
        fs::write(&file, "1").unwrap();
        let mut watch = Watch::new(vec![folder.path().to_owned()], Path::new("data"));
        assert!(!watch.has_changed());
        fs::write(&file, "22").unwrap();
        assert!(!watch.has_changed(), "it may go on");
        fs::write(&file, "333").unwrap();
        assert!(!watch.has_changed(), "it went on");
        assert!(watch.has_changed());
        assert!(!watch.has_changed());
        fs::remove_file(&file).unwrap();
        assert!(!watch.has_changed());
        assert!(watch.has_changed());
    }

    #[test]
    fn what_tools_write_is_no_change() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        let mut watch = Watch::new(vec![at.to_owned()], &at.join("data"));
        for ignored in [
            "node_modules",
            ".venv",
            "__pycache__",
            "target",
            ".outlast",
            "data",
        ] {
            fs::create_dir(at.join(ignored)).unwrap();
            fs::write(at.join(ignored).join("file"), "1").unwrap();
        }
        fs::write(at.join("app.pyc"), "1").unwrap();
        assert!(!watch.has_changed());
        assert!(!watch.has_changed());
        fs::write(at.join("target2"), "a file, not a folder").unwrap();
        assert!(!watch.has_changed());
        assert!(watch.has_changed());
    }
}
