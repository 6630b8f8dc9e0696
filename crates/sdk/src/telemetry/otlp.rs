//! Spans over OTLP, configured by the environment; requests go through Outlast's own HTTP client.

use super::{Ids, TelemetryError};
use async_trait::async_trait;
use bytes::Bytes;
use hyper::{Request, Response, Uri};
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::trace::SdkTracerProvider;
use outlast_http::{Call, Endpoint, Http, Options};
use std::{env, fmt::Display, path::PathBuf, sync::Arc, time::Duration};
use tokio::{runtime::Handle, time::timeout};

/// Where a collector listens unless one is named.
const ENDPOINT: &str = "http://localhost:4318";
/// How long it may take unless told otherwise.
const PATIENCE: Duration = Duration::from_secs(10);

/// A provider that exports to where the environment says.
pub(super) fn provider() -> Result<SdkTracerProvider, TelemetryError> {
    let builder = SdkTracerProvider::builder().with_id_generator(Ids::default());
    let is = |name, value: &str| setting(name).is_some_and(|set| set.eq_ignore_ascii_case(value));
    if is("OTEL_SDK_DISABLED", "true") || is("OTEL_TRACES_EXPORTER", "none") {
        return Ok(builder.build());
    }
    let fail = |error: &dyn ToString| TelemetryError(error.to_string());
    let exporter = SpanExporter::builder()
        .with_http()
        .with_protocol(Protocol::HttpBinary)
        .with_http_client(Client::new()?)
        .build()
        .map_err(|error| fail(&error))?;
    Ok(builder.with_batch_exporter(exporter).build())
}

/// A variable, unless it is empty.
fn setting(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// The exporter has a thread of its own and no runtime: requests run on the program's.
#[derive(Clone, Debug)]
struct Client {
    http: Arc<Http>,
    /// How long a collector may take.
    patience: Duration,
    runtime: Handle,
}

impl Client {
    fn new() -> Result<Self, TelemetryError> {
        let specific = |name: &str| {
            setting(&format!("OTEL_EXPORTER_OTLP_TRACES_{name}"))
                .or_else(|| setting(&format!("OTEL_EXPORTER_OTLP_{name}")))
        };
        let url = specific("ENDPOINT").unwrap_or_else(|| ENDPOINT.to_owned());
        let cannot = |why: &dyn Display| {
            TelemetryError(format!("the collector {url} cannot be asked: {why}"))
        };
        let endpoint: Endpoint = url.parse().map_err(|why| cannot(&why))?;
        let mut options = Options::new(endpoint);
        options.ca = specific("CERTIFICATE").map(PathBuf::from);
        options.agent = Some(concat!("outlast/", env!("CARGO_PKG_VERSION")));
        let http = Http::new(&options).map_err(|why| cannot(&why))?;
        let patience = match specific("TIMEOUT") {
            None => PATIENCE,
            Some(ms) => Duration::from_millis(ms.parse().map_err(|_| {
                TelemetryError(format!("a timeout of {ms} is no number of milliseconds"))
            })?),
        };
        let runtime = Handle::try_current().map_err(|_| {
            let why = "spans are sent from a tokio runtime: call this inside of one";
            TelemetryError(why.to_owned())
        })?;
        Ok(Self {
            http: Arc::new(http),
            patience,
            runtime,
        })
    }
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let mut call = Call::post(Uri::try_from(path)?, body);
        call.headers = parts.headers;
        let (http, patience) = (self.http.clone(), self.patience);
        let sending = async move { timeout(patience, http.send(&call)).await };
        let reply = self.runtime.spawn(sending).await???;
        let mut response = Response::new(reply.body);
        *response.status_mut() = reply.status;
        *response.headers_mut() = reply.headers;
        Ok(response)
    }
}
