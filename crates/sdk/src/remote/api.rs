//! The server's API as calls: what is asked, how often, and what a refusal means.

use super::answer::{UNUSABLE, accepted};
use crate::{
    backend::BackendError,
    error::{Error, ErrorKind},
};
use outlast_core::{random::SplitMix64, wire::ErrorObject};
use outlast_http::{Call, Failure, Http, Reply};
use std::{
    fmt::Write as _,
    hash::{BuildHasher as _, Hasher as _, RandomState},
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// Attempts of one call, the first included.
const ATTEMPTS_MAX: u32 = 7;
/// Longest pause after the first failure; it doubles with every further one.
const PAUSE: Duration = Duration::from_millis(50);
/// Longest pause of all.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// When a call may be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// Whenever that may help: doing it twice is doing it once.
    Always,
    /// Only when nobody got it.
    Unsent,
}

/// The API of one server. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Api {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    http: Http,
    /// What pauses are drawn from, so that many workers do not come back in the same moment.
    chance: AtomicU64,
}

impl Deref for Api {
    type Target = Http;

    fn deref(&self) -> &Http {
        &self.inner.http
    }
}

impl Api {
    pub(super) fn new(http: Http) -> Self {
        Self {
            inner: Arc::new(Inner {
                http,
                chance: AtomicU64::new(RandomState::new().build_hasher().finish()),
            }),
        }
    }

    /// Asks, and asks again while that may help, for a few seconds.
    pub(crate) async fn ask(&self, call: &Call, repeat: Repeat) -> Result<Reply, BackendError> {
        let mut attempt = 1;
        loop {
            let (error, again) = match self.send(call).await {
                Ok(reply) => match accepted(reply) {
                    Ok(reply) => return Ok(reply),
                    Err(error) => {
                        let again = repeat == Repeat::Always && is_passing(&error);
                        (error, again)
                    }
                },
                Err(failure) => {
                    let again = match failure {
                        Failure::Impossible(_) => false,
                        Failure::NotSent(_) => true,
                        Failure::Broken(_) => repeat == Repeat::Always,
                    };
                    (BackendError::from(failure), again)
                }
            };
            if !again || attempt >= ATTEMPTS_MAX {
                return Err(self.with_remedy(error));
            }
            tracing::debug!(%error, attempt, "a request to the server failed and is repeated");
            tokio::time::sleep(self.pause(attempt)).await;
            attempt += 1;
        }
    }

    fn with_remedy(&self, mut error: BackendError) -> BackendError {
        let code = error.code.as_deref().unwrap_or_default();
        if let Some(remedy) = outlast_http::remedy(code, self.endpoint().is_aws()) {
            // Writing to a string cannot fail.
            let _ = write!(error.message, "; {remedy}");
        }
        error
    }

    /// How long to wait after so many failures in a row.
    pub(crate) fn pause(&self, failures: u32) -> Duration {
        let doubled = PAUSE.saturating_mul(1 << failures.saturating_sub(1).min(16));
        let longest = doubled.min(PAUSE_MAX);
        let number = self.inner.chance.fetch_add(1, Ordering::Relaxed);
        // Between half of it and all of it.
        let share = SplitMix64::new(number).next_u64() % 512 + 512;
        longest * u32::try_from(share).unwrap_or(1_024) / 1_024
    }
}

/// Whether a refusal may be none in a moment.
fn is_passing(error: &BackendError) -> bool {
    matches!(error.status, Some(429 | 500 | 502 | 503 | 504))
}

/// Appends text to a path or query, encoded.
pub(crate) fn push_encoded(path: &mut String, text: &str) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            path.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(path, "%{byte:02X}");
        }
    }
}

/// Text as one segment of a path, or a value of a query.
pub(crate) fn encoded(text: &str) -> String {
    let mut path = String::with_capacity(text.len() + 16);
    push_encoded(&mut path, text);
    path
}

/// What a caller gets to know of a request that failed.
pub(crate) fn refused(error: BackendError) -> Error {
    let kind = match error.status {
        Some(400..=499) if error.status != Some(429) => ErrorKind::InvalidInput,
        None if error.code.as_deref() == Some(UNUSABLE) => ErrorKind::InvalidInput,
        Some(_) | None => ErrorKind::Engine,
    };
    let code = error.code.unwrap_or_else(|| match error.status {
        Some(status) => format!("Status{status}"),
        None => "ServerUnreachable".to_owned(),
    });
    Error::from_record(kind, None, ErrorObject::new(code, error.message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use outlast_http::Options;

    #[test]
    fn pauses_double_up_to_a_bound_and_keep_at_least_half() {
        let options = Options::new("http://localhost:1".parse().unwrap());
        let api = Api::new(Http::new(&options).unwrap());
        for (failures, longest) in [
            (1, 50),
            (2, 100),
            (4, 400),
            (7, 3_200),
            (8, 5_000),
            (u32::MAX, 5_000),
        ] {
            let longest = Duration::from_millis(longest);
            for _ in 0..100 {
                let pause = api.pause(failures);
                assert!(
                    longest / 2 <= pause && pause <= longest,
                    "{failures}: {pause:?}"
                );
            }
        }
    }

    #[test]
    fn everything_but_plain_characters_is_encoded() {
        assert_eq!(encoded("aZ09-_.~"), "aZ09-_.~");
        assert_eq!(encoded("a/b:$ +ü"), "a%2Fb%3A%24%20%2B%C3%BC");
    }
}
