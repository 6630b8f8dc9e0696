//! What handlers log, kept for the judge.

use std::{
    fmt::{Debug, Write as _},
    sync::{Arc, Mutex},
};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    Registry,
    layer::{Context, Layer, SubscriberExt as _},
};

/// The lines logged since they were last taken, each with its level.
#[derive(Clone, Default)]
pub(crate) struct Logs(Arc<Mutex<Vec<String>>>);

/// Keeps everything that is logged in this process: handlers run on a thread of the test kit.
pub(crate) fn capture() -> Logs {
    let logs = Logs::default();
    tracing::subscriber::set_global_default(Registry::default().with(Keeper(logs.clone())))
        .unwrap();
    logs
}

impl Logs {
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

struct Keeper(Logs);

impl<S: Subscriber> Layer<S> for Keeper {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut line = format!("[{}] ", event.metadata().level());
        event.record(&mut Message(&mut line));
        self.0.0.lock().unwrap().push(line);
    }
}

struct Message<'a>(&'a mut String);

impl Visit for Message<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            write!(self.0, "{value:?}").unwrap();
        }
    }
}
