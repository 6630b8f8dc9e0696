//! Starting an execution: its checks, its first record, and who owns a name.
//!
//! Resolving the function (and refusing an unqualified durable one) happens before; whether a name
//! is already taken is looked up by the engine and decided here.

use crate::{
    arn::{ExecutionArn, ExecutionId, Function, check_execution_name, check_tenant},
    decide::Env,
    error::{Code, Rejection},
    execution::Execution,
    id::{digest128, hex, uuid},
    limits::{
        DELAY_SECONDS_MAX, EVENT_INPUT_BYTES_MAX, REQUEST_INPUT_BYTES_MAX, RETENTION_DAYS_MAX,
        SYNCHRONOUS_TIMEOUT_SECONDS_MAX, TRACE_ID_LENGTH_MAX,
    },
    record::{Change, ParentLink, Profile, Record},
    wire::{DurableConfig, Payload},
};
use alloc::{format, string::String, sync::Arc, vec, vec::Vec};
use serde::de::IgnoredAny;
use sha2::{Digest as _, Sha256};

/// What an execution is started with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// The resolved function version.
    pub function: Function,
    /// The name its starter chose.
    pub name: Option<Arc<str>>,
    /// Its input; `{}` when absent.
    pub input: Option<Payload>,
    /// The function's settings.
    pub config: DurableConfig,
    /// Whether the starter waits for the result.
    pub synchronous: bool,
    /// Tenant it runs for.
    pub tenant: Option<String>,
    /// Trace header.
    pub trace: Option<String>,
    /// Client context of a synchronous start.
    pub client_context: Option<String>,
    /// The operation that starts it, for the target of a chained invoke.
    pub parent: Option<ParentLink>,
}

impl Start {
    /// Whether name, tenant, settings and input are acceptable: what starting asks first.
    ///
    /// # Errors
    /// When one of them is not.
    pub fn check(&self) -> Result<(), Rejection> {
        check(self)
    }
}

impl Execution {
    /// Starts an execution. Its records must be committed before anybody is told its ARN.
    ///
    /// # Errors
    /// When name, tenant, settings or input are not acceptable.
    pub fn start(env: &Env<'_>, start: Start) -> Result<(Self, Vec<Record>), Rejection> {
        check(&start)?;
        let input = start.input.unwrap_or_else(empty_input);
        let arn = match &start.parent {
            Some(parent) => {
                ExecutionArn::of_child(&parent.execution, parent.operation.as_str(), start.function)
            }
            None => {
                let name = start
                    .name
                    .unwrap_or_else(|| uuid(digest128(&[b"execution name", &env.random])).into());
                let id = ExecutionId::new(env.now, digest128(&[b"execution id", &env.random]));
                ExecutionArn::new(start.function, name, id)
            }
        };
        let profile = Profile {
            arn,
            config: start.config,
            synchronous: start.synchronous,
            input_digest: digest(&input),
            tenant: start.tenant,
            trace: start.trace,
            client_context: start.client_context.filter(|_| start.synchronous),
            parent: start.parent,
        };
        let record = Record {
            number: 0,
            events: 1,
            at: env.now,
            change: Change::ExecutionStarted {
                profile: Arc::new(profile),
                input,
            },
        };
        Ok((Self::open(&record)?, vec![record]))
    }

    /// What a later start under the same name is compared with.
    pub fn reservation(&self) -> Reservation {
        Reservation {
            execution: self.profile.arn.clone(),
            input_digest: self.profile.input_digest.clone(),
        }
    }
}

/// The owner of an execution name. Lives as long as the execution's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// The execution that has the name.
    pub execution: ExecutionArn,
    /// Digest of the input it was started with.
    pub input_digest: String,
}

/// Whether a start under a name creates an execution or finds one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// Nobody has the name: create.
    New,
    /// It is the same start again: answer with this execution, running or closed.
    Existing(ExecutionArn),
}

/// Decides a start whose name may be taken. The scope of a name is one function, all versions.
///
/// # Errors
/// When the name belongs to a start with another input or version.
pub fn reuse(
    owner: Option<&Reservation>,
    function: &Function,
    input: Option<&Payload>,
) -> Result<Reuse, Rejection> {
    let Some(owner) = owner else {
        return Ok(Reuse::New);
    };
    let given = input.map_or_else(|| digest(&empty_input()), |input| digest(input));
    if owner.execution.function.version == function.version && owner.input_digest == given {
        return Ok(Reuse::Existing(owner.execution.clone()));
    }
    Err(Rejection::new(
        Code::DurableExecutionAlreadyStarted,
        format!(
            "execution name \"{}\" was already used with another input or version",
            owner.execution.name
        ),
    ))
}

/// Checks a durable function's settings.
///
/// # Errors
/// When a number is out of range.
pub fn check_config(config: &DurableConfig) -> Result<(), Rejection> {
    if !(1..=DELAY_SECONDS_MAX).contains(&config.execution_timeout) {
        return Err(Rejection::invalid(format!(
            "ExecutionTimeout must be 1 to {DELAY_SECONDS_MAX} seconds"
        )));
    }
    let days = config.retention_period_in_days.unwrap_or(1);
    if !(1..=RETENTION_DAYS_MAX).contains(&days) {
        return Err(Rejection::invalid(format!(
            "RetentionPeriodInDays must be 1 to {RETENTION_DAYS_MAX}"
        )));
    }
    Ok(())
}

fn check(start: &Start) -> Result<(), Rejection> {
    if let Some(name) = &start.name {
        check_execution_name(name)?;
    }
    if let Some(tenant) = &start.tenant {
        check_tenant(tenant)?;
    }
    if start
        .trace
        .as_ref()
        .is_some_and(|trace| trace.len() > TRACE_ID_LENGTH_MAX)
    {
        return Err(Rejection::invalid("trace header too long"));
    }
    check_config(&start.config)?;
    if start.synchronous && start.config.execution_timeout > SYNCHRONOUS_TIMEOUT_SECONDS_MAX {
        return Err(Rejection::invalid(
            "a synchronous invoke is not allowed with an execution timeout over 15 minutes",
        ));
    }
    let Some(input) = &start.input else {
        return Ok(());
    };
    let limit = if start.synchronous {
        REQUEST_INPUT_BYTES_MAX
    } else {
        EVENT_INPUT_BYTES_MAX
    };
    if input.len() > limit {
        return Err(Rejection::new(
            Code::RequestTooLarge,
            format!("the input has {} bytes, {limit} are allowed", input.len()),
        ));
    }
    // What a handler sends to a child is its own affair; what arrives over the API must be JSON.
    if start.parent.is_none() && serde_json::from_str::<IgnoredAny>(input).is_err() {
        return Err(Rejection::new(
            Code::InvalidRequestContent,
            "could not parse the request body as JSON",
        ));
    }
    Ok(())
}

fn empty_input() -> Payload {
    "{}".into()
}

fn digest(input: &str) -> String {
    hex(&Sha256::digest(input.as_bytes()))
}

#[cfg(test)]
mod tests;
