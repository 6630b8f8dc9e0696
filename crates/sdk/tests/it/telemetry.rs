//! The spans of executions: which there are, what they hang below, and that they harm nothing.
//!
//! What each operation's spans must look like, the official requirements say (`conformance/run
//! --otel`); here is how they hang together, and what those leave out.

use opentelemetry::{
    Context as Current, KeyValue,
    trace::{Span as _, SpanId, Status, TraceContextExt as _, Tracer as _, TracerProvider as _},
};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use outlast::{
    App, Config, Context, Function, Result, Retry,
    backend::BackendError,
    telemetry::{Ids, Telemetry, View},
    testing::{self, Answer, Fault, TestKit, TestRun},
};
use serde_json::Value;
use std::{
    fmt::Write as _,
    future::Future,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, UNIX_EPOCH},
};
use tracing::{
    Subscriber,
    span::{Attributes, Id},
};
use tracing_subscriber::{
    Layer,
    layer::{Context as LayerContext, SubscriberExt as _},
    registry::LookupSpan,
};

const HEADER: &str = "Root=1-58406520-a006649127e371903a2de979;Parent=4c721bf33e3caf8f;Sampled=1";

/// When the kit's executions begin.
const ORIGIN: Duration = Duration::from_secs(1_767_225_600);

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// A place for spans, with a clock on which no two things happen at once.
pub(crate) struct Place {
    exporter: InMemorySpanExporter,
    pub(crate) provider: SdkTracerProvider,
}

impl Place {
    pub(crate) fn new() -> Self {
        let exporter = InMemorySpanExporter::default();
        let provider = SdkTracerProvider::builder()
            .with_id_generator(Ids::default())
            .with_simple_exporter(exporter.clone())
            .build();
        Self { exporter, provider }
    }

    pub(crate) fn telemetry(&self, view: View) -> Telemetry {
        let telemetry = Telemetry::new(self.provider.clone()).view(view);
        let ticks = AtomicU64::new(1);
        telemetry.clock(move || {
            let tick = ticks.fetch_add(1, Ordering::Relaxed);
            UNIX_EPOCH + ORIGIN + Duration::from_micros(tick)
        })
    }

    pub(crate) fn function<H, Fut>(&self, view: View, handler: H) -> Function
    where
        H: Fn(Context, Value) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<u32>> + Send + 'static,
    {
        let config = Config::new().plugin(self.telemetry(view).plugin());
        Function::new("traced", handler).config(config)
    }

    pub(crate) fn spans(&self) -> Vec<SpanData> {
        let spans = self.exporter.get_finished_spans().unwrap();
        for span in &spans {
            assert!(span.start_time <= span.end_time, "{span:?}");
            assert!(span.end_time > UNIX_EPOCH);
        }
        spans
    }

    pub(crate) fn named(&self, name: &str) -> SpanData {
        let mut found = self.spans().into_iter().filter(|span| span.name == name);
        let span = found.next().unwrap_or_else(|| panic!("no span {name}"));
        assert!(found.next().is_none(), "two spans {name}");
        span
    }

    /// All spans as a tree: a line each, with its outcome and what it is linked to.
    pub(crate) fn tree(&self) -> String {
        let spans = self.spans();
        let name = |id: SpanId| {
            let mut spans = spans.iter();
            let found = spans.find(|span| span.span_context.span_id() == id);
            found.map(|span| &*span.name)
        };
        let mut lines = String::new();
        let mut open: Vec<(usize, &SpanData)> = spans
            .iter()
            .filter(|span| name(span.parent_span_id).is_none())
            .map(|span| (0, span))
            .collect();
        sort(&mut open);
        while let Some((depth, span)) = open.pop() {
            let id = span.span_context.span_id();
            let status = match &span.status {
                Status::Ok => "ok",
                Status::Error { .. } => "error",
                Status::Unset => "-",
            };
            let links = span.links.iter();
            let links: Vec<&str> = links
                .map(|link| name(link.span_context.span_id()).unwrap_or("(not exported)"))
                .collect();
            let links = match links.as_slice() {
                [] => String::new(),
                links => format!(" -> {}", links.join(", ")),
            };
            let indent = depth * 2;
            writeln!(lines, "{:indent$}{} {status}{links}", "", span.name).unwrap();
            let mut children: Vec<(usize, &SpanData)> = spans
                .iter()
                .filter(|child| child.parent_span_id == id)
                .map(|child| (depth + 1, child))
                .collect();
            sort(&mut children);
            open.extend(children);
        }
        lines
    }
}

