//! The spans of what is not one after the other: flat contexts, races, large contexts, work on several
//! threads, processors that do what they like.

use crate::telemetry::Place;
use opentelemetry::{
    Context as Current,
    trace::{Span as _, TraceContextExt as _, Tracer as _, TracerProvider as _},
};
use opentelemetry_sdk::{
    error::OTelSdkResult,
    trace::{InMemorySpanExporter, SdkTracerProvider, Span, SpanData, SpanProcessor},
};
use outlast::{
    App, Config, Context, Function, Nesting, Result,
    telemetry::{Ids, Telemetry, View},
    testing::TestKit,
};
use serde_json::Value;
use std::{collections::BTreeMap, future::Future, time::Duration};

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// No two spans have one id.
fn assert_single(spans: &[SpanData]) {
    let mut names = BTreeMap::new();
    for span in spans {
        let id = span.span_context.span_id().to_string();
        if let Some(other) = names.insert(id, &span.name) {
            panic!("{other} and {} have one id", span.name);
        }
    }
}

async fn tree<H, Fut>(view: View, handler: H) -> String
where
    H: Fn(Context, Value) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<u32>> + Send + 'static,
{
    let place = Place::new();
    let run = TestKit::of(place.function(view, handler));
    let run = run.run(Value::Null).await;
    run.result::<u32>().unwrap();
    assert_single(&place.spans());
    place.tree()
}

async fn flat(ctx: Context, _: Value) -> Result<u32> {
    let block = ctx.run_in_child_context("empty", async |_| Ok(()));
    block.flat().await?;
    let block = ctx.run_in_child_context("flat", async |ctx| {
        ctx.step("one", async |_| Ok::<_, std::io::Error>(()))
            .await?;
        let inner = ctx.run_in_child_context("inner", async |ctx| ctx.wait(secs(1)).await);
        inner.flat().await
    });
    block.flat().await?;
    ctx.wait(secs(2)).await?;
    Ok(1)
}

