//! Spans over OTLP, configured by the environment; requests go through Outlast's own HTTP client.

use super::{Ids, TelemetryError, sampling::ByRoot};
use async_trait::async_trait;
use bytes::Bytes;
use hyper::{Request, Response, Uri};
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::trace::SdkTracerProvider;
use outlast_http::{Call, Endpoint, Http, Options, Reply};
use std::{
    fmt::Display,
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};
use tokio::{
    runtime::{Builder, Runtime},
    task::yield_now,
    time::timeout,
};

/// Where a collector listens unless one is named.
const ENDPOINT: &str = "http://localhost:4318";
/// How long it may take unless told otherwise.
const PATIENCE: Duration = Duration::from_secs(10);
/// What is spoken.
const PROTOCOL: &str = "http/protobuf";

/// A provider that exports to where the settings say; they are environment variables.
pub(super) fn provider(
    setting: impl Fn(&str) -> Option<String>,
) -> Result<SdkTracerProvider, TelemetryError> {
    let setting = |name: &str| setting(name).filter(|value| !value.is_empty());
    let builder = SdkTracerProvider::builder().with_id_generator(Ids::default());
    let is = |name, value: &str| setting(name).is_some_and(|set| set.eq_ignore_ascii_case(value));
    if is("OTEL_SDK_DISABLED", "true") || is("OTEL_TRACES_EXPORTER", "none") {
        return Ok(builder.build());
    }
    if let Some(other) = setting("OTEL_TRACES_EXPORTER").filter(|set| set != "otlp") {
        return Err(TelemetryError::Settings(format!(
            "OTEL_TRACES_EXPORTER is otlp or none, and not {other}"
        )));
    }
    let builder = builder.with_sampler(ByRoot::new(&setting)?);
    let target = Target::new(&setting)?;
    let exporter = SpanExporter::builder()
        .with_http()
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(&target.url)
        .with_http_client(target.client()?)
        .build();
    let exporter = exporter.map_err(|error| TelemetryError::Settings(error.to_string()))?;
    Ok(builder.with_batch_exporter(exporter).build())
}

/// A collector, and how it is asked.
#[derive(Debug)]
struct Target {
    url: String,
    certificates: Option<PathBuf>,
    patience: Duration,
}

impl Target {
    fn new(setting: &impl Fn(&str) -> Option<String>) -> Result<Self, TelemetryError> {
        // What is set for spans alone counts more.
        let of_spans = |name: &str| setting(&format!("OTEL_EXPORTER_OTLP_TRACES_{name}"));
        let of_all = |name: &str| setting(&format!("OTEL_EXPORTER_OTLP_{name}"));
        let either = |name: &str| of_spans(name).or_else(|| of_all(name));
        if let Some(other) = either("PROTOCOL").filter(|protocol| protocol != PROTOCOL) {
            return Err(TelemetryError::Settings(format!(
                "spans are not sent as {other}: set OTEL_EXPORTER_OTLP_PROTOCOL={PROTOCOL}, and the \
                 endpoint where the collector takes that, often port 4318"
            )));
        }
        // Only the endpoint of all signals is a base.
        let url = of_spans("ENDPOINT").unwrap_or_else(|| {
            let base = of_all("ENDPOINT").unwrap_or_else(|| ENDPOINT.to_owned());
            format!("{}/v1/traces", base.trim_end_matches('/'))
        });
        let patience = match either("TIMEOUT") {
            None => PATIENCE,
            Some(ms) => Duration::from_millis(ms.parse().map_err(|_| {
                let what = "OTEL_EXPORTER_OTLP_TIMEOUT is a number of milliseconds";
                TelemetryError::Settings(format!("{what}, and not {ms}"))
            })?),
        };
        Ok(Self {
            url,
            certificates: either("CERTIFICATE").map(PathBuf::from),
            patience,
        })
    }

