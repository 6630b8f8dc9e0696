//! The configuration file of a server: TOML, read strictly. What it does not say is left open, for
//! flags, the environment and defaults to fill in; precedence is the program's to keep.

use crate::{
    auth::{Callbacks, Credentials, KeyPair, Role},
    host::push::address::AddressPolicy,
    secret::Secret,
    server::Options,
};
use serde::Deserialize;
use std::{net::SocketAddr, path::PathBuf, time::Duration};
use toml::{Table, Value};

/// Shortest secret or token that is accepted.
pub const SECRET_LENGTH_MIN: usize = 16;
/// How different a name may be from what somebody perhaps meant.
const TYPO_LIKENESS_MIN: f64 = 0.6;

/// Every key that there is, by its table; the first table is the file itself.
const KNOWN: [(&str, &[&str]); 6] = [
    (
        "",
        &[
            "listen",
            "data",
            "functions",
            "region",
            "account",
            "callbacks",
            "parity",
            "keys",
            "tokens",
            "tls",
            "limits",
            "push",
        ],
    ),
    ("keys", &["id", "secret", "role"]),
    ("tokens", &["token", "role"]),
    ("tls", &["certificate", "key"]),
    (
        "limits",
        &[
            "body_bytes_max",
            "bodies_bytes_max",
            "connections_max",
            "header_timeout_seconds",
            "body_timeout_seconds",
            "synchronous_seconds_max",
            "background_max",
            "grace_seconds",
            "invocations_max",
        ],
    ),
    ("push", &["allow", "sign", "ca"]),
];

/// What a configuration file says.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The address to listen on.
    pub listen: Option<SocketAddr>,
    /// The data folder.
    pub data: Option<PathBuf>,
    /// A JSON file of function configurations by name.
    pub functions: Option<PathBuf>,
    /// The region of functions that do not say theirs.
    pub region: Option<String>,
    /// The account of functions that do not say theirs.
    pub account: Option<String>,
    /// Whether a callback's id is enough to answer it.
    pub callbacks: Option<Callbacks>,
    /// Which limits executions have.
    pub parity: Option<Parity>,
    /// Key pairs.
    #[serde(default)]
    pub keys: Vec<Key>,
    /// Bearer tokens.
    #[serde(default)]
    pub tokens: Vec<Token>,
    /// Certificate files.
    pub tls: Option<TlsFiles>,
    /// Limits of the server.
    #[serde(default)]
    pub limits: Limits,
    /// Which functions may be called elsewhere.
    #[serde(default)]
    pub push: Push,
}

/// Which limits executions have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Parity {
    /// Ours: no quota on operations or bytes, and a bad deploy is held.
    #[default]
    Relaxed,
    /// The service's, as far as they are published.
    Strict,
}

/// A key pair.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// Its public half.
    pub id: String,
    /// Its secret half.
    pub secret: Secret,
    /// What it is good for.
    pub role: Role,
}

/// A bearer token.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Token {
    /// The token.
    pub token: Secret,
    /// What it is good for.
    pub role: Role,
}

/// Certificate files, in PEM.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsFiles {
    /// The chain of certificates.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// Limits of the server; see [`Options`].
#[expect(missing_docs, reason = "each is a field of the options")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    pub body_bytes_max: Option<u32>,
    pub bodies_bytes_max: Option<u64>,
    pub connections_max: Option<u32>,
    pub header_timeout_seconds: Option<u32>,
    pub body_timeout_seconds: Option<u32>,
    pub synchronous_seconds_max: Option<u32>,
    pub background_max: Option<u32>,
    pub grace_seconds: Option<u32>,
    pub invocations_max: Option<u32>,
}

/// Which functions may be called elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Push {
    /// Ranges of addresses, or hosts by name, besides public addresses.
    pub allow: Option<Vec<String>>,
    /// Hosts whose calls are signed with the AWS keys of the server's environment.
    #[serde(default)]
    pub sign: Vec<String>,
    /// A file of certificates to trust besides the machine's.
    pub ca: Option<PathBuf>,
}

