//! Carries what a program asks on its loopback port to the server: the Runtime API to the function's
//! path there, everything else as it is. The program's own signatures are left out; the client adds
//! who is asking.
//!
//! A request for work waits for as long as it takes, also while the server is away. Other requests
//! are answered as a busy service would.

use crate::{
    client::{Answer, Call, Client},
    problem::{Cause, Problem},
    service::encode,
};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode,
    body::Incoming,
    header::{HeaderName, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use serde_json::json;
use std::{convert::Infallible, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
    time::sleep,
};

/// Connections of one program at once; further ones wait to be accepted.
const CONNECTIONS_MAX: usize = 1_024;
/// Bytes of one request, at most: what the server takes.
const BODY_BYTES_MAX: usize = 8 * 1_048_576;
/// How long the server may take to answer anything but a request for work.
const PATIENCE: Duration = Duration::from_secs(90);
/// Pause before the server is tried again.
const PAUSE: Duration = Duration::from_millis(500);
/// How often an answer of the program is sent before it is given up.
const TRIES_MAX: u32 = 5;
/// The prefix of the Runtime API.
const RUNTIME: &str = "/2018-06-01/";
/// Under which id the program was announced.
const WORKER: HeaderName = HeaderName::from_static("outlast-worker");
/// How a stream that broke says so.
const ERROR_TYPE: HeaderName = HeaderName::from_static("lambda-runtime-function-error-type");
/// Headers that are about one connection, or about who signed.
const OWN_HEADERS: [&str; 12] = [
    "authorization",
    "connection",
    "content-length",
    "date",
    "expect",
    "host",
    "keep-alive",
    "te",
    "transfer-encoding",
    "x-amz-content-sha256",
    "x-amz-date",
    "x-amz-security-token",
];

/// The loopback side of one program.
#[derive(Clone, Debug)]
pub(super) struct Forwarder {
    client: Arc<Client>,
    /// What stands before the paths of the Runtime API on the server.
    prefix: Arc<str>,
    id: HeaderValue,
}

impl Forwarder {
    /// Forwards for the program that was announced under `id`.
    pub(super) fn new(client: Arc<Client>, function: &str, id: &str) -> Self {
        Self {
            client,
            prefix: format!("/functions/{}", encode(function)).into(),
            id: HeaderValue::from_str(id).unwrap_or(HeaderValue::from_static("")),
        }
    }

    /// Serves until dropped; dropping closes all connections.
    pub(super) async fn run(self, socket: TcpListener) -> Infallible {
        let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let mut connections = JoinSet::new();
        loop {
            while connections.try_join_next().is_some() {}
            // The semaphore is never closed.
            let permit = room.clone().acquire_owned().await.ok();
            match socket.accept().await {
                Ok((stream, _)) => {
                    let this = self.clone();
                    connections.spawn(async move {
                        this.serve(stream).await;
                        drop(permit);
                    });
                }
                // For want of descriptors mostly.
                Err(_) => sleep(PAUSE).await,
            }
        }
    }

    async fn serve(self, stream: TcpStream) {
        let _ = stream.set_nodelay(true);
        let answer = |request: Request<Incoming>| {
            let this = self.clone();
            async move { Ok::<_, Infallible>(this.answer(request).await) }
        };
        // No header timeout: a worker's connection is idle for as long as its handler runs.
        let served = http1::Builder::new()
            .title_case_headers(true)
            .serve_connection(TokioIo::new(stream), service_fn(answer));
        // The program closed its connection, or died.
        let _ = served.await;
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let call = match self.translate(request).await {
            Ok(call) => call,
            Err(response) => return response,
        };
        let is_runtime = call.path.starts_with(&*self.prefix);
        let tries_max = match (is_runtime, call.patience.is_none()) {
            (true, true) => u32::MAX,
            (true, false) => TRIES_MAX,
            (false, _) => 1,
        };
        let mut tries = 0;
        loop {
            tries += 1;
            match self.client.send(&call).await {
                // What was sent before may have arrived after all.
                Ok(answer) if tries > 1 && answer.status == StatusCode::BAD_REQUEST => {
                    return plain(StatusCode::ACCEPTED, &json!({"status": "OK"}));
                }
                // It is about to go, and will be back.
                Ok(answer) if is_away(answer.status) && tries < tries_max => sleep(PAUSE).await,
                Ok(answer) => return passed_on(answer),
                Err(problem) if problem.cause != Cause::Unreachable || tries >= tries_max => {
                    return unavailable(&problem);
                }
                Err(_) => sleep(PAUSE).await,
            }
        }
    }

    /// What to send to the server.
    async fn translate(&self, request: Request<Incoming>) -> Result<Call, Response<Full<Bytes>>> {
        let (mut parts, body) = request.into_parts();
        let body = Limited::new(body, BODY_BYTES_MAX).collect().await;
        let Ok(body) = body else {
            let message = format!("the request is broken, or longer than {BODY_BYTES_MAX} bytes");
            let body = json!({"errorType": "RequestEntityTooLarge", "errorMessage": message});
            return Err(plain(StatusCode::PAYLOAD_TOO_LARGE, &body));
        };
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let mut path = path.to_owned();
        let is_runtime = path.starts_with(RUNTIME);
        let is_next = parts.method == Method::GET && path.ends_with("/invocation/next");
        for name in OWN_HEADERS {
            parts.headers.remove(name);
        }
        let broken = body
            .trailers()
            .and_then(|trailers| trailers.get(ERROR_TYPE))
            .cloned();
        let mut body = body.to_bytes();
        if let (true, Some(kind)) = (is_runtime, broken) {
            // A stream that broke in its middle is no answer.
            path = path.replace("/response", "/error");
            let message = "the handler's stream broke off";
            let kind_text = kind.to_str().unwrap_or("Runtime.StreamError");
            body = json!({"errorType": kind_text, "errorMessage": message})
                .to_string()
                .into();
            parts.headers.insert(ERROR_TYPE, kind);
        }
        if is_runtime {
            path.insert_str(0, &self.prefix);
            parts.headers.insert(WORKER, self.id.clone());
        }
        Ok(Call {
            method: parts.method,
            path,
            headers: parts.headers,
            body,
            // A request for work has no end.
            patience: (!is_next).then_some(PATIENCE),
        })
    }
}

/// Whether the server, or something before it, says that it cannot answer for now.
fn is_away(status: StatusCode) -> bool {
    [
        StatusCode::BAD_GATEWAY,
        StatusCode::SERVICE_UNAVAILABLE,
        StatusCode::GATEWAY_TIMEOUT,
    ]
    .contains(&status)
}

fn passed_on(answer: Answer) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(answer.body));
    *response.status_mut() = answer.status;
    let mut headers: HeaderMap = answer.headers;
    for name in OWN_HEADERS {
        headers.remove(name);
    }
    *response.headers_mut() = headers;
    response
}

/// The server is away: what a client takes for a reason to try again.
fn unavailable(problem: &Problem) -> Response<Full<Bytes>> {
    let message = problem.to_string();
    let body = json!({"Type": "Service", "Message": message, "errorType": "ServiceException", "errorMessage": message});
    let mut response = plain(StatusCode::SERVICE_UNAVAILABLE, &body);
    let kind = HeaderValue::from_static("ServiceException");
    response
        .headers_mut()
        .insert(HeaderName::from_static("x-amzn-errortype"), kind);
    response
}

fn plain(status: StatusCode, body: &serde_json::Value) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.to_string().into()));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response
        .headers_mut()
        .insert(hyper::header::CONTENT_TYPE, json);
    response
}