/// The first comes last, to be taken first.
fn sort(spans: &mut [(usize, &SpanData)]) {
    spans.sort_by_key(|(_, span)| std::cmp::Reverse((span.start_time, span.end_time)));
}

fn attribute<'a>(span: &'a SpanData, key: &str) -> Option<&'a opentelemetry::Value> {
    let mut attributes = span.attributes.iter();
    let found = attributes.find(|attribute| attribute.key.as_str() == key);
    found.map(|attribute| &attribute.value)
}

async fn order(ctx: Context, _: Value) -> Result<u32> {
    let flaky = ctx.step("flaky", async |step| match step.attempt() {
        1 => Err(std::io::Error::other("not yet")),
        _ => Ok(()),
    });
    flaky.retry(Retry::fixed(secs(1)).max_attempts(2)).await?;
    ctx.run_in_child_context("block", async |ctx| {
        ctx.wait_for_callback::<(), _, _, _>("asked", async |_| Ok::<_, std::io::Error>(()))
            .await?;
        ctx.step("inner", async |_| Ok::<_, std::io::Error>(()))
            .await
    })
    .await?;
    ctx.step("", async |_| Ok::<_, std::io::Error>(7)).await
}

async fn ordered(place: &Place, view: View) -> TestRun {
    let kit = TestKit::of(place.function(view, order));
    let kit = kit.callback("asked-callback", Answer::json(()).after(secs(5)));
    let run = kit.run(Value::Null).await;
    assert_eq!(run.result::<u32>().unwrap(), 7, "{}", run.history_text());
    run
}