/// What is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// It is not TOML, or a value is of the wrong kind. The line is not repeated: it may hold a
    /// secret.
    #[error("line {line}: {message}")]
    Format {
        /// Where.
        line: usize,
        /// What.
        message: String,
    },
    /// A key that there is not.
    #[error("there is no setting {key}{}", meant(nearest.as_deref()))]
    Unknown {
        /// The key with its table.
        key: String,
        /// The key that is most like it.
        nearest: Option<String>,
    },
    /// A value that cannot be used.
    #[error("{key}: {reason}")]
    Value {
        /// Which one.
        key: String,
        /// Why.
        reason: String,
    },
}

fn meant(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |key| format!("; is {key} meant?"))
}

impl Config {
    /// Reads a file's text.
    ///
    /// # Errors
    /// When it is not TOML, has a key that is not known, or a value that cannot be used.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let format = |error: &toml::de::Error| ConfigError::Format {
            line: line(text, error.span().map_or(0, |span| span.start)),
            message: error.message().to_owned(),
        };
        let table: Table = text.parse().map_err(|error| format(&error))?;
        check_keys(&table)?;
        let config: Self = toml::from_str(text).map_err(|error| format(&error))?;
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<(), ConfigError> {
        for (number, key) in self.keys.iter().enumerate() {
            let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            if key.id.is_empty() || !key.id.chars().all(fits) {
                let reason = "an id is letters, digits, - and _";
                return Err(value(&format!("keys[{number}].id"), reason));
            }
            long_enough(&format!("keys[{number}].secret"), &key.secret)?;
        }
        for (number, token) in self.tokens.iter().enumerate() {
            long_enough(&format!("tokens[{number}].token"), &token.token)?;
        }
        if let Some(account) = &self.account {
            check_account(account)?;
        }
        if let Some(region) = &self.region {
            check_region(region)?;
        }
        self.policy(AddressPolicy::default()).map(drop)?;
        self.limits.check()
    }

    /// The keys and tokens of the file.
    pub fn credentials(&self) -> Credentials {
        let mut credentials = Credentials::default();
        for key in &self.keys {
            credentials.add_key(KeyPair {
                id: key.id.as_str().into(),
                secret: key.secret.clone(),
                role: key.role,
                expires: None,
            });
        }
        for token in &self.tokens {
            credentials.add_token(&token.token, token.role);
        }
        credentials
    }

    /// Which addresses may be called; `otherwise` if the file does not say.
    ///
    /// # Errors
    /// When what looks like a range is none.
    pub fn policy(&self, otherwise: AddressPolicy) -> Result<AddressPolicy, ConfigError> {
        let Some(allow) = &self.push.allow else {
            return Ok(otherwise);
        };
        let mut policy = AddressPolicy::default();
        for entry in allow {
            let numeric = entry.contains(['/', ':'])
                || entry
                    .bytes()
                    .all(|byte| byte.is_ascii_digit() || byte == b'.');
            if numeric {
                let range = entry.parse();
                let invalid = |error| value("push.allow", &format!("{error}"));
                policy.ranges.push(
                    range.map_err(|error: crate::host::push::address::InvalidRange| {
                        invalid(error)
                    })?,
                );
            } else {
                policy.hosts.push(entry.clone());
            }
        }
        Ok(policy)
    }
}

/// Whether an account is twelve digits.
///
/// # Errors
/// When it is not.
pub fn check_account(account: &str) -> Result<(), ConfigError> {
    if account.len() == 12 && account.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(());
    }
    Err(value("account", "an account is twelve digits"))
}

/// Whether a region can be part of an ARN.
///
/// # Errors
/// When it cannot.
pub fn check_region(region: &str) -> Result<(), ConfigError> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if !region.is_empty() && region.len() <= 64 && region.bytes().all(fits) {
        return Ok(());
    }
    Err(value("region", "a region is letters, digits and -"))
}

impl Limits {
    fn check(&self) -> Result<(), ConfigError> {
        for (name, limit) in [
            ("body_bytes_max", self.body_bytes_max),
            ("connections_max", self.connections_max),
            ("header_timeout_seconds", self.header_timeout_seconds),
            ("body_timeout_seconds", self.body_timeout_seconds),
            ("synchronous_seconds_max", self.synchronous_seconds_max),
            ("background_max", self.background_max),
            ("invocations_max", self.invocations_max),
        ] {
            if limit == Some(0) {
                let reason = "nothing would work with 0";
                return Err(value(&format!("limits.{name}"), reason));
            }
        }
        Ok(())
    }

