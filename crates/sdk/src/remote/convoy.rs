//! Checkpoints of several executions in one request.
//!
//! What is ready in the same moment travels together: the server makes it durable with one write
//! anyway, and a request costs more than a checkpoint. A few travel alone first, so nobody waits for
//! company. It is a shortcut for what is accepted, and nothing else: whoever gets no answer here asks
//! alone, where refusals are understood and failures repeated. That is harmless, since a checkpoint
//! carries a client token.

use super::api::Api;
use bytes::Bytes;
use hyper::{StatusCode, Uri};
use outlast_core::wire::CheckpointResponse;
use outlast_http::{Call, Reply};
use serde::Deserialize;
use std::{
    collections::VecDeque,
    fmt::Write as _,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::oneshot;

/// Where checkpoints go together.
const PATH: &str = "/outlast/v1/checkpoints";
/// Checkpoints that travel alone at the same time.
const ALONE_MAX: usize = 4;
/// Requests with several checkpoints at the same time.
const CONVOYS_MAX: usize = 4;
/// Checkpoints of one request; the server takes 128.
const TOGETHER_MAX: usize = 64;
/// Bytes of a checkpoint that may travel with others: a large one would delay them.
const BYTES_MAX: usize = 16_384;

/// A checkpoint that waits for the next request.
struct Traveller {
    line: String,
    answer: oneshot::Sender<Bytes>,
}

#[derive(Default)]
struct State {
    alone: usize,
    convoys: usize,
    waiting: VecDeque<Traveller>,
    /// The server is one that has no such path.
    is_unknown: bool,
}

/// The checkpoints of one worker.
pub(super) struct Convoy {
    api: Api,
    uri: Option<Uri>,
    state: Mutex<State>,
}

/// A place among those that travel alone, given back when dropped.
pub(super) struct Alone(Arc<Convoy>);

impl Drop for Alone {
    fn drop(&mut self) {
        self.0.lock().alone -= 1;
    }
}

/// How a checkpoint travels.
pub(super) enum Travels {
    /// By itself, in this place; or in none, since it is large.
    Alone(Option<Alone>),
    /// With others; the answer comes here, if it is accepted.
    Together(oneshot::Receiver<Bytes>),
}

/// A line of the server's answer.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Line {
    answer: Option<CheckpointResponse>,
}

impl Convoy {
    pub(super) fn new(api: Api) -> Arc<Self> {
        Arc::new(Self {
            uri: api.uri(PATH).ok(),
            api,
            state: Mutex::default(),
        })
    }

    /// How a checkpoint with this body travels to the execution with this ARN.
    pub(super) fn board(self: &Arc<Self>, arn: &str, body: &[u8]) -> Travels {
        let together = match std::str::from_utf8(body) {
            Ok(text) if text.len() <= BYTES_MAX && self.uri.is_some() => text,
            Ok(_) | Err(_) => return Travels::Alone(None),
        };
        let mut state = self.lock();
        if state.is_unknown {
            return Travels::Alone(None);
        }
        if state.alone < ALONE_MAX {
            state.alone += 1;
            return Travels::Alone(Some(Alone(self.clone())));
        }
        let mut line = String::with_capacity(arn.len() + together.len() + 48);
        // Writing to a string cannot fail; an ARN has nothing in it that JSON escapes.
        let _ = writeln!(
            line,
            r#"{{"DurableExecutionArn":"{arn}","Checkpoint":{together}}}"#
        );
        let (answer, answered) = oneshot::channel();
        state.waiting.push_back(Traveller { line, answer });
        if state.convoys < CONVOYS_MAX {
            state.convoys += 1;
            let departing = self.clone().depart();
            // A task of its own: whoever waits may go away, the others still want their answers.
            drop(tokio::runtime::Handle::current().spawn(departing));
        }
        Travels::Together(answered)
    }

    /// Sends all who wait, and those who come meanwhile, until nobody is left.
    async fn depart(self: Arc<Self>) {
        loop {
            let travellers: Vec<Traveller> = {
                let mut state = self.lock();
                let count = state.waiting.len().min(TOGETHER_MAX);
                if count == 0 {
                    state.convoys -= 1;
                    return;
                }
                state.waiting.drain(..count).collect()
            };
            let body: String = travellers.iter().map(|one| one.line.as_str()).collect();
            let Some(uri) = self.uri.clone() else {
                continue;
            };
            let sent = self.api.send(&Call::post(uri, body)).await;
            match sent {
                Ok(reply) if reply.status == StatusCode::OK => hand_out(&reply, travellers),
                Ok(reply) if reply.status == StatusCode::NOT_FOUND => self.lock().is_unknown = true,
                // Whoever hears nothing asks alone.
                Ok(_) | Err(_) => {}
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gives each its line.
fn hand_out(reply: &Reply, travellers: Vec<Traveller>) {
    let lines = reply.body.split(|byte| *byte == b'\n');
    for (line, one) in lines.zip(travellers) {
        // Whoever went away needs none.
        let _ = one.answer.send(reply.body.slice_ref(line));
    }
}

/// The answer in a line, if the checkpoint was accepted.
pub(super) fn accepted(line: &[u8]) -> Option<CheckpointResponse> {
    serde_json::from_slice::<Line>(line).ok()?.answer
}
