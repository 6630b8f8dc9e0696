//! The key pairs that `outlast keys` made, in a file of the data folder.
//!
//! A file and not a setting of the engine, so that keys can be made and revoked while a server has
//! the folder open; the server reads it again when it changes. Whoever verifies a signature needs
//! the secret itself, so the file holds it, and only its owner may read it.

use crate::{
    auth::{Credentials, KeyPair, Role},
    secret::Secret,
};
use outlast_core::time::{Timestamp, iso};
use outlast_engine::random::Random;
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

/// The file's name in the data folder.
pub const FILE: &str = "keys.json";
/// Held while the file is changed.
const LOCK_FILE: &str = "keys.lock";
/// Characters of an id after its prefix.
const ID_LENGTH: usize = 16;
/// Characters of a secret: 40 of 32 are 200 random bits.
const SECRET_LENGTH: usize = 40;
/// What every id begins with.
const ID_PREFIX: &str = "OLK";
const LETTERS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// A key pair as the file holds it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredKey {
    /// Its public half.
    pub id: Arc<str>,
    /// Its secret half.
    #[serde(serialize_with = "written")]
    pub secret: Secret,
    /// What it is good for.
    pub role: Role,
    /// What its owner calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// When it was made.
    pub created: String,
    /// When it ends, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
}

fn written<S: serde::Serializer>(secret: &Secret, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(secret.expose())
}

/// All of them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredKeys {
    /// In the order in which they were made.
    pub keys: Vec<StoredKey>,
}

/// Why the keys cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// The file cannot be read or written.
    #[error("{} cannot be used", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file holds something else. What it holds is not repeated: it may be a secret.
    #[error("{} does not hold key pairs: line {line}", path.display())]
    Format {
        /// Which one.
        path: PathBuf,
        /// Where it goes wrong.
        line: usize,
    },
    /// Others than its owner may read the file.
    #[error("{} may be read by others than its owner: chmod 600 it, and revoke its keys", .0.display())]
    Exposed(PathBuf),
    /// No key has this id.
    #[error("there is no key {0}")]
    Unknown(String),
}

impl StoredKeys {
    /// The keys of a data folder; none if there is no file.
    ///
    /// # Errors
    /// When the file cannot be read, makes no sense, or may be read by others.
    pub fn load(folder: &Path) -> Result<Self, KeysError> {
        let path = folder.join(FILE);
        let failed = |source| KeysError::File {
            path: path.clone(),
            source,
        };
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(failed(error)),
        };
        if is_exposed(&path).map_err(failed)? {
            return Err(KeysError::Exposed(path));
        }
        serde_json::from_slice(&text).map_err(|error| KeysError::Format {
            path,
            line: error.line(),
        })
    }

    /// When the file was last changed, to notice when it is again.
    pub fn changed(folder: &Path) -> Option<SystemTime> {
        fs::metadata(folder.join(FILE)).ok()?.modified().ok()
    }

    /// Changes the keys of a data folder. Nobody else does in between, and whoever reads sees all of
    /// it or nothing.
    ///
    /// # Errors
    /// When the file cannot be read or written, or `change` refuses.
    pub fn update<R>(
        folder: &Path,
        change: impl FnOnce(&mut Self) -> Result<R, KeysError>,
    ) -> Result<R, KeysError> {
        let path = folder.join(FILE);
        let failed = |source| KeysError::File {
            path: path.clone(),
            source,
        };
        fs::create_dir_all(folder).map_err(failed)?;
        let lock = File::create(folder.join(LOCK_FILE)).map_err(failed)?;
        lock.lock().map_err(failed)?;
        let mut keys = Self::load(folder)?;
        let changed = change(&mut keys)?;
        keys.save(folder).map_err(failed)?;
        Ok(changed)
    }

    fn save(&self, folder: &Path) -> io::Result<()> {
        let draft = folder.join(format!("{FILE}.new"));
        // One that was left behind may have been made by somebody else.
        let _ = fs::remove_file(&draft);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&draft)?;
        serde_json::to_writer_pretty(&mut file, self)?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        fs::rename(&draft, folder.join(FILE))?;
        #[cfg(unix)]
        File::open(folder)?.sync_all()?;
        Ok(())
    }

    /// Makes a key pair.
    pub fn create(
        &mut self,
        role: Role,
        name: Option<String>,
        random: &dyn Random,
        now: Timestamp,
    ) -> StoredKey {
        let key = StoredKey {
            id: format!("{ID_PREFIX}{}", letters(random, ID_LENGTH)).into(),
            secret: Secret::new(letters(random, SECRET_LENGTH)),
            role,
            name,
            created: iso::utc(now),
            expires: None,
        };
        self.keys.push(key.clone());
        key
    }

    /// Makes a key pair in the place of another, which ends at `end`.
    ///
    /// # Errors
    /// When there is no such key.
    pub fn rotate(
        &mut self,
        id: &str,
        end: Timestamp,
        random: &dyn Random,
        now: Timestamp,
    ) -> Result<StoredKey, KeysError> {
        let old = self.keys.iter_mut().find(|key| *key.id == *id);
        let old = old.ok_or_else(|| KeysError::Unknown(id.to_owned()))?;
        old.expires = Some(iso::utc(end));
        let (role, name) = (old.role, old.name.clone());
        Ok(self.create(role, name, random, now))
    }

    /// Takes a key pair away.
    ///
    /// # Errors
    /// When there is no such key.
    pub fn revoke(&mut self, id: &str) -> Result<StoredKey, KeysError> {
        let place = self.keys.iter().position(|key| *key.id == *id);
        let place = place.ok_or_else(|| KeysError::Unknown(id.to_owned()))?;
        Ok(self.keys.remove(place))
    }

    /// Adds them to what callers may show.
    pub fn add_to(&self, credentials: &mut Credentials) {
        for key in &self.keys {
            // An end that cannot be read has passed.
            let end = |text: &String| iso::parse(text).unwrap_or(Timestamp::from_millis(0));
            credentials.add_key(KeyPair {
                id: key.id.clone(),
                secret: key.secret.clone(),
                role: key.role,
                expires: key.expires.as_ref().map(end),
            });
        }
    }
}

