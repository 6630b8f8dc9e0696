//! Logging with `tracing`, aware of replay.
//!
//! User code logs with `tracing`'s macros. The SDK runs it inside spans that carry the execution
//! and, in the body of a step, the operation; [`ReplayFilter`] drops what replayed code says again,
//! and [`JsonLines`] writes one JSON object per line with the fields that log queries expect. Bodies
//! of steps are never filtered: they really run.
//!
//! ```
//! # fn main() {
//! // Once per process; on a laptop any other `tracing` subscriber does as well.
//! let _ = outlast::log::init();
//! # }
//! ```

use crate::actor::Current;
use serde_json::{Map, Value};
use std::{fmt, io::Write, sync::Mutex};
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
    subscriber::{Interest, SetGlobalDefaultError},
};
use tracing_subscriber::{
    Layer,
    layer::{Context as LayerContext, Filter, SubscriberExt as _},
    registry::LookupSpan,
};

/// Installs [`JsonLines`] on standard output behind [`ReplayFilter`], at the level that
/// `AWS_LAMBDA_LOG_LEVEL` names (`INFO` if it does not).
///
/// # Errors
/// When the process already has a subscriber.
pub fn init() -> Result<(), SetGlobalDefaultError> {
    let level = std::env::var("AWS_LAMBDA_LOG_LEVEL")
        .ok()
        .and_then(|level| level.parse().ok());
    let level: LevelFilter = level.unwrap_or(LevelFilter::INFO);
    let lines = JsonLines::new(std::io::stdout())
        .with_filter(ReplayFilter)
        .with_filter(level);
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(lines))
}

/// Drops log lines of code that only repeats what is recorded.
///
/// A function configured to [log while replaying](crate::Config::log_while_replaying) is not
/// filtered.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReplayFilter;

impl<S> Filter<S> for ReplayFilter {
    fn enabled(&self, metadata: &Metadata<'_>, _: &LayerContext<'_, S>) -> bool {
        metadata.is_span() || !is_replaying()
    }

    fn callsite_enabled(&self, _: &'static Metadata<'static>) -> Interest {
        // The answer depends on where the code runs, so it must be asked every time.
        Interest::sometimes()
    }
}

/// Whether the code on this thread is replaying and shall be silent.
fn is_replaying() -> bool {
    Current::get().is_some_and(|current| {
        current.body.is_none()
            && !current.scope.invocation.config.log_while_replaying
            && current.scope.is_replaying()
    })
}

/// The fields that tell to which execution, invocation and operation a line belongs.
fn durable_fields() -> Map<String, Value> {
    let mut fields = Map::new();
    let Some(current) = Current::get() else {
        return fields;
    };
    let invocation = &current.scope.invocation;
    let mut put = |key: &str, value: Value| {
        fields.insert(key.to_owned(), value);
    };
    put("executionArn", Value::from(&*invocation.arn));
    put("requestId", Value::from(&*invocation.request.request_id));
    if let Some(tenant) = &invocation.request.tenant_id {
        put("tenantId", Value::from(&**tenant));
    }
    match &current.body {
        Some(body) => {
            put("operationId", Value::from(body.operation_id.as_str()));
            if let Some(name) = &body.operation.name {
                put("operationName", Value::from(&**name));
            }
            put("attempt", Value::from(body.attempt));
        }
        None => {
            if let Some(context) = &current.scope.record_id {
                put("operationId", Value::from(context.as_str()));
            }
        }
    }
    for (key, value) in invocation.hooks.log_fields() {
        put(&key, Value::from(value));
    }
    fields
}

/// Writes each event as one line of JSON.
#[derive(Debug)]
pub struct JsonLines<W> {
    out: Mutex<W>,
}

impl<W: Write + Send + 'static> JsonLines<W> {
    /// Writes to `out`.
    pub fn new(out: W) -> Self {
        Self {
            out: Mutex::new(out),
        }
    }
}

impl<S, W> Layer<S> for JsonLines<W>
where
    S: Subscriber + for<'lookup> LookupSpan<'lookup>,
    W: Write + Send + 'static,
{
    fn on_event(&self, event: &Event<'_>, _: LayerContext<'_, S>) {
        let line = Line::of(event);
        let mut object = line.fields;
        object.insert("level".to_owned(), Value::from(line.level.as_str()));
        object.insert("message".to_owned(), Value::from(line.message));
        if let Ok(mut text) = serde_json::to_string(&object)
            && let Ok(mut out) = self.out.lock()
        {
            text.push('\n');
            // A log line that cannot be written has nowhere to complain.
            let _ = out.write_all(text.as_bytes());
        }
    }
}

/// One log line.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Line {
    /// Its level.
    pub level: Level,
    /// Its message.
    pub message: String,
    /// Its own fields, and those of the execution and operation it belongs to.
    pub fields: Map<String, Value>,
}

impl Line {
    pub(crate) fn of(event: &Event<'_>) -> Self {
        let mut visitor = Fields(durable_fields(), String::new());
        event.record(&mut visitor);
        let Fields(fields, message) = visitor;
        Self {
            level: *event.metadata().level(),
            message,
            fields,
        }
    }
}

struct Fields(Map<String, Value>, String);

impl Fields {
    fn put(&mut self, field: &Field, value: Value) {
        self.0.insert(field.name().to_owned(), value);
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.1 = format!("{value:?}");
        } else {
            self.put(field, Value::from(format!("{value:?}")));
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            value.clone_into(&mut self.1);
        } else {
            self.put(field, Value::from(value));
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, Value::from(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, Value::from(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, Value::from(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, Value::from(value));
    }
}
