//! AWS Signature Version 4 in its header form, for the service `lambda`: verifying what clients
//! sign, and signing as they do. Pure: whose secret it is and what time it is, the caller says.
//!
//! The path is encoded once more before it is signed, and taken as it was sent: no dots or double
//! slashes are removed, so what is signed is what is routed. Query form, unsigned payloads and
//! signatures over chunks are not understood, and refused.

use crate::secret::Secret;
use hyper::{
    HeaderMap, Method,
    header::{AUTHORIZATION, HeaderName, HeaderValue},
};
use outlast_core::{
    time::{Timestamp, iso},
    token::{equal, hmac_sha256},
};
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;

/// How far the clocks of client and server may differ.
pub const SKEW_MS_MAX: u64 = 300_000;
/// The only algorithm that is understood.
const ALGORITHM: &str = "AWS4-HMAC-SHA256";
const SERVICE: &str = "lambda";
const TERMINATOR: &str = "aws4_request";
/// Headers a client may sign, at most.
const SIGNED_HEADERS_MAX: usize = 64;
const DATE: HeaderName = HeaderName::from_static("x-amz-date");
const BODY_HASH: HeaderName = HeaderName::from_static("x-amz-content-sha256");
const SESSION: HeaderName = HeaderName::from_static("x-amz-security-token");
/// Headers that say what is asked: present ones must be signed.
const MEANINGFUL: &str = "x-amz-";

/// What is signed besides headers.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// The method.
    pub method: &'a Method,
    /// The path, as it is sent.
    pub path: &'a str,
    /// The query, as it is sent, without the question mark.
    pub query: &'a str,
    /// The whole body.
    pub body: &'a [u8],
}

/// Why a signature is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Something that every signed request has is missing or cannot be read.
    #[error("the signature is incomplete: {0}")]
    Incomplete(&'static str),
    /// It was signed too long ago, or will be.
    #[error(
        "the signature has expired or is not yet valid: the clocks of client and server may differ by 5 minutes"
    )]
    Expired,
    /// Somebody else signed it, or something else was signed.
    #[error(
        "the request signature we calculated does not match the signature you provided: check the secret access key and what signs the request"
    )]
    Mismatch,
}

/// What the header of a signed request claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim<'a> {
    /// The id of the key pair that signed.
    pub key_id: &'a str,
    date: &'a str,
    region: &'a str,
    /// Names of the signed headers, in order, as one text.
    signed: &'a str,
    signature: [u8; 32],
}

impl<'a> Claim<'a> {
    /// Whether an `authorization` header is meant to be a signature of this kind.
    pub fn is_one(authorization: &str) -> bool {
        authorization.starts_with(ALGORITHM)
    }

    /// Reads an `authorization` header.
    ///
    /// # Errors
    /// When it is not one of a signed request to the service `lambda`.
    pub fn parse(authorization: &'a str) -> Result<Self, Refused> {
        use Refused::Incomplete;
        let rest = authorization.strip_prefix(ALGORITHM);
        let rest = rest.and_then(|rest| rest.strip_prefix(' '));
        let rest = rest.ok_or(Incomplete("the algorithm is not AWS4-HMAC-SHA256"))?;
        let (mut credential, mut signed, mut signature) = (None, None, None);
        for part in rest.split(',') {
            let (name, value) = part.trim().split_once('=').unwrap_or_default();
            let place = match name {
                "Credential" => &mut credential,
                "SignedHeaders" => &mut signed,
                "Signature" => &mut signature,
                _ => return Err(Incomplete("the authorization header has an unknown part")),
            };
            if place.replace(value).is_some() {
                return Err(Incomplete("the authorization header repeats a part"));
            }
        }
        let credential = credential.ok_or(Incomplete("Credential is missing"))?;
        let signed = signed.ok_or(Incomplete("SignedHeaders is missing"))?;
        let signature = signature.ok_or(Incomplete("Signature is missing"))?;
        let mut scope = credential.rsplitn(5, '/');
        let mut next = || scope.next().filter(|part| !part.is_empty());
        let scope = (next(), next(), next(), next(), next());
        let (Some(TERMINATOR), Some(SERVICE), Some(region), Some(date), Some(key_id)) = scope
        else {
            return Err(Incomplete("the credential is not for the service lambda"));
        };
        Ok(Self {
            key_id,
            date,
            region,
            signed,
            signature: unhex(signature).ok_or(Incomplete("Signature is not a SHA-256 in hex"))?,
        })
    }