    fn client(&self) -> Result<Client, TelemetryError> {
        let url = &self.url;
        let cannot = |why: &dyn Display| {
            TelemetryError::Settings(format!("the collector {url} cannot be asked: {why}"))
        };
        let endpoint: Endpoint = url.parse().map_err(|why| cannot(&why))?;
        let mut options = Options::new(endpoint);
        options.ca.clone_from(&self.certificates);
        options.agent = Some(concat!("outlast/", env!("CARGO_PKG_VERSION")));
        let http = Http::new(&options).map_err(|why| cannot(&why))?;
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|why| cannot(&why))?;
        Ok(Client {
            http,
            url: url.clone(),
            is_failing: AtomicBool::new(false),
            patience: self.patience,
            runtime: Own(Some(runtime)),
        })
    }
}

/// The exporter blocks a thread of its own, and this runs a runtime there: that of the program may be
/// gone, or wait for the last spans to be sent.
#[derive(Debug)]
struct Client {
    http: Http,
    url: String,
    /// Whether the last request failed: a collector that is away is told of once.
    is_failing: AtomicBool,
    /// How long a collector may take.
    patience: Duration,
    runtime: Own,
}

impl Client {
    /// Exporters say only that there was an error: here is which.
    fn tell(&self, sent: &Result<Reply, String>) {
        let why = match sent {
            Ok(reply) if reply.status.is_success() => None,
            Ok(reply) => Some(format!("it answers {}", reply.status)),
            Err(why) => Some(why.clone()),
        };
        let was_failing = self.is_failing.swap(why.is_some(), Ordering::Relaxed);
        let collector = &self.url;
        match why {
            Some(why) if !was_failing => {
                tracing::warn!(collector, why, "spans cannot be sent and may be lost");
            }
            None if was_failing => tracing::info!(collector, "spans are sent again"),
            Some(_) | None => {}
        }
    }
}

/// A runtime that may be dropped inside of another.
#[derive(Debug)]
struct Own(Option<Runtime>);

impl Drop for Own {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let mut call = Call::post(Uri::try_from(path)?, body);
        call.headers = parts.headers;
        let sending = async {
            // Nobody looked since the last batch: a connection that was closed is noticed first.
            yield_now().await;
            timeout(self.patience, self.http.send(&call)).await
        };
        let runtime = self.runtime.0.as_ref().ok_or("it was shut down")?;
        let late = |_| format!("no answer within {} ms", self.patience.as_millis());
        let sent = match runtime.block_on(sending).map_err(late) {
            Ok(sent) => sent.map_err(|failure| failure.to_string()),
            Err(late) => Err(late),
        };
        self.tell(&sent);
        let reply = sent?;
        let mut response = Response::new(reply.body);
        *response.status_mut() = reply.status;
        *response.headers_mut() = reply.headers;
        Ok(response)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;
    use opentelemetry::trace::{Span as _, Tracer as _, TracerProvider as _};
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use prost::Message as _;
    use std::collections::BTreeMap;
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    fn settings(set: &[(&str, &str)]) -> impl Fn(&str) -> Option<String> + use<> {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let set: BTreeMap<String, String> = set.iter().map(own).collect();
        move |name| set.get(name).cloned()
    }

    #[test]
    fn the_collector_is_where_the_variables_say() {
        let url = |set: &[_]| Target::new(&settings(set)).unwrap().url;
        let (all, spans) = (
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
        );
        assert_eq!(url(&[]), "http://localhost:4318/v1/traces");
        assert_eq!(url(&[(all, "http://one:1")]), "http://one:1/v1/traces");
        assert_eq!(url(&[(all, "http://one/a/")]), "http://one/a/v1/traces");
        let both = [(all, "http://one:1"), (spans, "https://two/traces")];
        assert_eq!(url(&both), "https://two/traces");
    }

