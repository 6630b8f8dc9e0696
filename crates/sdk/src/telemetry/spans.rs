//! The spans of one invocation: which there are, what they hang below, when they begin and end.

use super::{
    Telemetry, View,
    lineage::{Ids, Lineage},
    sampling::undecided,
};
use crate::{
    backend::BoxFuture,
    plugin::{
        AttemptInfo, AttemptOutcome, AttemptStatus, EndStatus, HookResult, InvocationEnd,
        InvocationInfo, OperationInfo, Plugin,
    },
};
use opentelemetry::{
    Context, KeyValue,
    trace::{
        Link, Span as _, SpanBuilder, SpanContext, SpanId, SpanKind, Status, TraceContextExt as _,
        TraceId, Tracer as _,
    },
};
use opentelemetry_sdk::trace::Span;
use outlast_core::{
    arn::ExecutionArn,
    id::OperationId,
    time::Timestamp,
    wire::{ErrorObject, Operation, OperationStatus, OperationType},
};
use std::{
    any::Any,
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Makes the spans of one invocation; [`Telemetry::plugin`] makes one of these for each.
pub struct Spans {
    telemetry: Telemetry,
    tracing: Mutex<Option<Tracing>>,
    /// For log lines, which exporters write too: not below the lock.
    trace_id: OnceLock<TraceId>,
}

impl fmt::Debug for Spans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Spans").field(&self.telemetry).finish()
    }
}

impl Spans {
    pub(super) fn new(telemetry: Telemetry) -> Self {
        Self {
            telemetry,
            tracing: Mutex::new(None),
            trace_id: OnceLock::new(),
        }
    }

    /// Does something, once the invocation has begun.
    fn with<R>(&self, act: impl FnOnce(&mut Tracing) -> R) -> Option<R> {
        let mut tracing = self.tracing.lock().unwrap_or_else(PoisonError::into_inner);
        tracing.as_mut().map(act)
    }
}

impl Plugin for Spans {
    fn invocation_start(&self, info: &InvocationInfo) -> HookResult {
        let tracing = Tracing::begin(self.telemetry.clone(), info);
        let _ = self.trace_id.set(tracing.lineage.ancestor.trace_id());
        *self.tracing.lock().unwrap_or_else(PoisonError::into_inner) = Some(tracing);
        Ok(())
    }

    fn invocation_end(&self, _: &InvocationInfo, end: &InvocationEnd) -> HookResult {
        self.with(|tracing| tracing.end(end));
        Ok(())
    }

    fn operation_start(&self, info: &OperationInfo) -> HookResult {
        self.with(|tracing| tracing.operation_start(info));
        Ok(())
    }

    fn operation_end(&self, info: &OperationInfo) -> HookResult {
        self.with(|tracing| tracing.operation_end(info));
        Ok(())
    }

    fn attempt_start(&self, info: &AttemptInfo) -> HookResult {
        self.with(|tracing| tracing.attempt_start(info));
        Ok(())
    }

    fn attempt_end(&self, info: &AttemptInfo, outcome: &AttemptOutcome) -> HookResult {
        self.with(|tracing| tracing.attempt_end(info, outcome));
        Ok(())
    }

    fn around(&self, _: &str, operation: Option<&AttemptInfo>) -> Option<Box<dyn Any>> {
        let context = self.with(|tracing| tracing.current(operation))?;
        Some(Box::new(context.attach()))
    }

    fn log_fields(&self) -> Vec<(String, String)> {
        let Some(trace) = self.trace_id.get() else {
            return Vec::new();
        };
        let mut fields = vec![("trace_id".to_owned(), trace.to_string())];
        let current = Context::current();
        let current = current.span().span_context().clone();
        if current.trace_id() == *trace {
            fields.push(("span_id".to_owned(), current.span_id().to_string()));
        }
        fields
    }

    fn trace_header(&self, _: &OperationInfo) -> Option<String> {
        self.with(|tracing| tracing.lineage.header())
    }

    fn flush(&self) -> Option<BoxFuture<'static, ()>> {
        let telemetry = self.telemetry.clone();
        Some(Box::pin(async move {
            if let Err(error) = telemetry.flush().await {
                tracing::warn!("{error}");
            }
        }))
    }
}

/// A span to start.
struct Seed {
    name: String,
    /// A random one otherwise.
    id: Option<SpanId>,
    parent: SpanContext,
    at: SystemTime,
    attributes: Vec<KeyValue>,
    links: Vec<SpanContext>,
}

/// An operation that has not ended.
struct Open {
    /// What its attempts and the operations in it hang below.
    context: Context,
    started: SystemTime,
}