    /// Whether what must be signed is, at about this time: all that can be said before the body is
    /// there.
    ///
    /// # Errors
    /// When it is not.
    pub fn check(&self, headers: &HeaderMap, now: Timestamp) -> Result<(), Refused> {
        use Refused::Incomplete;
        let names = || self.signed.split(';');
        if !names().is_sorted_by(|one, next| one < next) {
            return Err(Incomplete("SignedHeaders is not in order"));
        }
        if names().count() > SIGNED_HEADERS_MAX {
            return Err(Incomplete("SignedHeaders names too many headers"));
        }
        if !names().any(|name| name == "host") {
            return Err(Incomplete("the header host is not signed"));
        }
        let unsigned = |name: &HeaderName| {
            name.as_str().starts_with(MEANINGFUL) && !names().any(|signed| signed == name.as_str())
        };
        if headers.keys().any(unsigned) {
            return Err(Incomplete("a header that begins with x-amz- is not signed"));
        }
        let text = only(headers, &DATE).ok_or(Incomplete("x-amz-date is missing"))?;
        let at = moment(text).ok_or(Incomplete("x-amz-date is not a time"))?;
        if !text.starts_with(self.date) || self.date.len() != 8 {
            return Err(Incomplete(
                "the credential is of another day than x-amz-date",
            ));
        }
        if at.as_millis().abs_diff(now.as_millis()) > SKEW_MS_MAX {
            return Err(Refused::Expired);
        }
        Ok(())
    }

    /// Whether the owner of `secret` signed this. Says nothing about when: see [`Claim::check`].
    ///
    /// # Errors
    /// When somebody else did, or something else was signed.
    pub fn verify(
        &self,
        message: &Message<'_>,
        headers: &HeaderMap,
        secret: &Secret,
    ) -> Result<(), Refused> {
        let hash = Sha256::digest(message.body).into();
        self.verify_digest(message, &hash, headers, secret)
    }

    /// The same for a body that is too large to be kept, by its SHA-256; the message's is not looked
    /// at.
    ///
    /// # Errors
    /// When somebody else signed, or something else was signed.
    pub fn verify_digest(
        &self,
        message: &Message<'_>,
        body: &[u8; 32],
        headers: &HeaderMap,
        secret: &Secret,
    ) -> Result<(), Refused> {
        let hash = hex(body);
        if headers.contains_key(BODY_HASH) && only(headers, &BODY_HASH) != Some(&hash) {
            return Err(Refused::Mismatch);
        }
        let at = only(headers, &DATE).ok_or(Refused::Mismatch)?;
        let canonical = canonical(message, headers, self.signed, &hash).ok_or(Refused::Mismatch)?;
        let scope = Scope {
            date: self.date,
            region: self.region,
            service: SERVICE,
        };
        let expected = scope.signature(secret, at, &canonical);
        match equal(&expected, &self.signature) {
            true => Ok(()),
            false => Err(Refused::Mismatch),
        }
    }
}

/// Signs requests.
#[derive(Clone, Debug)]
pub struct Signer {
    /// The id of the key pair.
    pub key_id: String,
    /// Its secret.
    pub secret: Secret,
    /// The token of a session, for keys that last no longer than one.
    pub session: Option<Secret>,
    /// The region that is asked.
    pub region: String,
}

/// A request cannot be signed as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the request cannot be signed: {0}")]
pub struct Unsignable(&'static str);

impl Signer {
    /// Adds the headers that sign a request: `x-amz-date`, the session's token if there is one, and
    /// `authorization`. The header `host` must be there already.
    ///
    /// # Errors
    /// When `host` is missing, or a header or the query cannot be signed.
    pub fn sign(
        &self,
        message: &Message<'_>,
        headers: &mut HeaderMap,
        at: Timestamp,
    ) -> Result<(), Unsignable> {
        let value = |text: &str| HeaderValue::from_str(text).map_err(|_| Unsignable("odd text"));
        if !headers.contains_key("host") {
            return Err(Unsignable("the header host is missing"));
        }
        let time = basic(at);
        let date = time.get(..8).unwrap_or_default();
        headers.insert(DATE, value(&time)?);
        if let Some(session) = &self.session {
            let mut token = value(session.expose())?;
            token.set_sensitive(true);
            headers.insert(SESSION, token);
        }
        let mut names: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        names.retain(|name| {
            matches!(*name, "host" | "content-type") || name.starts_with(MEANINGFUL)
        });
        names.sort_unstable();
        let signed = names.join(";");
        let hash = hex(&Sha256::digest(message.body));
        let canonical = canonical(message, headers, &signed, &hash);
        let canonical = canonical.ok_or(Unsignable("a header or the query is not readable"))?;
        let scope = Scope {
            date,
            region: &self.region,
            service: SERVICE,
        };
        let signature = hex(&scope.signature(&self.secret, &time, &canonical));
        let authorization = format!(
            "{ALGORITHM} Credential={}/{}, SignedHeaders={signed}, Signature={signature}",
            self.key_id,
            scope.text()
        );
        headers.insert(AUTHORIZATION, value(&authorization)?);
        Ok(())
    }
}

/// What a signing key is good for.
struct Scope<'a> {
    date: &'a str,
    region: &'a str,
    service: &'a str,
}

