//! What can be said about a server before it is asked.

use super::{Remote, invalid};
use crate::error::Result;
use outlast_http::{Credentials, Keys, Options, Place, Secret};
use std::path::{Path, PathBuf};

/// A server, as whom it is asked, and whom to trust. Made by [`Remote::options`].
///
/// ```no_run
/// # use outlast::{Remote, Result};
/// # fn example() -> Result<()> {
/// let server = Remote::options("https://outlast.internal:4777")
///     .keys("OL8EXAMPLE", "its secret")
///     .ca("company-ca.pem")
///     .open()?;
/// # Ok(()) }
/// ```
#[must_use = "nothing is asked until it is opened"]
#[derive(Clone, Debug)]
pub struct RemoteOptions {
    endpoint: String,
    credentials: Credentials,
    region: Option<String>,
    ca: Option<PathBuf>,
    plaintext: bool,
}

impl RemoteOptions {
    pub(super) fn new(endpoint: &str) -> Self {
        Self {
            endpoint: endpoint.to_owned(),
            credentials: Credentials::None,
            region: None,
            ca: None,
            plaintext: false,
        }
    }

    /// Sends this bearer token with every request.
    pub fn token(mut self, token: &str) -> Self {
        self.credentials = Credentials::Token(Secret::new(token));
        self
    }

    /// Signs every request with this key pair, as AWS clients do.
    pub fn keys(mut self, id: &str, secret: &str) -> Self {
        self.credentials = Credentials::Keys(Keys {
            id: id.to_owned(),
            secret: Secret::new(secret),
            session: None,
        });
        self
    }

    /// The token of a session, for keys that last no longer than one.
    pub fn session(mut self, token: &str) -> Self {
        if let Credentials::Keys(keys) = &mut self.credentials {
            keys.session = Some(Secret::new(token));
        }
        self
    }

    /// The region for which requests are signed, if the server's name does not say it.
    pub fn region(mut self, region: &str) -> Self {
        self.region = Some(region.to_owned());
        self
    }

    /// Trusts the certificates in this PEM file besides the machine's.
    pub fn ca(mut self, file: impl AsRef<Path>) -> Self {
        self.ca = Some(file.as_ref().to_owned());
        self
    }

    /// Sends a token also to `http://` on another machine, where everybody on the way can read it.
    pub fn allow_plaintext(mut self) -> Self {
        self.plaintext = true;
        self
    }

    /// The server. Nothing is sent yet.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) when that is no address, the
    /// certificates cannot be read, or the token cannot be sent.
    pub fn open(self) -> Result<Remote> {
        let place: Place = self.endpoint.parse().map_err(invalid)?;
        let endpoint = place.endpoint(self.region.as_deref()).map_err(invalid)?;
        Remote::open(Options {
            credentials: self.credentials,
            region: self.region,
            ca: self.ca,
            plaintext: self.plaintext,
            ..Options::new(endpoint)
        })
    }
}
