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

/// Seconds that one invocation of a new function may take: as long as the server lets it.
pub(super) const TIMEOUT_SECONDS: u32 = 900;

/// A function that is not there yet.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct New<'a> {
    function_name: &'a str,
    timeout: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenancy_config: Option<TenancyConfig>,
    #[serde(flatten)]
    own: Own<'a>,
}

/// Whether tenants are kept apart.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct TenancyConfig {
    tenant_isolation_mode: String,
}

/// What a worker says of its function.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Own<'a> {
    durable_config: &'a DurableConfig,
    /// The same once more, and changed by workers only: how they tell what somebody else changed.
    worker_config: &'a DurableConfig,
}

/// What the server knows of a function.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Known {
    durable_config: Option<DurableConfig>,
    worker_config: Option<DurableConfig>,
    invoke_endpoint: Option<String>,
    tenancy_config: Option<TenancyConfig>,
}

/// Makes a function known, or its durable settings as they are here if nobody but workers has
/// changed them. Everything else is an operator's to say. Only its `$LATEST`.
pub(super) async fn register(api: &Api, function: &Function) -> Result<()> {
    let name = function.name();
    let wanted = function.durable_config();
    let Some(known) = known(api, name).await? else {
        return create(api, function, &wanted).await;
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
    if function.is_per_tenant() && known.tenancy_config.is_none() {
        return Err(unusable(
            name,
            "the server made it without a TenancyConfig, which never changes; delete it there first",
        ));
    }
    if config == wanted {
        return Ok(());
    }
    if known.worker_config.as_ref() != Some(&config) {
        tracing::info!(
            function = name,
            "an operator has configured the function: the server's durable settings count"
        );
        return Ok(());
    }
    update(api, name, &wanted).await
}

/// Changes the durable settings of a function, if the worker may.
async fn update(api: &Api, name: &str, wanted: &DurableConfig) -> Result<()> {
    let path = format!("{}/configuration", encoded(name));
    let mut call = Call::post(uri(api, &path)?, body(&own(wanted))?);
    call.method = Method::PUT;
    match api.ask(&call, Repeat::Always).await {
        Ok(_) => Ok(()),
        Err(error) if error.status == Some(403) => {
            tracing::warn!(
                function = name,
                "the durable settings of the function have changed here; they change on the server \
                 when an admin updates it, or a worker with an admin's token starts"
            );
            Ok(())
        }
        Err(error) => Err(refused(error)),
    }
}

fn own(config: &DurableConfig) -> Own<'_> {
    Own {
        durable_config: config,
        worker_config: config,
    }
}

async fn known(api: &Api, name: &str) -> Result<Option<Known>> {
    let call = Call::get(uri(api, &format!("{}/configuration", encoded(name)))?);
    match api.ask(&call, Repeat::Always).await {
        Ok(reply) => json(&reply).map(Some).map_err(refused),
        Err(error) if error.status == Some(404) => Ok(None),
        Err(error) => Err(refused(error)),
    }
}

async fn create(api: &Api, function: &Function, config: &DurableConfig) -> Result<()> {
    let name = function.name();
    let per_tenant = || TenancyConfig {
        tenant_isolation_mode: "PER_TENANT".to_owned(),
    };
    let new = New {
        function_name: name,
        timeout: TIMEOUT_SECONDS,
        tenancy_config: function.is_per_tenant().then(per_tenant),
        own: own(config),
    };
    let body = body(&new)?;
    let call = Call::post(uri(api, "")?, body.clone());
    match api.ask(&call, Repeat::Always).await {
        Ok(_) => Ok(()),
        // Another worker of the same program was quicker.
        Err(error) if error.status == Some(409) => Ok(()),
        Err(error) if error.status == Some(403) => {
            let file = String::from_utf8_lossy(&body).into_owned();
            let why = format!(
                "the server does not know it, and this token's role may not make it; an admin does \
                 with `outlast functions create FILE`, and this in the file: {file}"
            );
            Err(unusable(name, &why))
        }
        Err(error) => Err(refused(error)),
    }
}

fn uri(api: &Api, tail: &str) -> Result<hyper::Uri> {
    let slash = if tail.is_empty() { "" } else { "/" };
    let path = format!("/2015-03-31/functions{slash}{tail}");
    api.uri(&path).map_err(|error| refused(error.into()))
}

fn body(wanted: &impl Serialize) -> Result<Vec<u8>> {
    let unwritable = |error: serde_json::Error| BackendError::transport(error.to_string());
    serde_json::to_vec(wanted).map_err(|error| refused(unwritable(error)))
}

fn unusable(function: &str, why: &str) -> Error {
    let message = format!("this program cannot be a worker of the function '{function}': {why}");
    Error::of_kind(ErrorKind::InvalidInput, None, message)
}
