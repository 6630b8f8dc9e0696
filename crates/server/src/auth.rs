//! Who is asking, and whether they may.
//!
//! Callers show a key pair by signing ([`crate::sigv4`]), or a bearer token: one from the
//! configuration, or a key pair as `ID.SECRET`. Each has a role; [`crate::operation`] says what a
//! role may ask for. Where keys come from is not known here: see [`crate::keys`] and
//! [`crate::config`].

use crate::{
    error::ApiError,
    operation::{Least, Operation},
    secret::Secret,
    sigv4::{Claim, Message, Refused},
};
use hyper::{
    HeaderMap,
    header::{AUTHORIZATION, HOST, HeaderValue, ORIGIN},
    http::request::Parts,
};
use outlast_core::time::Timestamp;
use outlast_engine::clock::Clock;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::{
    collections::BTreeMap,
    fmt,
    net::IpAddr,
    sync::{Arc, PoisonError, RwLock},
};

/// What somebody may do. Operators may do what viewers may; admins may do everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Look at executions and functions.
    Viewer,
    /// Start, stop and resume executions, answer callbacks, send signals.
    Operator,
    /// Run handlers: ask for calls, write checkpoints.
    Worker,
    /// Everything, functions included.
    Admin,
}

impl Role {
    /// All roles.
    pub const ALL: [Self; 4] = [Self::Viewer, Self::Operator, Self::Worker, Self::Admin];

    /// Its name, as configurations write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Worker => "worker",
            Self::Admin => "admin",
        }
    }

    /// Whether this role is enough.
    pub const fn suffices(self, least: Least) -> bool {
        match least {
            Least::Anybody | Least::Known => true,
            Least::Viewer => matches!(self, Self::Viewer | Self::Operator | Self::Admin),
            Least::Operator => matches!(self, Self::Operator | Self::Admin),
            Least::Worker => matches!(self, Self::Worker | Self::Admin),
            Least::Admin => matches!(self, Self::Admin),
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A key pair. Clients sign with it.
#[derive(Clone, Debug)]
pub struct KeyPair {
    /// Its public half.
    pub id: Arc<str>,
    /// Its secret half.
    pub secret: Secret,
    /// What it is good for.
    pub role: Role,
    /// When it ends, if it does.
    pub expires: Option<Timestamp>,
}

/// All that callers may show.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    keys: BTreeMap<Arc<str>, KeyPair>,
    /// Digests of tokens, so that looking one up tells nothing about the others.
    tokens: BTreeMap<[u8; 32], Role>,
}

impl Credentials {
    /// Adds a key pair; one with the same id is replaced.
    pub fn add_key(&mut self, key: KeyPair) {
        self.keys.insert(key.id.clone(), key);
    }

    /// Adds a bearer token.
    pub fn add_token(&mut self, token: &Secret, role: Role) {
        self.tokens.insert(digest(token.expose()), role);
    }

    /// Whether nobody could come in.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.tokens.is_empty()
    }

    fn key(&self, id: &str, now: Timestamp) -> Option<&KeyPair> {
        let key = self.keys.get(id)?;
        key.expires.is_none_or(|end| now < end).then_some(key)
    }

    fn bearer(&self, token: &str, now: Timestamp) -> Option<Role> {
        if let Some(role) = self.tokens.get(&digest(token)) {
            return Some(*role);
        }
        let (id, secret) = token.split_once('.')?;
        let key = self.key(id, now)?;
        key.secret.is(secret).then_some(key.role)
    }
}

fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token).into()
}

/// Whether a callback's id is enough to answer it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Callbacks {
    /// It is not: whoever answers must be an operator.
    #[default]
    Closed,
    /// It is: services outside need no key.
    Open,
}

/// Who is let in. Cheap to clone; all clones are the same.
#[derive(Clone)]
pub struct Access(Option<Arc<Closed>>);

struct Closed {
    credentials: RwLock<Arc<Credentials>>,
    callbacks: Callbacks,
    /// Signatures are compared with the world's time, which may be set while the engine's goes on.
    clock: Arc<dyn Clock>,
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_open() { "open" } else { "closed" })
    }
}

/// Somebody who asks.
pub(crate) enum Caller<'a> {
    /// Known for what they are; nothing if they did not say.
    Known(Option<Role>),
    /// Claims to be the owner of a key pair, which the body will show.
    Signed(Claim<'a>, Secret, Role),
}

impl Access {
    /// Everybody may do everything: for listeners on loopback.
    pub const fn open() -> Self {
        Self(None)
    }

    /// Only whoever shows one of these.
    pub fn closed(credentials: Credentials, callbacks: Callbacks, clock: Arc<dyn Clock>) -> Self {
        Self(Some(Arc::new(Closed {
            credentials: RwLock::new(Arc::new(credentials)),
            callbacks,
            clock,
        })))
    }

    /// Whether everybody is let in.
    pub const fn is_open(&self) -> bool {
        self.0.is_none()
    }

    /// From now on these count, and no others.
    pub fn replace(&self, credentials: Credentials) {
        if let Some(closed) = &self.0 {
            let mut held = closed
                .credentials
                .write()
                .unwrap_or_else(PoisonError::into_inner);
            *held = Arc::new(credentials);
        }
    }

