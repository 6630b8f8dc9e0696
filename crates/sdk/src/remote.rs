//! The home behind a server: a client of it, and workers for it.
//!
//! Plain HTTP/1.1, over connections that are kept. What the server decides is its own; nothing of an
//! execution is kept here.

mod address;
mod api;
mod backend;
mod http;
mod register;
mod service;
mod worker;

use crate::{
    client::{Execution, PendingCallback, Service, StartExecution},
    error::{Error, ErrorKind, Result},
};
use address::Address;
pub(crate) use api::Api;
use http::Http;
use outlast_core::arn::ExecutionArn;
use serde::Serialize;
use std::{fmt, sync::Arc};
pub use worker::Worker;

/// The variable that names the server.
pub(crate) const ENDPOINT_VARIABLE: &str = "OUTLAST_ENDPOINT";
/// The variable with the bearer token for it.
const TOKEN_VARIABLE: &str = "OUTLAST_TOKEN";

/// An Outlast server, for starting executions there and talking to them. Cheap to clone.
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
    /// The server at `http://HOST[:PORT]`. Nothing is sent yet.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] when that is no such address.
    pub fn new(endpoint: &str) -> Result<Self> {
        Self::of(endpoint, None)
    }

    /// The server at `http://HOST[:PORT]`, with a bearer token in every request.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] when that is no such address, or no header can carry the token.
    pub fn with_token(endpoint: &str, token: &str) -> Result<Self> {
        Self::of(endpoint, Some(token))
    }

    /// The server that `OUTLAST_ENDPOINT` names, with the token in `OUTLAST_TOKEN` if there is one.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] when it names none, or nothing that could be one.
    pub fn from_env() -> Result<Self> {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let endpoint = variable(ENDPOINT_VARIABLE).ok_or_else(|| {
            let message = format!("no server is named: {ENDPOINT_VARIABLE} is not set");
            Error::of_kind(ErrorKind::InvalidInput, None, message)
        })?;
        Self::of(&endpoint, variable(TOKEN_VARIABLE).as_deref())
    }

    fn of(endpoint: &str, token: Option<&str>) -> Result<Self> {
        let http = Http::new(Address::parse(endpoint)?, token)
            .map_err(|why| Error::of_kind(ErrorKind::InvalidInput, None, why))?;
        Ok(Self {
            endpoint: endpoint.into(),
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
