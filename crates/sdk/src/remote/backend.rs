//! The server as one invocation sees it.

use super::{
    answer::json,
    api::{Api, Repeat, push_encoded},
    convoy::{Convoy, Travels, accepted},
};
use crate::backend::{Abilities, Backend, BackendError, BoxFuture};
use bytes::Bytes;
use hyper::Uri;
use outlast_core::{
    limits,
    wire::{CheckpointRequest, CheckpointResponse, StatePage},
};
use outlast_http::Call;
use serde::Deserialize;
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;

/// Every answer to a checkpoint brings news along: only after so long without one is it worth asking
/// for them.
const QUIET: Duration = Duration::from_millis(50);
/// How long one question for news is open.
const NEWS_SECONDS: u64 = 20;
/// Pause before a question for news that failed is asked again.
const NEWS_PAUSE: Duration = Duration::from_secs(1);

/// The right to write to one execution, for one invocation.
pub(super) struct RemoteBackend {
    api: Api,
    convoy: Arc<Convoy>,
    arn: Box<str>,
    /// Where checkpoints go, made once.
    checkpoints: Uri,
    state: String,
    changed: Uri,
    /// Checkpoints so far: what tells one from a repetition of another.
    requests: AtomicU64,
    last: Mutex<Instant>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Changed {
    changed: bool,
}

impl RemoteBackend {
    /// For the invocation that begins with this token.
    pub(super) fn new(
        api: Api,
        convoy: Arc<Convoy>,
        arn: &str,
        token: &str,
    ) -> Result<Self, BackendError> {
        // An ARN has nothing in it that a path cannot have, and the server reads it as it is.
        let execution = format!("/2025-12-01/durable-executions/{arn}");
        let mut changed =
            format!("/outlast/v1/executions/{arn}/changed?WaitSeconds={NEWS_SECONDS}");
        changed.push_str("&CheckpointToken=");
        push_encoded(&mut changed, token);
        Ok(Self {
            checkpoints: api.uri(&format!("{execution}/checkpoint"))?,
            state: format!("{execution}/state"),
            changed: api.uri(&changed)?,
            requests: AtomicU64::new(0),
            last: Mutex::new(Instant::now()),
            arn: arn.into(),
            convoy,
            api,
        })
    }

    /// Writes with others, or alone if there are none or that is how it must be.
    async fn write(&self, body: Bytes) -> Result<CheckpointResponse, BackendError> {
        let _place = match self.convoy.board(&self.arn, &body) {
            Travels::Alone(place) => place,
            Travels::Together(answered) => {
                let line = answered.await.ok();
                if let Some(response) = line.and_then(|line| accepted(&line)) {
                    return Ok(response);
                }
                None
            }
        };
        let call = Call::post(self.checkpoints.clone(), body);
        json(&self.api.ask(&call, Repeat::Always).await?)
    }

    fn note(&self) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Waits until nothing has been asked for a while.
    async fn quiet(&self) {
        loop {
            let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
            let until = last + QUIET;
            if until <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    }
}

impl Backend for RemoteBackend {
    fn checkpoint<'a>(
        &'a self,
        _: &'a str,
        mut request: CheckpointRequest,
    ) -> BoxFuture<'a, Result<CheckpointResponse, BackendError>> {
        Box::pin(async move {
            // With it a repetition is recognised, so that an answer lost on the way changes nothing.
            let number = self.requests.fetch_add(1, Ordering::Relaxed);
            request
                .client_token
                .get_or_insert_with(|| number.to_string());
            let body = serde_json::to_vec(&request)
                .map_err(|error| BackendError::transport(error.to_string()))?;
            let response = self.write(body.into()).await;
            self.note();
            response
        })
    }

    fn state<'a>(
        &'a self,
        _: &'a str,
        token: &'a str,
        marker: &'a str,
    ) -> BoxFuture<'a, Result<StatePage, BackendError>> {
        Box::pin(async move {
            let mut path = format!("{}?MaxItems={}", self.state, limits::PAGE_ITEMS_MAX);
            for (name, value) in [("&CheckpointToken=", token), ("&Marker=", marker)] {
                path.push_str(name);
                push_encoded(&mut path, value);
            }
            let call = Call::get(self.api.uri(&path)?);
            json(&self.api.ask(&call, Repeat::Always).await?)
        })
    }

    fn changed<'a>(&'a self, _: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let patience = Duration::from_secs(NEWS_SECONDS);
            let call = Call::get(self.changed.clone()).patient(Some(patience));
            loop {
                self.quiet().await;
                let asked = self.api.ask(&call, Repeat::Always).await;
                match asked.and_then(|reply| json::<Changed>(&reply)) {
                    Ok(Changed { changed: true }) => {
                        self.note();
                        return;
                    }
                    Ok(Changed { changed: false }) => {}
                    // Whoever no longer holds the right to write is told so by the next checkpoint.
                    Err(error) => {
                        tracing::debug!(%error, "news of the execution cannot be asked for");
                        tokio::time::sleep(NEWS_PAUSE).await;
                    }
                }
            }
        })
    }

    fn abilities(&self) -> Abilities {
        Abilities {
            pushes_changes: true,
            ..Abilities::OUTLAST
        }
    }
}
