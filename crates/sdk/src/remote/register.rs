//! Making a function known to the server, as this program has it.

use super::{
    answer::json,
    api::{Api, Repeat, encoded, refused},
};
use crate::{
    backend::BackendError,
    error::{Error, ErrorKind, Result},
    function::Function,
};
use hyper::Method;
use outlast_core::wire::DurableConfig;
use outlast_http::Call;
use serde::{Deserialize, Serialize};

/// Seconds that one invocation may take: as long as the server lets it.
pub(super) const TIMEOUT_SECONDS: u32 = 900;

/// What a worker wants of its function.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Wanted<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    function_name: Option<&'a str>,
    timeout: u32,
    durable_config: DurableConfig,
}

/// What the server knows of a function.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Known {
    timeout: Option<u32>,
    durable_config: Option<DurableConfig>,
    invoke_endpoint: Option<String>,
}

/// Makes a function known, or as it is here if it is known otherwise. Only its `$LATEST`.
pub(super) async fn register(api: &Api, function: &Function) -> Result<()> {
    let name = function.name();
    let mut wanted = Wanted {
        function_name: Some(name),
        timeout: TIMEOUT_SECONDS,
        durable_config: function.durable_config(),
    };
    let Some(known) = known(api, name).await? else {
        return create(api, &wanted).await;
    };
    if let Some(endpoint) = known.invoke_endpoint {
        return Err(unusable(
            name,
            &format!("it is called at {endpoint}, and wants no workers"),
        ));
    }
    let Some(config) = known.durable_config else {
        return Err(unusable(
            name,
            "the server has an ordinary function of that name; delete it there first",
        ));
    };
    if known.timeout == Some(wanted.timeout) && config == wanted.durable_config {
        return Ok(());
    }
    wanted.function_name = None;
    let path = format!("{}/configuration", encoded(name));
    let mut call = Call::post(uri(api, &path)?, body(&wanted)?);
    call.method = Method::PUT;
    api.ask(&call, Repeat::Always)
        .await
        .map(drop)
        .map_err(refused)
}

async fn known(api: &Api, name: &str) -> Result<Option<Known>> {
    let call = Call::get(uri(api, &format!("{}/configuration", encoded(name)))?);
    match api.ask(&call, Repeat::Always).await {
        Ok(reply) => json(&reply).map(Some).map_err(refused),
        Err(error) if error.status == Some(404) => Ok(None),
        Err(error) => Err(refused(error)),
    }
}

async fn create(api: &Api, wanted: &Wanted<'_>) -> Result<()> {
    let call = Call::post(uri(api, "")?, body(wanted)?);
    match api.ask(&call, Repeat::Always).await {
        Ok(_) => Ok(()),
        // Another worker of the same program was quicker.
        Err(error) if error.status == Some(409) => Ok(()),
        Err(error) => Err(refused(error)),
    }
}

fn uri(api: &Api, tail: &str) -> Result<hyper::Uri> {
    let slash = if tail.is_empty() { "" } else { "/" };
    let path = format!("/2015-03-31/functions{slash}{tail}");
    api.uri(&path).map_err(|error| refused(error.into()))
}

fn body(wanted: &Wanted<'_>) -> Result<Vec<u8>> {
    let unwritable = |error: serde_json::Error| BackendError::transport(error.to_string());
    serde_json::to_vec(wanted).map_err(|error| refused(unwritable(error)))
}

fn unusable(function: &str, why: &str) -> Error {
    let message = format!("this program cannot be a worker of the function '{function}': {why}");
    Error::of_kind(ErrorKind::InvalidInput, None, message)
}