#[tokio::test]
async fn each_invocation_holds_what_it_did() {
    let place = Place::new();
    ordered(&place, View::Invocation).await;
    insta::assert_snapshot!(place.tree(), @"
    traced -
      Workflow ok
      Invocation ok
        flaky - -> Workflow
          flaky attempt 1 error -> Workflow
      Invocation ok
        flaky ok -> flaky, Workflow
          flaky attempt 2 ok -> Workflow
        block - -> Workflow
          asked - -> Workflow
            asked-callback - -> Workflow
            asked-submitter ok -> Workflow
              asked-submitter attempt 1 ok -> Workflow
      Invocation ok
        block ok -> block, Workflow
          asked ok -> asked, Workflow
            asked-callback ok -> asked-callback, Workflow
          inner ok -> Workflow
            inner attempt 1 ok -> Workflow
        STEP ok -> Workflow
          STEP attempt 1 ok -> Workflow
    ");
}

#[tokio::test]
async fn an_execution_holds_each_of_its_operations_once() {
    let place = Place::new();
    ordered(&place, View::Execution).await;
    insta::assert_snapshot!(place.tree(), @"
    traced -
      Workflow ok
        flaky ok -> Invocation
          flaky attempt 1 error -> Invocation
          flaky attempt 2 ok -> Invocation
        block ok -> Invocation
          asked ok -> Invocation
            asked-submitter ok -> Invocation
              asked-submitter attempt 1 ok -> Invocation
            asked-callback ok -> Invocation
          inner ok -> Invocation
            inner attempt 1 ok -> Invocation
        STEP ok -> Invocation
          STEP attempt 1 ok -> Invocation
      Invocation ok
      Invocation ok
      Invocation ok
    ");
}

#[tokio::test]
async fn spans_of_the_code_hang_below_what_runs_it() {
    let place = Place::new();
    let tracer = place.provider.tracer("program");
    let handler = move |ctx: Context, _: Value| {
        let tracer = tracer.clone();
        async move {
            tracer.start("of the handler").end();
            ctx.run_in_child_context("block", async |_| {
                tracer.start("of the block").end();
                Ok(())
            })
            .await?;
            ctx.step("step", async |_| {
                tokio::task::yield_now().await;
                tracer.start("of the step").end();
                let current = Current::current();
                let about = KeyValue::new("order", "o-1");
                current.span().set_attribute(about);
                Ok::<_, std::io::Error>(1)
            })
            .await
        }
    };
    let run = TestKit::of(place.function(View::Invocation, handler));
    let run = run.run(Value::Null).await;
    run.result::<u32>().unwrap();
    let parent = |name| place.named(name).parent_span_id;
    let id = |name| place.named(name).span_context.span_id();
    assert_eq!(parent("of the handler"), id("Invocation"));
    assert_eq!(parent("of the block"), id("block"));
    assert_eq!(parent("of the step"), id("step attempt 1"));
    let attempt = place.named("step attempt 1");
    assert_eq!(attribute(&attempt, "order").unwrap().as_str(), "o-1");
    assert!(!Current::current().has_active_span(), "it was left behind");
}

#[tokio::test]
async fn an_execution_is_in_its_caller_s_trace_and_so_is_what_it_invokes() {
    let place = Place::new();
    let handler = async |ctx: Context, _: Value| -> Result<u32> {
        ctx.invoke("call", "other:$LATEST", ()).await
    };
    let config = Config::new().plugin(place.telemetry(View::Invocation).plugin());
    let other = Function::new("other", async |ctx: Context, _: Value| -> Result<u32> {
        ctx.wait(secs(1)).await?;
        Ok(3)
    })
    .config(config);
    let kit = TestKit::of(place.function(View::Invocation, handler)).function(other);
    let run = kit.trace_header(HEADER).run(Value::Null).await;
    assert_eq!(run.result::<u32>().unwrap(), 3);
    let spans = place.spans();
    let trace = "58406520a006649127e371903a2de979";
    for span in &spans {
        assert_eq!(span.span_context.trace_id().to_string(), trace);
    }
    let executions: Vec<_> = spans
        .iter()
        .filter(|span| span.name == "Workflow")
        .collect();
    assert_eq!(executions.len(), 2);
    for execution in executions {
        assert_eq!(execution.parent_span_id.to_string(), "4c721bf33e3caf8f");
    }
}

#[tokio::test]
async fn what_a_caller_does_not_sample_leaves_no_spans() {
    let place = Place::new();
    let header = HEADER.replace("Sampled=1", "Sampled=0");
    let kit = TestKit::of(place.function(View::Invocation, order));
    let kit = kit.callback("asked-callback", Answer::json(()));
    let run = kit.trace_header(&header).run(Value::Null).await;
    assert_eq!(run.result::<u32>().unwrap(), 7);
    assert_eq!(place.spans(), []);
}

#[tokio::test]
async fn a_crash_leaves_what_was_exported_and_the_rest_still_refers_to_it() {
    static CRASHED: AtomicBool = AtomicBool::new(false);
    let place = Place::new();
    let handler = async |ctx: Context, _: Value| -> Result<u32> {
        ctx.step("before", async |_| Ok::<_, std::io::Error>(()))
            .await?;
        ctx.step("crashing", async |_| {
            if !CRASHED.swap(true, Ordering::Relaxed) {
                testing::crash().await;
            }
            Ok::<_, std::io::Error>(2)
        })
        .await
    };
    let kit = TestKit::of(place.function(View::Execution, handler));
    let run = kit.run(Value::Null).await;
    assert_eq!(run.result::<u32>().unwrap(), 2);
    insta::assert_snapshot!(place.tree(), @"
    traced -
      Workflow ok
        before ok -> Invocation
          before attempt 1 ok -> Invocation
        crashing ok -> Invocation
          crashing attempt 1 - -> Invocation
          crashing attempt 1 ok -> Invocation
      Invocation -
      Invocation ok
    ");
}

#[tokio::test]
async fn an_invocation_that_is_repeated_says_so() {
    let place = Place::new();
    let handler = async |ctx: Context, _: Value| -> Result<u32> {
        ctx.step("once", async |_| Ok::<_, std::io::Error>(5)).await
    };
    let kit = TestKit::of(place.function(View::Invocation, handler));
    let refused = BackendError::transport("connection reset");
    let run = kit.fault(Fault::Refuse(1, refused)).run(Value::Null).await;
    assert_eq!(run.result::<u32>().unwrap(), 5);
    let spans = place.spans();
    let invocations = spans.iter().filter(|span| span.name == "Invocation");
    let statuses: Vec<_> = invocations
        .map(|span| {
            attribute(span, "durable.invocation.status")
                .unwrap()
                .to_string()
        })
        .collect();
    assert_eq!(statuses, ["RETRYING", "SUCCEEDED"]);
}

#[tokio::test]
async fn a_provider_without_our_ids_gets_spans_all_the_same() {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder()
        .with_simple_exporter(exporter.clone())
        .build();
    let place = Place { exporter, provider };
    let handler = async |ctx: Context, _: Value| -> Result<u32> {
        ctx.step("step", async |_| Ok::<_, std::io::Error>(1)).await
    };
    let kit = TestKit::of(place.function(View::Invocation, handler));
    kit.run(Value::Null).await.result::<u32>().unwrap();
    let names = ["Workflow", "Invocation", "step", "step attempt 1"];
    for name in names {
        place.named(name);
    }
}

#[tokio::test]
async fn a_failure_is_told_with_its_error() {
    let place = Place::new();
    let handler = async |ctx: Context, _: Value| -> Result<u32> {
        let failing = ctx.step("failing", async |_| {
            Err::<u32, _>(std::io::Error::other("no"))
        });
        failing.retry(Retry::none()).await
    };
    let kit = TestKit::of(place.function(View::Execution, handler));
    kit.run(Value::Null).await.result::<u32>().unwrap_err();
    for name in ["failing attempt 1", "failing", "Invocation", "Workflow"] {
        let span = place.named(name);
        let Status::Error { description } = &span.status else {
            panic!("{name}: {:?}", span.status);
        };
        assert!(description.contains("no"), "{name}: {description}");
        let event = &span.events[0];
        assert_eq!(event.name, "exception", "{name}");
        assert!(
            event
                .attributes
                .iter()
                .any(|about| about.key.as_str() == "exception.type")
        );
    }
}

#[tokio::test]
async fn log_lines_name_the_span_that_they_belong_to() {
    let place = Place::new();
    let handler = async |ctx: Context, _: Value| -> Result<u32> {
        tracing::info!("handling");
        ctx.step("step", async |_| {
            tracing::info!("stepping");
            Ok::<_, std::io::Error>(1)
        })
        .await
    };
    let kit = TestKit::of(place.function(View::Invocation, handler));
    let run = kit.run(Value::Null).await;
    for (message, span) in [("handling", "Invocation"), ("stepping", "step attempt 1")] {
        let span = place.named(span).span_context;
        let line = run.logs().iter().find(|line| line.message == message);
        let fields = &line.unwrap().fields;
        assert_eq!(fields["trace_id"], span.trace_id().to_string());
        assert_eq!(fields["span_id"], span.span_id().to_string());
    }
}

/// Does what `tracing-opentelemetry` does: the current span is above a new one that has no parent.
struct Bridge(Arc<Mutex<Vec<(&'static str, SpanId)>>>);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Bridge {
    fn on_new_span(&self, _: &Attributes<'_>, id: &Id, layer: LayerContext<'_, S>) {
        let span = layer.span(id).unwrap();
        if span.parent().is_none() {
            let above = Current::current().span().span_context().span_id();
            self.0.lock().unwrap().push((span.name(), above));
        }
    }
}

#[tokio::test]
async fn spans_of_tracing_begin_below_those_of_the_invocation() {
    let place = Place::new();
    let seen = Arc::default();
    let subscriber = tracing_subscriber::registry().with(Bridge(Arc::clone(&seen)));
    let subscribed = tracing::subscriber::set_default(subscriber);
    let handler = async |ctx: Context, _: Value| -> Result<u32> {
        ctx.step("step", async |_| Ok::<_, std::io::Error>(1)).await
    };
    let folder = tempfile::tempdir().unwrap();
    let app = App::new().register(place.function(View::Invocation, handler));
    let home = app.open_at(folder.path()).await.unwrap();
    let execution = home.start("traced", &()).await.unwrap();
    execution.result::<u32>().await.unwrap();
    home.shut_down().await;
    drop(subscribed);
    let invocation = place.named("Invocation").span_context.span_id();
    let seen = seen.lock().unwrap();
    let first = seen.iter().find(|(name, _)| *name == "durable_execution");
    assert_eq!(first, Some(&("durable_execution", invocation)));
}
