//! `outlast keys`: key pairs of a data folder. A server that has the folder open notices within
//! seconds. A secret is shown once, when it is made.

use crate::{
    arguments::{Keys, KeysCommand, RoleFlag},
    output::{Output, Report, Verdict},
};
use anyhow::anyhow;
use outlast_engine::{
    clock::{Clock as _, WallClock},
    random::SystemRandom,
};
use outlast_server::{
    auth::Role,
    keys::{StoredKey, StoredKeys},
};
use serde::Serialize;

const SECONDS_AN_HOUR: u32 = 3_600;

/// A key pair that was just made.
#[derive(Serialize)]
struct Made {
    access_key_id: String,
    secret_access_key: String,
    bearer_token: String,
    role: Role,
}

impl Report for Made {
    fn rows(&self) -> Vec<(String, String)> {
        [
            ("access key id", self.access_key_id.clone()),
            ("secret access key", self.secret_access_key.clone()),
            ("bearer token", self.bearer_token.clone()),
            ("role", self.role.to_string()),
        ]
        .map(|(what, value)| (what.to_owned(), value))
        .into()
    }
}

impl From<StoredKey> for Made {
    fn from(key: StoredKey) -> Self {
        let secret = key.secret.expose();
        Self {
            access_key_id: key.id.to_string(),
            secret_access_key: secret.to_owned(),
            bearer_token: format!("{}.{secret}", key.id),
            role: key.role,
        }
    }
}

/// A key pair without its secret.
#[derive(Serialize)]
struct Listed {
    access_key_id: String,
    role: Role,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    created: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<String>,
}

#[derive(Serialize)]
struct List {
    keys: Vec<Listed>,
}

impl From<StoredKey> for Listed {
    fn from(key: StoredKey) -> Self {
        Self {
            access_key_id: key.id.to_string(),
            role: key.role,
            name: key.name,
            created: key.created,
            expires: key.expires,
        }
    }
}

impl Report for List {
    fn rows(&self) -> Vec<(String, String)> {
        let row = |key: &Listed| {
            let mut text = format!("{:8}  made {}", key.role.name(), key.created);
            if let Some(expires) = &key.expires {
                text += &format!("  ends {expires}");
            }
            if let Some(name) = &key.name {
                text += &format!("  {name}");
            }
            (key.access_key_id.clone(), text)
        };
        self.keys.iter().map(row).collect()
    }
}

#[derive(Serialize)]
struct Revoked {
    revoked: String,
}

impl Report for Revoked {
    fn rows(&self) -> Vec<(String, String)> {
        vec![("revoked".to_owned(), self.revoked.clone())]
    }
}

/// Makes, lists or takes away key pairs.
///
/// # Errors
/// When the keys of the folder cannot be read or written, or there is no such key.
pub(crate) fn run(keys: Keys, output: &Output) -> anyhow::Result<Verdict> {
    let (data, now) = (keys.data, WallClock.now());
    let random = SystemRandom::new().map_err(|error| anyhow!(error))?;
    match keys.command {
        KeysCommand::Create(create) => {
            let role = role(create.role);
            let made = StoredKeys::update(&data, |keys| {
                Ok(keys.create(role, create.name, &random, now))
            });
            output.report(&Made::from(made?))?;
            output.note("the secret is not shown again");
        }
        KeysCommand::Ls => {
            let keys = StoredKeys::load(&data)?.keys;
            let keys = keys.into_iter().map(Listed::from).collect();
            output.report(&List { keys })?;
        }
        KeysCommand::Rotate(rotate) => {
            let end = now.plus_seconds(rotate.keep_hours * SECONDS_AN_HOUR);
            let made = StoredKeys::update(&data, |keys| keys.rotate(&rotate.id, end, &random, now));
            output.report(&Made::from(made?))?;
            output.note("the secret is not shown again");
        }
        KeysCommand::Revoke(revoke) => {
            let revoked = StoredKeys::update(&data, |keys| keys.revoke(&revoke.id))?;
            let revoked = revoked.id.to_string();
            output.report(&Revoked { revoked })?;
        }
    }
    Ok(Verdict::Good)
}

fn role(flag: RoleFlag) -> Role {
    match flag {
        RoleFlag::Viewer => Role::Viewer,
        RoleFlag::Operator => Role::Operator,
        RoleFlag::Worker => Role::Worker,
        RoleFlag::Admin => Role::Admin,
    }
}
