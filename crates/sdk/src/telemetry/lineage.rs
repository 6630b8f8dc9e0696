//! What the spans of an execution are called: ids that every invocation finds alike.

use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};
#[cfg(any(feature = "embedded", feature = "remote"))]
use opentelemetry::{Context, trace::TraceContextExt as _};
use opentelemetry_sdk::trace::{IdGenerator, RandomIdGenerator};
use outlast_core::{
    id::{digest128, trace_header},
    time::Timestamp,
};
use std::cell::Cell;

thread_local! {
    /// The ids of the next span that this thread starts.
    static NEXT: Cell<(Option<TraceId>, Option<SpanId>)> = const { Cell::new((None, None)) };
}

/// Gives the spans of executions the ids that they must have, and random ones to all others.
#[derive(Clone, Debug, Default)]
pub struct Ids(RandomIdGenerator);

impl Ids {
    /// Starts a span with these ids, where given.
    pub(super) fn with<S>(
        trace: Option<TraceId>,
        span: Option<SpanId>,
        start: impl FnOnce() -> S,
    ) -> S {
        NEXT.set((trace, span));
        let _taken_back = TakenBack;
        start()
    }
}

/// A provider with another generator does not take the ids, nor does a processor that panics.
struct TakenBack;

impl Drop for TakenBack {
    fn drop(&mut self) {
        NEXT.set((None, None));
    }
}

impl IdGenerator for Ids {
    fn new_trace_id(&self) -> TraceId {
        let (trace, span) = NEXT.get();
        NEXT.set((None, span));
        trace.unwrap_or_else(|| self.0.new_trace_id())
    }

    fn new_span_id(&self) -> SpanId {
        let (trace, span) = NEXT.get();
        NEXT.set((trace, None));
        span.unwrap_or_else(|| self.0.new_span_id())
    }
}

/// The spans that all of an execution's hang below, and how others find them.
#[derive(Clone, Debug)]
pub(super) struct Lineage {
    arn: String,
    /// What the execution and its invocations hang below: the caller's span, or a root of our own.
    pub(super) ancestor: SpanContext,
    /// The execution.
    pub(super) execution: SpanContext,
    /// Whether the ancestor is a root of our own.
    pub(super) is_root_ours: bool,
}

impl Lineage {
    pub(super) fn new(arn: &str, started: Timestamp, header: Option<&str>) -> Self {
        let caller = header.and_then(parse);
        let is_root_ours = caller.is_none();
        let ancestor = caller.unwrap_or_else(|| {
            // A load balancer names a trace, and no span in it.
            let trace = header.and_then(parse_trace);
            let trace = trace.unwrap_or_else(|| trace_id(arn, started));
            context(trace, span_id(arn, "root", ""))
        });
        let mut lineage = Self {
            arn: arn.to_owned(),
            execution: ancestor.clone(),
            ancestor,
            is_root_ours,
        };
        lineage.execution = lineage.span(span_id(arn, "execution", ""));
        lineage
    }

    /// The span of an operation: the only one, or the first.
    pub(super) fn operation(&self, id: &str) -> SpanContext {
        self.span(span_id(&self.arn, "operation", id))
    }

    /// Nothing of this execution is sampled.
    pub(super) fn leave_out(&mut self) {
        let unsampled = |span: &SpanContext| {
            let flags = span.trace_flags().with_sampled(false);
            let state = span.trace_state().clone();
            SpanContext::new(span.trace_id(), span.span_id(), flags, true, state)
        };
        self.ancestor = unsampled(&self.ancestor);
        self.execution = unsampled(&self.execution);
    }

    /// A span of this trace.
    fn span(&self, id: SpanId) -> SpanContext {
        SpanContext::new(
            self.ancestor.trace_id(),
            id,
            self.ancestor.trace_flags(),
            true,
            TraceState::NONE,
        )
    }

    /// Brings a function that is invoked into this trace, beside the execution that invokes it.
    pub(super) fn header(&self) -> String {
        format(&self.ancestor)
    }
}

/// Brings an execution that is started into the trace of the current span, if there is one.
#[cfg(any(feature = "embedded", feature = "remote"))]
pub(crate) fn current_header() -> Option<String> {
    let current = Context::current();
    let current = current.span().span_context().clone();
    current.is_valid().then(|| format(&current))
}

/// The header that names a span.
fn format(span: &SpanContext) -> String {
    let trace = u128::from_be_bytes(span.trace_id().to_bytes());
    let id = u64::from_be_bytes(span.span_id().to_bytes());
    trace_header(trace, id, span.is_sampled())
}

fn context(trace: TraceId, span: SpanId) -> SpanContext {
    SpanContext::new(trace, span, TraceFlags::SAMPLED, true, TraceState::NONE)
}

/// X-Ray wants the time in it.
fn trace_id(arn: &str, started: Timestamp) -> TraceId {
    let digest = digest128(&[b"trace", arn.as_bytes()]);
    let seconds = u128::from(started.as_millis() / 1_000) & u128::from(u32::MAX);
    TraceId::from((seconds << 96) | (digest >> 32))
}

#[expect(clippy::cast_possible_truncation, reason = "half of a digest")]
fn span_id(arn: &str, kind: &str, id: &str) -> SpanId {
    let digest = digest128(&[kind.as_bytes(), arn.as_bytes(), id.as_bytes()]);
    // Zero would be no id.
    SpanId::from((digest as u64).max(1))
}

