//! The folder a measurement takes place in.
//!
//! An engine that knows only the functions of the benchmark has no business with anybody's own
//! executions, so a folder that was not made for measuring is refused.

use anyhow::{Context, bail};
use std::{
    fs,
    path::{Path, PathBuf},
};
use tempfile::TempDir;

/// The file that says what the folder is for.
const MARKER: &str = "BENCH";

/// A folder to measure in; a temporary one goes when this does.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    _temporary: Option<TempDir>,
}

impl Folder {
    /// The folder that was asked for, or a temporary one. That lies in the current folder, because
    /// the system's place for temporary files is often not on a disk.
    ///
    /// # Errors
    /// When it cannot be made, or belongs to somebody else.
    pub(crate) fn choose(wanted: Option<&Path>) -> anyhow::Result<Self> {
        match wanted {
            Some(path) => Self::claim(path),
            None => {
                let temporary = tempfile::Builder::new()
                    .prefix(".outlast-bench-")
                    .tempdir_in(".")
                    .context(
                        "no temporary folder can be made in the current folder; \
                         name one that can be written to with --data",
                    )?;
                Ok(Self {
                    path: temporary.path().to_owned(),
                    _temporary: Some(temporary),
                })
            }
        }
    }

    fn claim(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        fs::create_dir_all(path).with_context(|| format!("the folder {shown} cannot be made"))?;
        let marker = path.join(MARKER);
        if !marker.exists() {
            let mut files =
                fs::read_dir(path).with_context(|| format!("the folder {shown} cannot be read"))?;
            if files.next().is_some() {
                bail!(
                    "{shown} is not empty and was not made by `outlast bench`; \
                     name a new folder with --data"
                );
            }
            let text = "Made by `outlast bench`; may be deleted.\n";
            fs::write(&marker, text).with_context(|| format!("{shown} cannot be written to"))?;
        }
        Ok(Self {
            path: path.to_owned(),
            _temporary: None,
        })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_folder_is_claimed_and_found_again() {
        let outer = tempfile::tempdir().unwrap();
        for path in [outer.path().to_owned(), outer.path().join("a/b")] {
            for _ in 0..2 {
                assert_eq!(Folder::choose(Some(&path)).unwrap().path(), path);
            }
        }
    }

    #[test]
    fn somebody_elses_folder_is_refused_and_left_alone() {
        let outer = tempfile::tempdir().unwrap();
        fs::write(outer.path().join("letter"), "dear").unwrap();
        let error = Folder::choose(Some(outer.path())).unwrap_err().to_string();
        assert!(error.contains("name a new folder"), "{error}");
        assert_eq!(fs::read_dir(outer.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_temporary_folder_goes_with_its_owner() {
        let folder = Folder::choose(None).unwrap();
        let path = folder.path().to_owned();
        assert!(path.is_dir());
        drop(folder);
        assert!(!path.exists());
    }
}