    /// The options of a server with these limits.
    pub fn options(&self) -> Options {
        let seconds = |limit: Option<u32>, default: Duration| {
            limit.map_or(default, |limit| Duration::from_secs(limit.into()))
        };
        let count = |limit: Option<u32>, default: usize| {
            limit.map_or(default, |limit| {
                usize::try_from(limit).unwrap_or(usize::MAX)
            })
        };
        let default = Options::default();
        let bodies = self.bodies_bytes_max;
        Options {
            body_bytes_max: count(self.body_bytes_max, default.body_bytes_max),
            bodies_bytes_max: bodies.map_or(default.bodies_bytes_max, |limit| {
                usize::try_from(limit).unwrap_or(usize::MAX)
            }),
            connections_max: count(self.connections_max, default.connections_max),
            header_timeout: seconds(self.header_timeout_seconds, default.header_timeout),
            body_timeout: seconds(self.body_timeout_seconds, default.body_timeout),
            synchronous_max: seconds(self.synchronous_seconds_max, default.synchronous_max),
            background_max: count(self.background_max, default.background_max),
            grace: seconds(self.grace_seconds, default.grace),
            ..default
        }
    }
}

fn long_enough(key: &str, secret: &Secret) -> Result<(), ConfigError> {
    if secret.expose().len() < SECRET_LENGTH_MIN {
        let reason = format!("a secret has {SECRET_LENGTH_MIN} characters at least");
        return Err(value(key, &reason));
    }
    Ok(())
}

fn value(key: &str, reason: &str) -> ConfigError {
    ConfigError::Value {
        key: key.to_owned(),
        reason: reason.to_owned(),
    }
}

/// Whether every key is known. Asked before the values are read, since serde names the key but not
/// the one that was meant.
fn check_keys(table: &Table) -> Result<(), ConfigError> {
    for (key, entry) in table {
        check_key("", key)?;
        let inner: Vec<&Table> = match entry {
            Value::Table(inner) => vec![inner],
            Value::Array(entries) => entries.iter().filter_map(Value::as_table).collect(),
            Value::String(_)
            | Value::Integer(_)
            | Value::Float(_)
            | Value::Boolean(_)
            | Value::Datetime(_) => Vec::new(),
        };
        for name in inner.into_iter().flat_map(Table::keys) {
            check_key(key, name)?;
        }
    }
    Ok(())
}

fn check_key(table: &str, key: &str) -> Result<(), ConfigError> {
    let known = KNOWN.iter().find(|(name, _)| *name == table);
    // A value where a table is wanted, or the other way round, is for the reader to refuse.
    let Some((_, known)) = known else {
        return Ok(());
    };
    if known.contains(&key) {
        return Ok(());
    }
    let path = |key: &str| match table {
        "" => key.to_owned(),
        table => format!("{table}.{key}"),
    };
    let own = nearest(key, known.iter().map(|name| (*name, path(name))));
    let elsewhere = || {
        let all = KNOWN.iter().flat_map(|(table, keys)| {
            keys.iter().map(move |key| match *table {
                "" => (*key, (*key).to_owned()),
                table => (*key, format!("{table}.{key}")),
            })
        });
        nearest(key, all)
    };
    Err(ConfigError::Unknown {
        key: path(key),
        nearest: own.or_else(elsewhere),
    })
}

/// The path whose name is most like `key`, if any is.
fn nearest<'a>(key: &str, names: impl Iterator<Item = (&'a str, String)>) -> Option<String> {
    let mut best: Option<(f64, String)> = None;
    for (name, path) in names {
        let likeness = strsim::normalized_damerau_levenshtein(key, name);
        let most = best.as_ref().map_or(TYPO_LIKENESS_MIN, |(most, _)| *most);
        if likeness > most {
            best = Some((likeness, path));
        }
    }
    best.map(|(_, path)| path)
}

fn line(text: &str, offset: usize) -> usize {
    let before = text.get(..offset).unwrap_or_default();
    before.matches('\n').count() + 1
}

#[cfg(test)]
mod tests;