/// They have no record, and their code runs on every replay.
#[tokio::test]
async fn a_flat_context_has_its_span_where_it_is_not_over() {
    insta::assert_snapshot!(tree(View::Invocation, flat).await, @"
    traced -
      Workflow ok
      Invocation ok
        empty ok -> Workflow
        flat - -> Workflow
        one ok -> Workflow
          one attempt 1 ok -> Workflow
        inner - -> Workflow
        WAIT - -> Workflow
      Invocation ok
        WAIT ok -> WAIT, Workflow
        flat ok -> flat, Workflow
        inner ok -> inner, Workflow
        WAIT - -> Workflow
      Invocation ok
        WAIT ok -> WAIT, Workflow
    ");
    insta::assert_snapshot!(tree(View::Execution, flat).await, @"
    traced -
      Workflow ok
        WAIT ok -> Invocation
        empty ok -> Invocation
        one ok -> Invocation
          one attempt 1 ok -> Invocation
        flat ok -> Invocation
        inner ok -> Invocation
        WAIT ok -> Invocation
      Invocation ok
      Invocation ok
      Invocation ok
    ");
}

#[tokio::test]
async fn a_flat_item_has_its_span_where_it_is_not_over() {
    let handler = async |ctx: Context, _: Value| -> Result<u32> {
        let items = ctx.map("items", [1, 3], async |ctx: Context, item: u64| {
            ctx.wait(secs(item)).await?;
            ctx.step("then", async |_| Ok::<_, std::io::Error>(()))
                .await
        });
        items.nesting(Nesting::Flat).await?;
        ctx.wait(secs(2)).await?;
        Ok(1)
    };
    insta::assert_snapshot!(tree(View::Invocation, handler).await, @"
    traced -
      Workflow ok
      Invocation ok
        items - -> Workflow
          map-item-0 - -> Workflow
          WAIT - -> Workflow
          map-item-1 - -> Workflow
          WAIT - -> Workflow
      Invocation ok
        items - -> items, Workflow
          WAIT ok -> WAIT, Workflow
          map-item-0 ok -> map-item-0, Workflow
          then ok -> Workflow
            then attempt 1 ok -> Workflow
          map-item-1 - -> map-item-1, Workflow
          WAIT - -> WAIT, Workflow
      Invocation ok
        items ok -> items, Workflow
          WAIT ok -> WAIT, Workflow
          map-item-1 ok -> map-item-1, Workflow
          then ok -> Workflow
            then attempt 1 ok -> Workflow
        WAIT - -> Workflow
      Invocation ok
        WAIT ok -> WAIT, Workflow
    ");
    insta::assert_snapshot!(tree(View::Execution, handler).await, @"
    traced -
      Workflow ok
        items ok -> Invocation
          WAIT ok -> Invocation
          WAIT ok -> Invocation
          map-item-0 ok -> Invocation
          then ok -> Invocation
            then attempt 1 ok -> Invocation
          map-item-1 ok -> Invocation
          then ok -> Invocation
            then attempt 1 ok -> Invocation
        WAIT ok -> Invocation
      Invocation ok
      Invocation ok
      Invocation ok
      Invocation ok
    ");
}

#[tokio::test]
async fn what_lost_a_race_is_open_until_nobody_cares() {
    let handler = async |ctx: Context, _: Value| -> Result<u32> {
        let fast = ctx
            .step("fast", async |_| Ok::<_, std::io::Error>(1))
            .spawn();
        let slow = ctx.run_in_child_context("slow", async |ctx| {
            ctx.wait(secs(100)).await?;
            ctx.step("never", async |_| Ok::<_, std::io::Error>(2))
                .await
        });
        let first = ctx.race("race", [fast, slow.spawn()]).await?;
        ctx.wait(secs(2)).await?;
        Ok(first)
    };
    insta::assert_snapshot!(tree(View::Invocation, handler).await, @"
    traced -
      Workflow ok
      Invocation ok
        race ok -> Workflow
        fast ok -> Workflow
          fast attempt 1 ok -> Workflow
        slow - -> Workflow
          WAIT - -> Workflow
        WAIT - -> Workflow
      Invocation ok
        WAIT ok -> WAIT, Workflow
        slow - -> slow, Workflow
          WAIT - -> WAIT, Workflow
    ");
}

#[tokio::test]
async fn a_large_context_that_is_rebuilt_is_silent() {
    let handler = async |ctx: Context, _: Value| -> Result<u32> {
        let block = ctx.run_in_child_context("large", async |ctx| {
            let length: usize = ctx
                .step("length", async |_| Ok::<_, std::io::Error>(300 * 1_024))
                .await?;
            let inner = ctx.run_in_child_context("flat", async |ctx| ctx.wait(secs(1)).await);
            inner.flat().await?;
            Ok("x".repeat(length))
        });
        let text: String = block.await?;
        ctx.wait(secs(2)).await?;
        Ok(u32::try_from(text.len()).unwrap())
    };
    insta::assert_snapshot!(tree(View::Invocation, handler).await, @"
    traced -
      Workflow ok
      Invocation ok
        large - -> Workflow
          length ok -> Workflow
            length attempt 1 ok -> Workflow
          flat - -> Workflow
          WAIT - -> Workflow
      Invocation ok
        large ok -> large, Workflow
          WAIT ok -> WAIT, Workflow
          flat ok -> flat, Workflow
        WAIT - -> Workflow
      Invocation ok
        WAIT ok -> WAIT, Workflow
    ");
    insta::assert_snapshot!(tree(View::Execution, handler).await, @"
    traced -
      Workflow ok
        large ok -> Invocation
          WAIT ok -> Invocation
          length ok -> Invocation
            length attempt 1 ok -> Invocation
          flat ok -> Invocation
        WAIT ok -> Invocation
      Invocation ok
      Invocation ok
      Invocation ok
    ");
}

/// Logs, makes spans of its own, and panics now and then.
#[derive(Debug)]
struct Meddler(SdkTracerProvider);

impl Meddler {
    fn meddle(&self, name: &str) {
        tracing::info!(name, "a processor logs");
        self.0.tracer("meddler").start("meddled").end();
        assert!(!name.starts_with("step 7"), "a processor panics");
    }
}

impl SpanProcessor for Meddler {
    fn on_start(&self, _: &mut Span, _: &Current) {
        self.meddle("start");
    }

    fn on_end(&self, span: SpanData) {
        self.meddle(&span.name);
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn spans_of_work_on_several_threads_hang_together_whatever_processors_do() {
    let other = Place::new();
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder()
        .with_id_generator(Ids::default())
        .with_simple_exporter(exporter.clone())
        .with_span_processor(Meddler(other.provider.clone()))
        .build();
    let tracer = provider.tracer("program");
    let handler = move |ctx: Context, _: Value| {
        let tracer = tracer.clone();
        async move {
            let work = (0..40_u32).map(|number| {
                let tracer = tracer.clone();
                let block =
                    ctx.run_in_child_context(&format!("block {number}"), async move |ctx| {
                        let name = format!("step {number}");
                        ctx.step(&name, async |_| {
                            tokio::time::sleep(Duration::from_millis(1)).await;
                            tracer.start(format!("in {name}")).end();
                            Ok::<_, std::io::Error>(1)
                        })
                        .await
                    });
                block.spawn()
            });
            let work: Vec<_> = work.collect();
            let results: Vec<u32> = ctx.try_join_all("all", work).await?;
            Ok::<u32, outlast::Error>(results.iter().sum())
        }
    };
    for view in [View::Invocation, View::Execution] {
        exporter.reset();
        let telemetry = Telemetry::new(provider.clone()).view(view);
        let config = Config::new().plugin(telemetry.plugin());
        let folder = tempfile::tempdir().unwrap();
        let app = App::new().register(Function::new("threads", handler.clone()).config(config));
        let home = app.open_at(folder.path()).await.unwrap();
        let execution = home.start("threads", &()).await.unwrap();
        assert_eq!(execution.result::<u32>().await.unwrap(), 40);
        home.shut_down().await;
        let spans = exporter.get_finished_spans().unwrap();
        assert_single(&spans);
        let find = |name: &str| {
            let found = spans.iter().find(|span| span.name == name);
            found.unwrap_or_else(|| panic!("no span {name}"))
        };
        for number in 0..40 {
            let above = |name: &str| find(name).parent_span_id;
            let id = |name: &str| find(name).span_context.span_id();
            let (block, step) = (format!("block {number}"), format!("step {number}"));
            assert_eq!(above(&step), id(&block), "{view:?}");
            let attempt = format!("{step} attempt 1");
            assert_eq!(above(&attempt), id(&step), "{view:?}");
            assert_eq!(above(&format!("in {step}")), id(&attempt), "{view:?}");
        }
        assert!(!Current::current().has_active_span());
    }
    assert_single(&other.spans());
}