struct Tracing {
    telemetry: Telemetry,
    lineage: Lineage,
    arn: Arc<str>,
    execution_started: SystemTime,
    /// The newest time that was told: it never goes back within an invocation.
    latest: SystemTime,
    invocation: Context,
    open: BTreeMap<OperationId, Open>,
    attempts: BTreeMap<(OperationId, u32), Context>,
    /// Contexts that were open when the invocation began.
    contexts: BTreeMap<OperationId, Arc<Operation>>,
}

impl Tracing {
    fn begin(telemetry: Telemetry, info: &InvocationInfo) -> Self {
        let started = info.execution_start_timestamp;
        let lineage = Lineage::new(&info.execution_arn, started, info.trace_header.as_deref());
        let is_open = |operation: &&Arc<Operation>| {
            operation.operation_type == OperationType::Context && !operation.status.is_terminal()
        };
        let contexts = info.operations.iter().filter(is_open);
        let mut tracing = Self {
            latest: telemetry.now(),
            telemetry,
            lineage,
            arn: info.execution_arn.clone(),
            execution_started: moment(started),
            invocation: Context::new(),
            open: BTreeMap::new(),
            attempts: BTreeMap::new(),
            contexts: contexts
                .map(|operation| (operation.id.clone(), operation.clone()))
                .collect(),
        };
        if info.is_first_invocation && tracing.lineage.is_root_ours {
            tracing.plant();
        }
        let mut attributes = tracing.about_execution();
        let first = KeyValue::new("durable.invocation.first", info.is_first_invocation);
        attributes.push(first);
        let parent = tracing.above_invocation();
        let is_undecided = tracing.lineage.is_root_ours && parent == tracing.lineage.ancestor;
        let seed = Seed {
            name: "Invocation".to_owned(),
            id: None,
            parent,
            at: tracing.latest,
            attributes,
            links: Vec::new(),
        };
        let span = match is_undecided {
            true => undecided(|| tracing.start(seed)),
            false => tracing.start(seed),
        };
        let own = span.span_context();
        // There is none once the provider was shut down, which is for nobody else to follow.
        if own.is_valid() && !own.is_sampled() {
            tracing.lineage.leave_out();
        }
        tracing.invocation = Context::new().with_span(span);
        tracing
    }

    /// Exports the root that the execution hangs below when nobody called it from a trace. It does
    /// not say which execution it is of: it is no part of one.
    fn plant(&self) {
        let arn: Option<ExecutionArn> = self.arn.parse().ok();
        let name = arn.map_or_else(|| "Execution".into(), |arn| arn.function.name.to_string());
        let builder = SpanBuilder::from_name(name)
            .with_kind(SpanKind::Internal)
            .with_start_time(self.execution_started);
        let root = &self.lineage.ancestor;
        let mut span = Ids::with(Some(root.trace_id()), Some(root.span_id()), || {
            let tracer = &self.telemetry.tracer;
            tracer.build_with_context(builder, &Context::new())
        });
        if span.span_context().span_id() != root.span_id() {
            tracing::warn!(
                "spans of different invocations cannot refer to each other: build the \
                 TracerProvider with outlast::telemetry::Ids as its id generator"
            );
        }
        span.end_with_timestamp(self.execution_started);
    }

    /// A span that is current belongs to whoever calls the handler, if it is in the same trace.
    fn above_invocation(&self) -> SpanContext {
        let current = Context::current();
        let current = current.span().span_context().clone();
        let ancestor = &self.lineage.ancestor;
        if current.is_valid() && current.trace_id() == ancestor.trace_id() {
            current
        } else {
            ancestor.clone()
        }
    }

    fn start(&self, seed: Seed) -> Span {
        let link = |context| Link::new(context, Vec::new(), 0);
        let builder = SpanBuilder::from_name(seed.name)
            .with_kind(SpanKind::Internal)
            .with_start_time(seed.at)
            .with_attributes(seed.attributes)
            .with_links(seed.links.into_iter().map(link).collect());
        let parent = Context::new().with_remote_span_context(seed.parent);
        Ids::with(None, seed.id, || {
            let tracer = &self.telemetry.tracer;
            tracer.build_with_context(builder, &parent)
        })
    }

    fn now(&mut self) -> SystemTime {
        self.latest = self.latest.max(self.telemetry.now());
        self.latest
    }

    fn is_by_execution(&self) -> bool {
        self.telemetry.view == View::Execution
    }

    // --- operations -----------------------------------------------------------------------------

    fn operation_start(&mut self, info: &OperationInfo) {
        if self.open.contains_key(&info.id) {
            return;
        }
        let open = if self.is_by_execution() {
            let now = self.now();
            let context = self.lineage.operation(info.id.as_str());
            Open {
                context: Context::new().with_remote_span_context(context),
                started: if info.is_replay {
                    self.recorded_moment(info.start_timestamp, now)
                } else {
                    now
                },
            }
        } else {
            self.part(info, info.is_replay)
        };
        self.open.insert(info.id.clone(), open);
    }