fn letters(random: &dyn Random, count: usize) -> String {
    let (first, second) = (random.bytes(), random.bytes());
    let bytes = first.iter().chain(&second).take(count);
    bytes
        .filter_map(|byte| LETTERS.get(usize::from(byte % 32)))
        .map(|letter| char::from(*letter))
        .collect()
}

#[cfg(unix)]
fn is_exposed(path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::PermissionsExt as _;
    Ok(fs::metadata(path)?.permissions().mode() & 0o077 != 0)
}

#[cfg(not(unix))]
fn is_exposed(_: &Path) -> io::Result<bool> {
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use outlast_engine::random::Seeded;

    const NOW: Timestamp = Timestamp::from_millis(1_767_225_600_000);

    fn create(folder: &Path, role: Role) -> StoredKey {
        let made = StoredKeys::update(folder, |keys| {
            Ok(keys.create(role, Some("ci".to_owned()), &Seeded::new(1), NOW))
        });
        made.unwrap()
    }

    #[test]
    fn a_key_is_there_until_it_is_revoked() {
        let folder = tempfile::tempdir().unwrap();
        assert!(StoredKeys::load(folder.path()).unwrap().keys.is_empty());
        let made = create(folder.path(), Role::Worker);
        assert_eq!((made.id.len(), made.secret.expose().len()), (19, 40));
        let found = StoredKeys::load(folder.path()).unwrap();
        assert_eq!(found.keys.len(), 1);
        assert!(found.keys[0].secret.is(made.secret.expose()));
        assert_eq!(found.keys[0].role, Role::Worker);
        let revoked = StoredKeys::update(folder.path(), |keys| keys.revoke(&made.id));
        assert_eq!(revoked.unwrap().id, made.id);
        assert!(StoredKeys::load(folder.path()).unwrap().keys.is_empty());
        let again = StoredKeys::update(folder.path(), |keys| keys.revoke(&made.id));
        assert!(matches!(again, Err(KeysError::Unknown(id)) if *id == *made.id));
    }

    #[test]
    fn a_rotated_key_has_an_end_and_a_successor() {
        let folder = tempfile::tempdir().unwrap();
        let made = create(folder.path(), Role::Admin);
        let end = NOW.plus_seconds(60);
        let random = Seeded::new(2);
        let next = StoredKeys::update(folder.path(), |keys| {
            keys.rotate(&made.id, end, &random, NOW)
        });
        let next = next.unwrap();
        assert_ne!(next.id, made.id);
        assert_eq!((next.role, next.name.as_deref()), (Role::Admin, Some("ci")));
        let keys = StoredKeys::load(folder.path()).unwrap().keys;
        assert_eq!(keys[0].expires.as_deref(), Some("2026-01-01T00:01:00Z"));
        assert_eq!(keys[1].expires, None);
    }

    #[test]
    fn what_is_printed_never_has_the_secret() {
        let folder = tempfile::tempdir().unwrap();
        let made = create(folder.path(), Role::Viewer);
        let keys = StoredKeys::load(folder.path()).unwrap();
        assert!(!format!("{keys:?}").contains(made.secret.expose()));
    }

    #[cfg(unix)]
    #[test]
    fn only_its_owner_may_read_the_file() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        create(folder.path(), Role::Viewer);
        let path = folder.path().join(FILE);
        let mode = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        mode(0o640);
        let exposed = StoredKeys::load(folder.path());
        assert!(matches!(exposed, Err(KeysError::Exposed(_))));
        mode(0o400);
        assert!(StoredKeys::load(folder.path()).is_ok());
    }

    #[test]
    fn a_file_that_makes_no_sense_is_refused_without_being_shown() {
        let folder = tempfile::tempdir().unwrap();
        create(folder.path(), Role::Viewer);
        let path = folder.path().join(FILE);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace("viewer", "wizard")).unwrap();
        let error = StoredKeys::load(folder.path()).unwrap_err();
        assert!(error.to_string().contains("line"), "{error}");
        assert!(!error.to_string().contains("wizard"), "{error}");
    }
}