impl Scope<'_> {
    fn text(&self) -> String {
        let Self {
            date,
            region,
            service,
        } = self;
        format!("{date}/{region}/{service}/{TERMINATOR}")
    }

    fn signature(&self, secret: &Secret, at: &str, canonical: &str) -> [u8; 32] {
        let hash = hex(&Sha256::digest(canonical));
        let text = format!("{ALGORITHM}\n{at}\n{}\n{hash}", self.text());
        let first = format!("AWS4{}", secret.expose());
        let mut key = hmac_sha256(first.as_bytes(), &[self.date.as_bytes()]);
        for part in [self.region, self.service, TERMINATOR] {
            key = hmac_sha256(&key, &[part.as_bytes()]);
        }
        hmac_sha256(&key, &[text.as_bytes()])
    }
}

/// The request in the one form that both sides sign; nothing if it has none.
fn canonical(
    message: &Message<'_>,
    headers: &HeaderMap,
    signed: &str,
    hash: &str,
) -> Option<String> {
    let mut text = String::with_capacity(512);
    text.push_str(message.method.as_str());
    text.push('\n');
    encode(message.path.as_bytes(), true, &mut text);
    text.push('\n');
    text.push_str(&canonical_query(message.query)?);
    text.push('\n');
    for name in signed.split(';') {
        text.push_str(name);
        let mut separator = ':';
        for value in headers.get_all(name) {
            text.push(separator);
            separator = ',';
            for (number, word) in value.to_str().ok()?.split_whitespace().enumerate() {
                if number > 0 {
                    text.push(' ');
                }
                text.push_str(word);
            }
        }
        if separator == ':' {
            // A signed header that is not there.
            return None;
        }
        text.push('\n');
    }
    text.push('\n');
    text.push_str(signed);
    text.push('\n');
    text.push_str(hash);
    Some(text)
}

fn canonical_query(query: &str) -> Option<String> {
    if query.is_empty() {
        return Some(String::new());
    }
    let mut pairs = Vec::new();
    for pair in query.split('&') {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        pairs.push((recode(name)?, recode(value)?));
    }
    pairs.sort_unstable();
    let mut text = String::with_capacity(query.len() + 8);
    for (number, (name, value)) in pairs.iter().enumerate() {
        if number > 0 {
            text.push('&');
        }
        text.push_str(name);
        text.push('=');
        text.push_str(value);
    }
    Some(text)
}

/// The one way to write an encoded text.
fn recode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let byte = if byte == b'%' {
            let (high, low) = (digit(rest.next()?)?, digit(rest.next()?)?);
            high << 4 | low
        } else {
            byte
        };
        bytes.push(byte);
    }
    let mut text = String::with_capacity(text.len());
    encode(&bytes, false, &mut text);
    Some(text)
}

/// Percent-encodes all that is not unreserved, and slashes unless they are kept.
fn encode(bytes: &[u8], keep_slashes: bool, text: &mut String) {
    for &byte in bytes {
        let plain = byte.is_ascii_alphanumeric()
            || b"-_.~".contains(&byte)
            || (keep_slashes && byte == b'/');
        if plain {
            text.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(text, "%{byte:02X}");
        }
    }
}

/// The value of a header that is there once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

/// `20260101T000000Z` as a moment.
fn moment(text: &str) -> Option<Timestamp> {
    let digits = |range| {
        text.get(range)
            .filter(|part: &&str| part.bytes().all(|b| b.is_ascii_digit()))
    };
    let (year, month, day) = (digits(0..4)?, digits(4..6)?, digits(6..8)?);
    let (hour, minute, second) = (digits(9..11)?, digits(11..13)?, digits(13..15)?);
    let shaped = text.len() == 16 && text.get(8..9) == Some("T") && text.get(15..16) == Some("Z");
    if !shaped {
        return None;
    }
    iso::parse(&format!("{year}-{month}-{day}T{hour}:{minute}:{second}Z"))
}

/// A moment as `20260101T000000Z`.
fn basic(at: Timestamp) -> String {
    let whole = Timestamp::from_millis(at.as_millis() / 1_000 * 1_000);
    let long = iso::utc(whole);
    let seconds = long.get(..19).unwrap_or(&long);
    let mut text: String = seconds
        .chars()
        .filter(|c| !matches!(c, '-' | ':'))
        .collect();
    text.push('Z');
    text
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Lower-case hex of a signature.
fn unhex(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 || text.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return None;
    }
    let mut bytes = [0; 32];
    let mut digits = text.bytes();
    for byte in &mut bytes {
        let (high, low) = (digit(digits.next()?)?, digit(digits.next()?)?);
        *byte = high << 4 | low;
    }
    Some(bytes)
}

fn digit(byte: u8) -> Option<u8> {
    let value = char::from(byte).to_digit(16)?;
    u8::try_from(value).ok()
}

#[cfg(test)]
mod tests;