    /// Who asks for this, as far as can be said before the body is there.
    pub(crate) fn caller<'a>(
        &self,
        operation: Operation,
        headers: &'a HeaderMap,
    ) -> Result<Caller<'a>, ApiError> {
        let Some(closed) = &self.0 else {
            own_origin(headers)?;
            return Ok(Caller::Known(Some(Role::Admin)));
        };
        if closed.least(operation) == Least::Anybody {
            return Ok(Caller::Known(None));
        }
        let mut shown = headers.get_all(AUTHORIZATION).iter();
        let Some(value) = shown.next() else {
            return Ok(Caller::Known(None));
        };
        let text = value.to_str().ok().filter(|_| shown.next().is_none());
        let text = text.ok_or_else(|| incomplete("the authorization header cannot be read"))?;
        let now = closed.clock.now();
        let credentials = closed.credentials();
        if let Some(token) = bearer(text) {
            let role = credentials.bearer(token, now);
            return match role {
                Some(role) => Ok(Caller::Known(Some(role))),
                None => Err(unrecognized(401, "the bearer token is not known")),
            };
        }
        if !Claim::is_one(text) {
            return Err(incomplete(
                "the authorization header is neither AWS4-HMAC-SHA256 nor Bearer",
            ));
        }
        let claim = Claim::parse(text).map_err(refused)?;
        let Some(key) = credentials.key(claim.key_id, now) else {
            return Err(unrecognized(403, "the access key id is not known"));
        };
        claim.check(headers, now).map_err(refused)?;
        let (secret, role) = (key.secret.clone(), key.role);
        Ok(Caller::Signed(claim, secret, role))
    }

    /// Whether somebody with this role may ask for this.
    pub(crate) fn permit(&self, role: Option<Role>, operation: Operation) -> Result<(), ApiError> {
        let Some(closed) = &self.0 else {
            return Ok(());
        };
        let least = closed.least(operation);
        match role {
            _ if least == Least::Anybody => Ok(()),
            Some(role) if role.suffices(least) => Ok(()),
            Some(role) => Err(denied(format!(
                "the role {role} may not ask for {}",
                operation.name()
            ))),
            None => Err(ApiError::of_caller(
                403,
                "MissingAuthenticationTokenException",
                "sign the request, or send a bearer token",
            )),
        }
    }
}

impl Caller<'_> {
    /// Whoever they are, now that the body is there.
    pub(crate) fn proven(&self, parts: &Parts, body: &[u8]) -> Result<Option<Role>, ApiError> {
        match self {
            Self::Known(role) => Ok(*role),
            Self::Signed(..) => self.proven_by(parts, &Sha256::digest(body).into()),
        }
    }

    /// Whoever they are, by the SHA-256 of a body that need not be kept.
    pub(crate) fn proven_by(
        &self,
        parts: &Parts,
        body: &[u8; 32],
    ) -> Result<Option<Role>, ApiError> {
        match self {
            Self::Known(role) => Ok(*role),
            Self::Signed(claim, secret, role) => {
                let message = Message {
                    method: &parts.method,
                    path: parts.uri.path(),
                    query: parts.uri.query().unwrap_or_default(),
                    body: &[],
                };
                let verified = claim.verify_digest(&message, body, &parts.headers, secret);
                verified.map(|()| Some(*role)).map_err(refused)
            }
        }
    }
}

impl Closed {
    fn credentials(&self) -> Arc<Credentials> {
        let held = self
            .credentials
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        held.clone()
    }

    fn least(&self, operation: Operation) -> Least {
        match self.callbacks {
            Callbacks::Open if operation.is_callback() => Least::Anybody,
            Callbacks::Open | Callbacks::Closed => operation.least(),
        }
    }
}

/// The token of a bearer; the scheme is written in any case.
fn bearer(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Where everybody is let in, a page of some web site must not be able to ask through the browser
/// of somebody on this machine. Only browsers send these headers.
fn own_origin(headers: &HeaderMap) -> Result<(), ApiError> {
    let text = |value: Option<&HeaderValue>| -> Option<String> {
        Some(value?.to_str().unwrap_or("?").to_ascii_lowercase())
    };
    let origin = text(headers.get(ORIGIN));
    let site = text(headers.get("sec-fetch-site"));
    if origin.is_none() && site.is_none() {
        return Ok(());
    }
    let host = text(headers.get(HOST)).unwrap_or_default();
    let own_site = matches!(site.as_deref(), None | Some("none" | "same-origin"));
    let own_origin = origin.is_none_or(|origin| {
        let (_, from) = origin.split_once("://").unwrap_or_default();
        from == host
    });
    if own_site && own_origin && is_loopback(&host) {
        return Ok(());
    }
    Err(denied("pages of other origins may not ask"))
}

/// Whether a `host` header names this machine and nothing that a name server could.
fn is_loopback(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    name == "localhost" || name.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

fn denied(message: impl Into<String>) -> ApiError {
    ApiError::of_caller(403, "AccessDeniedException", message)
}

fn incomplete(message: impl Into<String>) -> ApiError {
    ApiError::of_caller(403, "IncompleteSignatureException", message)
}

fn unrecognized(status: u16, message: &str) -> ApiError {
    ApiError::of_caller(status, "UnrecognizedClientException", message)
}

fn refused(refused: Refused) -> ApiError {
    let message = refused.to_string();
    match refused {
        Refused::Incomplete(_) => incomplete(message),
        Refused::Expired | Refused::Mismatch => {
            ApiError::of_caller(403, "InvalidSignatureException", message)
        }
    }
}

#[cfg(test)]
mod tests;