    /// Begins the span of what this invocation sees of an operation.
    fn part(&mut self, info: &OperationInfo, continues: bool) -> Open {
        let first = self.lineage.operation(info.id.as_str());
        let id = (!continues).then(|| first.span_id());
        let mut links = vec![self.lineage.execution.clone()];
        if continues {
            links.insert(0, first);
        }
        // What it hangs below may begin only now, and begins first.
        let parent = self.above_operation(info.parent_id.as_ref());
        let now = self.now();
        let span = self.start(Seed {
            name: name(info),
            id,
            parent,
            at: now,
            attributes: self.about_operation(info),
            links,
        });
        Open {
            context: Context::new().with_span(span),
            started: now,
        }
    }

    /// What an operation in this context hangs below.
    fn above_operation(&mut self, parent: Option<&OperationId>) -> SpanContext {
        let Some(parent) = parent else {
            return if self.is_by_execution() {
                self.lineage.execution.clone()
            } else {
                self.invocation.span().span_context().clone()
            };
        };
        if self.is_by_execution() {
            return self.lineage.operation(parent.as_str());
        }
        if !self.open.contains_key(parent) {
            // What is in it ended while nobody looked, and the handler has not come to it yet.
            match self.contexts.get(parent).cloned() {
                Some(record) => self.operation_start(&OperationInfo::from_record(&record, true)),
                None => return self.lineage.operation(parent.as_str()),
            }
        }
        let open = self.open.get(parent);
        open.map_or_else(
            || self.lineage.operation(parent.as_str()),
            |open| open.context.span().span_context().clone(),
        )
    }

    fn operation_end(&mut self, info: &OperationInfo) {
        let seen = self.open.remove(&info.id);
        let was_seen = seen.is_some();
        if !self.is_by_execution() {
            let open = seen.unwrap_or_else(|| self.part(info, true));
            let now = self.now();
            open.context.span().set_attributes(ended(info));
            finish(&open.context, info.error.as_ref(), is_good(info), now);
            return;
        }
        let now = self.now();
        let started = seen.map_or_else(
            || self.recorded_moment(info.start_timestamp, now),
            |open| open.started,
        );
        // What ended while nobody looked ended then, not now.
        let end = if was_seen {
            now
        } else {
            self.recorded_moment(info.end_timestamp, now)
        };
        let mut attributes = self.about_operation(info);
        attributes.extend(ended(info));
        let own = self.lineage.operation(info.id.as_str());
        let parent = self.above_operation(info.parent_id.as_ref());
        let span = self.start(Seed {
            name: name(info),
            id: Some(own.span_id()),
            parent,
            at: started.min(end),
            attributes,
            links: vec![self.invocation.span().span_context().clone()],
        });
        let context = Context::new().with_span(span);
        finish(&context, info.error.as_ref(), is_good(info), end);
    }

    /// A time that the engine recorded, kept between the execution's start and now: its clock may
    /// not agree with ours.
    fn recorded_moment(&self, recorded: Option<Timestamp>, now: SystemTime) -> SystemTime {
        let recorded = recorded.map_or(now, moment);
        recorded.max(self.execution_started).min(now)
    }

    // --- attempts -------------------------------------------------------------------------------

    fn attempt_start(&mut self, info: &AttemptInfo) {
        let operation = &info.operation;
        if operation.operation_type != OperationType::Step {
            return;
        }
        let parent = self.above_operation(Some(&operation.id));
        let at = self.now();
        let mut attributes = self.about_operation(operation);
        attributes.push(number(info.attempt));
        let link = if self.is_by_execution() {
            self.invocation.span().span_context().clone()
        } else {
            self.lineage.execution.clone()
        };
        let span = self.start(Seed {
            name: format!("{} attempt {}", name(operation), info.attempt),
            id: None,
            parent,
            at,
            attributes,
            links: vec![link],
        });
        let key = (operation.id.clone(), info.attempt);
        self.attempts.insert(key, Context::new().with_span(span));
    }

    fn attempt_end(&mut self, info: &AttemptInfo, outcome: &AttemptOutcome) {
        let now = self.now();
        let key = (info.operation.id.clone(), info.attempt);
        let Some(context) = self.attempts.remove(&key) else {
            return;
        };
        let (word, is_good) = match outcome.status {
            AttemptStatus::Succeeded => ("SUCCEEDED", Some(true)),
            AttemptStatus::Failed => ("FAILED", Some(false)),
            AttemptStatus::Incomplete => ("INCOMPLETE", None),
        };
        let attribute = KeyValue::new("durable.attempt.outcome", word);
        context.span().set_attribute(attribute);
        finish(&context, outcome.error.as_ref(), is_good, now);
    }