/// Reads `Root=1-58406520-a006649127e371903a2de979;Parent=4c721bf33e3caf8f;Sampled=1`.
fn parse(header: &str) -> Option<SpanContext> {
    let trace = parse_trace(header)?;
    let parent = field(header, "Parent").filter(|parent| parent.len() == 16)?;
    let parent = SpanId::from_hex(parent).ok()?;
    // Undecided is as good as yes: nobody decides later.
    let flags = match field(header, "Sampled") {
        Some("0") => TraceFlags::NOT_SAMPLED,
        _ => TraceFlags::SAMPLED,
    };
    let context = SpanContext::new(trace, parent, flags, true, TraceState::NONE);
    context.is_valid().then_some(context)
}

fn parse_trace(header: &str) -> Option<TraceId> {
    let mut parts = field(header, "Root")?.split('-');
    let (Some("1"), Some(time), Some(rest), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return None;
    };
    let is_whole = (time.len(), rest.len()) == (8, 24);
    let trace = TraceId::from_hex(&format!("{time}{rest}")).ok();
    trace.filter(|trace| is_whole && *trace != TraceId::INVALID)
}

fn field<'a>(header: &'a str, name: &str) -> Option<&'a str> {
    let mut fields = header.split(';').filter_map(|field| field.split_once('='));
    let found = fields.find(|(key, _)| key.trim() == name);
    found.map(|(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str =
        "Root=1-58406520-a006649127e371903a2de979;Parent=4c721bf33e3caf8f;Sampled=1";
    const AT: Timestamp = Timestamp::from_millis(1_700_000_000_123);

    #[test]
    fn a_caller_s_header_is_handed_on_as_it_came() {
        let lineage = Lineage::new("arn", AT, Some(HEADER));
        assert_eq!(lineage.header(), HEADER);
        assert!(!lineage.is_root_ours);
        let trace = lineage.execution.trace_id().to_string();
        assert_eq!(trace, "58406520a006649127e371903a2de979");
        let unsampled = HEADER.replace("Sampled=1", "Sampled=0");
        let lineage = Lineage::new("arn", AT, Some(&unsampled));
        assert_eq!(lineage.header(), unsampled);
        assert!(!lineage.operation("1").is_sampled());
    }

    #[test]
    fn what_is_no_whole_header_makes_a_root_of_the_execution_s_own() {
        let own = Lineage::new("arn", AT, None);
        assert!(own.is_root_ours && own.ancestor.is_valid() && own.ancestor.is_sampled());
        // 1,700,000,000 s.
        assert!(own.header().starts_with("Root=1-6553f100-"));
        for header in [
            "",
            "Root=1-2-3",
            "Root=2-58406520-a006649127e371903a2de979;Parent=4c721bf33e3caf8f",
            "Root=1-00000000-000000000000000000000000;Parent=4c721bf33e3caf8f",
            "Root=1-58406520-a006649127e371903a2de97;Parent=4c721bf33e3caf8f",
            "Root=1-58406520-a006649127e371903a2de97x;Parent=4c721bf33e3caf8f",
        ] {
            let lineage = Lineage::new("arn", AT, Some(header));
            assert_eq!(lineage.ancestor, own.ancestor, "{header}");
        }
    }

    #[test]
    fn a_header_without_a_span_still_names_the_trace() {
        for header in [
            "Root=1-58406520-a006649127e371903a2de979",
            "Self=1-2-3;Root=1-58406520-a006649127e371903a2de979",
            "Root=1-58406520-a006649127e371903a2de979;Parent=0000000000000000",
            "Root=1-58406520-a006649127e371903a2de979;Parent=4c721bf33e3caf8",
        ] {
            let lineage = Lineage::new("arn", AT, Some(header));
            let trace = lineage.ancestor.trace_id().to_string();
            assert_eq!(trace, "58406520a006649127e371903a2de979", "{header}");
            assert!(lineage.is_root_ours, "{header}");
        }
    }

    #[test]
    fn executions_and_their_operations_have_ids_of_their_own() {
        let (one, other) = (Lineage::new("a", AT, None), Lineage::new("b", AT, None));
        let spans = [
            one.ancestor.clone(),
            one.execution.clone(),
            one.operation("1"),
            one.operation("2"),
            other.ancestor.clone(),
            other.execution.clone(),
            other.operation("1"),
        ];
        let ids: std::collections::BTreeSet<_> = spans
            .iter()
            .map(|span| span.span_id().to_string())
            .collect();
        assert_eq!(ids.len(), spans.len());
        assert_ne!(one.ancestor.trace_id(), other.ancestor.trace_id());
        assert_eq!(
            one.operation("1"),
            Lineage::new("a", AT, None).operation("1")
        );
    }

    #[test]
    fn ids_are_given_once_and_to_nobody_else() {
        let (trace, span) = (TraceId::from(7), SpanId::from(8));
        let ids = Ids::default();
        Ids::with(Some(trace), Some(span), || {
            assert_eq!((ids.new_span_id(), ids.new_trace_id()), (span, trace));
            assert_ne!((ids.new_span_id(), ids.new_trace_id()), (span, trace));
        });
        Ids::with(Some(trace), Some(span), || {});
        assert_ne!((ids.new_span_id(), ids.new_trace_id()), (span, trace));
        let panicked = std::panic::catch_unwind(|| {
            Ids::with(Some(trace), Some(span), || panic!("not today"));
        });
        panicked.unwrap_err();
        assert_ne!((ids.new_span_id(), ids.new_trace_id()), (span, trace));
    }
}