    #[tokio::test]
    async fn settings_that_cannot_be_used_are_refused_with_a_remedy() {
        let refused = |name, value| {
            let error = provider(settings(&[(name, value)])).unwrap_err();
            error.to_string()
        };
        insta::assert_snapshot!(refused("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"), @"telemetry cannot begin: spans are not sent as grpc: set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf, and the endpoint where the collector takes that, often port 4318");
        insta::assert_snapshot!(refused("OTEL_TRACES_EXPORTER", "console"), @"telemetry cannot begin: OTEL_TRACES_EXPORTER is otlp or none, and not console");
        insta::assert_snapshot!(refused("OTEL_EXPORTER_OTLP_TIMEOUT", "1s"), @"telemetry cannot begin: OTEL_EXPORTER_OTLP_TIMEOUT is a number of milliseconds, and not 1s");
        insta::assert_snapshot!(refused("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318"), @"telemetry cannot begin: the collector collector:4318/v1/traces cannot be asked: 'collector:4318/v1/traces' is no endpoint of a server: it does not begin with http:// or https://; write it as http://HOST[:PORT] or https://HOST[:PORT]");
    }

    #[test]
    fn nothing_is_sent_when_nothing_shall_be() {
        provider(settings(&[("OTEL_TRACES_EXPORTER", "none")])).unwrap();
        provider(settings(&[("OTEL_SDK_DISABLED", "true")])).unwrap();
    }

    /// Answers one request, and says what it was: its head and its body.
    async fn collect(listener: TcpListener) -> (String, Vec<u8>) {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut got = Vec::new();
        loop {
            stream.read_buf(&mut got).await.unwrap();
            let Some(end) = got.windows(4).position(|bytes| bytes == b"\r\n\r\n") else {
                continue;
            };
            let head = String::from_utf8(got[..end].to_vec())
                .unwrap()
                .to_lowercase();
            let length = head.split("content-length: ").nth(1).unwrap();
            let length: usize = length.lines().next().unwrap().parse().unwrap();
            let body = &got[end + 4..];
            if body.len() == length {
                let answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
                stream.write_all(answer.as_bytes()).await.unwrap();
                return (head, body.to_vec());
            }
        }
    }

    #[tokio::test]
    async fn spans_arrive_at_a_collector() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}/base", listener.local_addr().unwrap());
        let provider = provider(settings(&[("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint)])).unwrap();
        provider.tracer("test").start("spanned").end();
        let telemetry = super::super::Telemetry::new(provider);
        let ((head, body), flushed) = tokio::join!(collect(listener), telemetry.flush());
        flushed.unwrap();
        assert!(head.starts_with("post /base/v1/traces http/1.1"), "{head}");
        assert!(
            head.contains("content-type: application/x-protobuf"),
            "{head}"
        );
        let sent = ExportTraceServiceRequest::decode(body.as_slice()).unwrap();
        let spans = &sent.resource_spans[0].scope_spans[0].spans;
        assert_eq!(spans[0].name, "spanned");
    }

    /// What is left at the end is sent while the provider is dropped, which blocks the only thread.
    #[tokio::test]
    async fn the_last_spans_are_sent_when_the_provider_is_dropped() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let collecting = std::thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                listener.set_nonblocking(true).unwrap();
                let listener = TcpListener::from_std(listener).unwrap();
                timeout(Duration::from_secs(60), collect(listener)).await
            })
        });
        let provider = provider(settings(&[("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint)])).unwrap();
        provider.tracer("test").start("last").end();
        drop(provider);
        let (_, body) = collecting.join().unwrap().unwrap();
        let sent = ExportTraceServiceRequest::decode(body.as_slice()).unwrap();
        let spans = &sent.resource_spans[0].scope_spans[0].spans;
        assert_eq!(spans[0].name, "last");
    }

    #[test]
    fn no_runtime_of_the_program_is_needed() {
        let provider = provider(settings(&[("OTEL_EXPORTER_OTLP_TIMEOUT", "1")])).unwrap();
        provider.tracer("test").start("lost").end();
        let telemetry = super::super::Telemetry::new(provider);
        let flushed = telemetry.flush().now_or_never();
        let error = flushed.unwrap().unwrap_err();
        assert!(
            error.to_string().starts_with("spans were not sent: "),
            "{error}"
        );
    }

    #[tokio::test]
    async fn a_collector_that_is_not_there_harms_nobody() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let provider = provider(settings(&[("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint)])).unwrap();
        provider.tracer("test").start("lost").end();
        super::super::Telemetry::new(provider)
            .flush()
            .await
            .unwrap_err();
    }
}