    /// What is current while this code runs.
    fn current(&self, operation: Option<&AttemptInfo>) -> Context {
        let Some(info) = operation else {
            return self.invocation.clone();
        };
        let id = &info.operation.id;
        let attempt = self.attempts.get(&(id.clone(), info.attempt));
        let open = || self.open.get(id).map(|open| &open.context);
        attempt.or_else(open).unwrap_or(&self.invocation).clone()
    }

    // --- the end --------------------------------------------------------------------------------

    fn end(&mut self, end: &InvocationEnd) {
        let now = self.now();
        for context in std::mem::take(&mut self.attempts).into_values() {
            finish(&context, None, None, now);
        }
        // By execution there is nothing to end: an operation is exported when it ends.
        for open in std::mem::take(&mut self.open).into_values() {
            let started = KeyValue::new("durable.operation.status", "STARTED");
            open.context.span().set_attribute(started);
            finish(&open.context, None, None, now);
        }
        let (word, is_good) = match end.status {
            EndStatus::Succeeded => ("SUCCEEDED", true),
            EndStatus::Failed => ("FAILED", false),
            EndStatus::Pending => ("PENDING", true),
            EndStatus::Retrying => ("RETRYING", false),
        };
        let status = KeyValue::new("durable.invocation.status", word);
        self.invocation.span().set_attribute(status);
        finish(&self.invocation, end.error.as_ref(), Some(is_good), now);
        if matches!(end.status, EndStatus::Succeeded | EndStatus::Failed) {
            let mut attributes = self.about_execution();
            attributes.push(KeyValue::new("durable.execution.status", word));
            let span = self.start(Seed {
                name: "Workflow".to_owned(),
                id: Some(self.lineage.execution.span_id()),
                parent: self.lineage.ancestor.clone(),
                at: self.execution_started.min(now),
                attributes,
                links: Vec::new(),
            });
            let context = Context::new().with_span(span);
            finish(&context, end.error.as_ref(), Some(is_good), now);
        }
    }

    // --- attributes -----------------------------------------------------------------------------

    fn about_execution(&self) -> Vec<KeyValue> {
        vec![KeyValue::new("durable.execution.arn", self.arn.to_string())]
    }

    fn about_operation(&self, info: &OperationInfo) -> Vec<KeyValue> {
        let mut attributes = self.about_execution();
        let mut put = |key, value: &str| attributes.push(KeyValue::new(key, value.to_owned()));
        put("durable.operation.id", info.id.as_str());
        put("durable.operation.type", info.operation_type.as_str());
        if let Some(sub_type) = &info.sub_type {
            put("durable.operation.subtype", sub_type);
        }
        if let Some(name) = &info.name {
            put("durable.operation.name", name);
        }
        attributes
    }
}

fn name(info: &OperationInfo) -> String {
    let otherwise = info.operation_type.as_str();
    info.name.as_deref().unwrap_or(otherwise).to_owned()
}

fn number(attempt: u32) -> KeyValue {
    KeyValue::new("durable.attempt.number", i64::from(attempt))
}

/// What is known of an operation once it has ended.
fn ended(info: &OperationInfo) -> Vec<KeyValue> {
    let status = info.status.map(OperationStatus::as_str);
    let status = status.map(|status| KeyValue::new("durable.operation.status", status));
    let attempt = info.attempt.map(number);
    status.into_iter().chain(attempt).collect()
}

fn is_good(info: &OperationInfo) -> Option<bool> {
    info.status
        .map(|status| status == OperationStatus::Succeeded)
}

/// Ends a span; it neither succeeded nor failed unless `is_good` says so.
fn finish(context: &Context, error: Option<&ErrorObject>, is_good: Option<bool>, now: SystemTime) {
    let span = context.span();
    if let Some(error) = error {
        let mut about = Vec::new();
        let mut put = |key, value: &Option<String>| {
            about.extend(value.clone().map(|value| KeyValue::new(key, value)));
        };
        put("exception.type", &error.error_type);
        put("exception.message", &error.error_message);
        span.add_event_with_timestamp("exception", now, about);
    }
    match is_good {
        None => {}
        Some(true) => span.set_status(Status::Ok),
        Some(false) => {
            let message = error.and_then(|error| error.error_message.clone());
            span.set_status(Status::error(message.unwrap_or_default()));
        }
    }
    span.end_with_timestamp(now);
}

fn moment(at: Timestamp) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(at.as_millis())
}
