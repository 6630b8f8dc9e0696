//! What Outlast offers beyond the service: signals, held executions, why, health.

use super::{Api, callback::payload, execution::writable, number};
use crate::{
    answer::{Answer, Answered, empty, json},
    catalogue::RuntimeRequest,
    error::ApiError,
    metrics::Known,
    route::{OwnAction, Query, RouteError},
};
use bytes::Bytes;
use hyper::{Method, StatusCode};
use outlast_core::{
    arn::FunctionReference,
    delivery::Arrival,
    wire::{ErrorObject, ExecutionStatus, Payload},
};
use serde::Serialize;
use std::{sync::Arc, time::Duration};

/// Seconds that a long poll takes unless it asks for another number.
const POLL_SECONDS_DEFAULT: u32 = 20;
/// Seconds that a long poll may ask for.
const POLL_SECONDS_MAX: u32 = 60;

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Why {
    why: String,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Changed {
    changed: bool,
}

/// How an execution ended; only that it runs, if it has not.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Ended {
    status: ExecutionStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Payload>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorObject>,
}

/// How the server is, for whoever looks after it.
#[derive(Serialize)]
struct Health {
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<Arc<str>>,
    store: &'static str,
    sync: &'static str,
    disk_full: bool,
    invocations: usize,
    ready: usize,
    quarantined: usize,
    /// What the store has done since the server was started.
    commits: u64,
    commit_bytes: u64,
    syncs: u64,
    written_bytes: u64,
    /// What it has at this moment.
    disk_bytes: u64,
    index_lag_bytes: u64,
}

impl Api {
    pub(super) async fn own(&self, arn: &str, action: OwnAction, query: Query<'_>) -> Answered {
        match action {
            OwnAction::Changed => return self.changed(arn, query).await,
            OwnAction::End => return self.end(arn, query).await,
            OwnAction::Clock => return self.clock(arn).await,
            OwnAction::Skip => return self.skip(arn, query).await,
            OwnAction::Why | OwnAction::Resume | OwnAction::Fail | OwnAction::Delete => {}
        }
        let execution = self.known(arn).await?;
        match action {
            OwnAction::Why => {
                let why = self.engine.why(execution).await?;
                return json(StatusCode::OK, &Why { why });
            }
            OwnAction::Resume => self.engine.resume(execution).await?,
            OwnAction::Fail => self.engine.fail_held(execution).await?,
            OwnAction::Delete => self.engine.delete(execution).await?,
            OwnAction::Changed | OwnAction::End | OwnAction::Clock | OwnAction::Skip => {}
        }
        Ok(empty(StatusCode::NO_CONTENT))
    }

    pub(super) async fn signal(&self, arn: &str, name: &str, body: Bytes) -> Answered {
        let execution = self.known(arn).await?;
        let arrival = Arrival::Signal {
            name: name.into(),
            payload: payload(&body)?,
        };
        self.engine.deliver(execution, arrival).await?;
        Ok(empty(StatusCode::NO_CONTENT))
    }

    /// Answers when something changed that the handler which holds the token does not know, or
    /// after a while.
    async fn changed(&self, arn: &str, query: Query<'_>) -> Answered {
        let execution = writable(arn)?;
        let token = query.get("CheckpointToken")?;
        let token = token.ok_or_else(|| ApiError::validation("CheckpointToken is missing"))?;
        let limit = poll_limit(query)?;
        let changing = self.engine.changed_since(execution, &token);
        let changed = tokio::select! {
            changed = changing => changed.map(|()| true)?,
            () = tokio::time::sleep(limit) => false,
            () = self.ending() => false,
        };
        json(StatusCode::OK, &Changed { changed })
    }

    /// Answers when the execution has ended, or after a while.
    async fn end(&self, arn: &str, query: Query<'_>) -> Answered {
        let limit = poll_limit(query)?;
        let execution = self.known(arn).await?;
        let ended = match tokio::time::timeout(limit, self.engine.end(execution)).await {
            Ok(end) => {
                let end = end?;
                Ended {
                    status: end.status,
                    result: end.result,
                    error: end.error,
                }
            }
            Err(_) => Ended {
                status: ExecutionStatus::Running,
                result: None,
                error: None,
            },
        };
        json(StatusCode::OK, &ended)
    }

    pub(super) fn health(&self) -> Answered {
        let health = self.engine.health();
        let about = self.engine.about();
        let store = health.store;
        let reason = store.poisoned;
        let status = if reason.is_some() {
            StatusCode::SERVICE_UNAVAILABLE
        } else {
            StatusCode::OK
        };
        let health = Health {
            status: if reason.is_some() { "failed" } else { "ok" },
            reason,
            store: about.kind,
            sync: about.sync,
            disk_full: store.full,
            invocations: health.invocations,
            ready: health.ready,
            quarantined: health.quarantined.len(),
            commits: store.commits,
            commit_bytes: store.commit_bytes,
            syncs: store.syncs,
            written_bytes: store.written_bytes,
            disk_bytes: store.disk_bytes,
            index_lag_bytes: store.index_lag_bytes,
        };
        json(status, &health)
    }

    pub(super) fn metrics(&self) -> Answer {
        let known = Known {
            health: self.engine.health(),
            functions: self.catalogue.names().len(),
            events: self.events.len(),
            backlogs: self.catalogue.backlogs(),
        };
        crate::answer::metrics(self.metrics.text(&known))
    }

    /// Hands a request of the Lambda Runtime API to whoever hosts the function.
    pub(super) async fn runtime(&self, function: &str, request: RuntimeRequest) -> Answered {
        let reference: FunctionReference = function.parse()?;
        // What workers report is always taken.
        let waits = request.method() == Method::GET;
        let serving = self.catalogue.runtime(&reference, request)?;
        match serving {
            Some(serving) if waits => tokio::select! {
                answer = serving => Ok(answer),
                () = self.ending() => Err(ApiError::unavailable("the server is shutting down")),
            },
            Some(serving) => Ok(serving.await),
            None => Err(RouteError::Unknown.into()),
        }
    }
}

/// How long a long poll may take.
fn poll_limit(query: Query<'_>) -> Result<Duration, ApiError> {
    let seconds = number(query, "WaitSeconds")?.unwrap_or(POLL_SECONDS_DEFAULT);
    if !(1..=POLL_SECONDS_MAX).contains(&seconds) {
        let message = format!("WaitSeconds must be 1 to {POLL_SECONDS_MAX}");
        return Err(ApiError::validation(message));
    }
    Ok(Duration::from_secs(seconds.into()))
}
