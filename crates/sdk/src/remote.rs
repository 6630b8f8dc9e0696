//! The home behind a server: a client of it, and workers for it.
//!
//! HTTP/1.1, encrypted or not, over connections that are kept: see the crate `outlast-http`. What the server decides is its own; nothing of an
//! execution is kept here.

mod answer;
mod api;
mod backend;
mod convoy;
mod options;
mod register;
mod service;
mod worker;

use crate::{
    client::{Execution, PendingCallback, Service, StartExecution},
    error::{Error, ErrorKind, Result},
};
pub(crate) use api::Api;
pub use options::RemoteOptions;
use outlast_core::arn::ExecutionArn;
use outlast_http::{Choice, Http, Options, Place};
use serde::Serialize;
use std::{fmt, sync::Arc};
pub use worker::Worker;

/// What requests call themselves.
const AGENT: &str = concat!("outlast-rust/", env!("CARGO_PKG_VERSION"));
/// The variable that names the server.
pub(crate) const ENDPOINT_VARIABLE: &str = "OUTLAST_ENDPOINT";

/// An Outlast server, or AWS Lambda, for starting executions there and talking to them. Cheap to
/// clone.
///
/// Connections to `https://` are encrypted; whom to trust, the machine's certificates say, and
/// [`RemoteOptions::ca`]. On AWS, signals, held executions and workers that ask for work do not exist.
///
/// ```no_run
/// # use outlast::{Remote, Result};
/// # async fn example() -> Result<()> {
/// let server = Remote::new("http://localhost:4777")?;
/// let execution = server.start("order", &["book"]).name("order-17").await?;
/// let parcels: u32 = execution.result().await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Remote {
    endpoint: Arc<str>,
    api: Api,
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote")
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}

impl Remote {
    /// The server at `http://HOST[:PORT]` or `https://HOST[:PORT]`, asked as nobody. Nothing is sent
    /// yet.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] when that is no such address.
    pub fn new(endpoint: &str) -> Result<Self> {
        Self::options(endpoint).open()
    }

    /// The same, with a bearer token in every request.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] when that is no such address, no header can carry the token, or
    /// it would travel where everybody can read it ([`RemoteOptions::allow_plaintext`]).
    pub fn with_token(endpoint: &str, token: &str) -> Result<Self> {
        Self::options(endpoint).token(token).open()
    }

    /// A server with more to be said about it: keys that sign, certificates to trust.
    pub fn options(endpoint: &str) -> RemoteOptions {
        RemoteOptions::new(endpoint)
    }

    /// The server that `OUTLAST_ENDPOINT` names: `http://…`, `https://…`, or `aws` for AWS Lambda in
    /// the region `AWS_REGION`.
    ///
    /// It is asked with the token in `OUTLAST_TOKEN`; else every request is signed with the keys in
    /// `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY` (and `AWS_SESSION_TOKEN`), or those that
    /// `~/.aws/credentials` has for `AWS_PROFILE`; else it is asked as nobody. `OUTLAST_CA` names a
    /// file of certificates to trust besides the machine's.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] when it names none, or nothing that could be one, or what the
    /// environment says about it cannot be used.
    pub fn from_env() -> Result<Self> {
        let endpoint = std::env::var(ENDPOINT_VARIABLE).unwrap_or_default();
        if endpoint.is_empty() {
            let message = format!("no server is named: {ENDPOINT_VARIABLE} is not set");
            return Err(Error::of_kind(ErrorKind::InvalidInput, None, message));
        }
        let place: Place = endpoint.parse().map_err(invalid)?;
        let options = Choice::new(place).settle().map_err(invalid)?;
        Self::open(options)
    }

    fn open(mut options: Options) -> Result<Self> {
        options.agent = Some(AGENT);
        let http = Http::new(&options).map_err(invalid)?;
        Ok(Self {
            endpoint: options.endpoint.to_string().into(),
            api: Api::new(http),
        })
    }

    /// Where the server is.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Starts an execution of a function: by its name, with or without a version or alias.
    pub fn start<I: Serialize + ?Sized>(&self, function: &str, input: &I) -> StartExecution {
        StartExecution::new(self.service(), function, input)
    }

    /// The execution with this ARN.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] when it is not the ARN of an execution.
    pub fn execution(&self, arn: &str) -> Result<Execution> {
        let _: ExecutionArn = arn.parse().map_err(|rejection: outlast_core::Rejection| {
            Error::of_kind(ErrorKind::InvalidInput, None, rejection.message)
        })?;
        Ok(Execution::new(self.service(), arn.into()))
    }

    /// The execution of a function that was started with this name, if there is one.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] when there is no such function; [`ErrorKind::Engine`] when the
    /// server cannot be asked.
    pub async fn find(&self, function: &str, name: &str) -> Result<Option<Execution>> {
        let found = self.api.find(function, name).await?;
        Ok(found.map(|arn| Execution::new(self.service(), arn)))
    }

    /// A callback that somebody waits for, by its id.
    pub fn callback(&self, callback_id: &str) -> PendingCallback {
        PendingCallback::new(self.service(), callback_id)
    }

    /// Asks the server for anything that its API tells under a path, for what this type does not
    /// offer.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] when the server refuses; [`ErrorKind::Engine`] when it cannot be
    /// asked.
    pub async fn get(&self, path: &str) -> Result<serde_json::Value> {
        self.api.read(path, std::time::Duration::ZERO).await
    }

    pub(crate) fn api(&self) -> &Api {
        &self.api
    }

    fn service(&self) -> Arc<dyn Service> {
        Arc::new(self.api.clone())
    }
}

fn invalid(error: impl fmt::Display) -> Error {
    Error::of_kind(ErrorKind::InvalidInput, None, error.to_string())
}
