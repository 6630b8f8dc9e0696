//! The HTTP client behind every command that talks to an endpoint, Outlast's or AWS's.
//!
//! It carries requests and says in one way what went wrong. Which requests there are is `service`'s;
//! it repeats none that may have arrived.

use crate::{arguments::client::Connection, problem::Problem};
use bytes::Bytes;
use hyper::{
    HeaderMap, Method, StatusCode,
    header::{CONTENT_TYPE, HeaderName, HeaderValue},
};
use outlast_http::{Failure, Http, Options, client::ANSWER_MAX};
use serde_json::Value;
use std::time::Duration;

/// How long an endpoint may take to answer unless a call says otherwise.
pub(crate) const PATIENCE: Duration = ANSWER_MAX;
const ERROR_TYPE: &str = "x-amzn-errortype";
const AGENT: &str = concat!("outlast/", env!("CARGO_PKG_VERSION"));

/// One call of an endpoint.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) method: Method,
    /// Path and query, encoded.
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// How long the answer may take; for ever if absent.
    pub(crate) patience: Option<Duration>,
}

impl Call {
    /// A call without a body.
    pub(crate) fn new(method: Method, path: impl Into<String>) -> Self {
        Self {
            method,
            path: path.into(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
            patience: Some(PATIENCE),
        }
    }

    /// With bytes as its body.
    pub(crate) fn with_body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// With JSON as its body.
    pub(crate) fn with_json(mut self, body: &Value) -> Self {
        self.headers
            .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self.with_body(body.to_string())
    }

    /// With a header.
    ///
    /// # Errors
    /// When no header can carry the value.
    pub(crate) fn with_header(mut self, name: &'static str, value: &str) -> Result<Self, Problem> {
        let Ok(value) = HeaderValue::from_str(value) else {
            return Err(Problem::usage(format!(
                "{value:?} cannot be sent as {name}: use printable ASCII only"
            )));
        };
        self.headers.insert(HeaderName::from_static(name), value);
        Ok(self)
    }
}

/// What an endpoint answered.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    /// A header's text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The body as JSON.
    ///
    /// # Errors
    /// When it is none: then the endpoint is not what it is taken for.
    pub(crate) fn json(&self) -> Result<Value, Problem> {
        serde_json::from_slice(&self.body).map_err(|error| {
            Problem::wrong(format!(
                "the endpoint's answer is not JSON ({error}): is it an Outlast or AWS Lambda endpoint?"
            ))
        })
    }
}

/// Calls an endpoint. Connections are kept for the next call.
#[derive(Debug)]
pub(crate) struct Client {
    http: Http,
}

impl Client {
    /// A client for the endpoint that arguments and environment name.
    ///
    /// # Errors
    /// When it cannot be asked like this.
    pub(crate) fn new(connection: &Connection) -> Result<Self, Problem> {
        Self::with(&connection.options()?)
    }

    /// A client with all that is settled.
    ///
    /// # Errors
    /// When the endpoint cannot be asked like this.
    pub(crate) fn with(options: &Options) -> Result<Self, Problem> {
        let options = Options {
            agent: Some(AGENT),
            ..options.clone()
        };
        let http = Http::new(&options).map_err(|error| Problem::usage(error.to_string()))?;
        Ok(Self { http })
    }

    /// Refuses what only a server of ours offers, where it cannot be.
    ///
    /// # Errors
    /// When the endpoint is AWS's.
    pub(crate) fn must_be_outlast(&self, what: &str) -> Result<(), Problem> {
        let endpoint = self.http.endpoint();
        if !endpoint.is_aws() {
            return Ok(());
        }
        Err(Problem::not_offered(format!(
            "AWS Lambda does not offer {what}, so {endpoint} cannot be asked for it: name an Outlast \
             server with --endpoint or OUTLAST_ENDPOINT"
        )))
    }

    /// Whether the endpoint is AWS's.
    pub(crate) fn is_aws(&self) -> bool {
        self.http.endpoint().is_aws()
    }

    /// Sends a call whose answer must be a success.
    ///
    /// # Errors
    /// When the endpoint cannot be reached, or refuses.
    pub(crate) async fn call(&self, call: Call) -> Result<Answer, Problem> {
        let answer = self.send(&call).await?;
        if answer.status.is_success() {
            return Ok(answer);
        }
        Err(self.refused(&answer))
    }

    /// Sends a call, whatever the answer.
    ///
    /// # Errors
    /// When the endpoint cannot be reached, or does not answer in time.
    pub(crate) async fn send(&self, call: &Call) -> Result<Answer, Problem> {
        let uri = self.http.uri(&call.path);
        let uri = uri.map_err(|error| Problem::usage(error.to_string()))?;
        let request = outlast_http::Call {
            method: call.method.clone(),
            uri,
            headers: call.headers.clone(),
            body: call.body.clone(),
            patience: call.patience.map(|all| all.saturating_sub(ANSWER_MAX)),
        };
        let reply = self.http.send(&request).await;
        let reply = reply.map_err(|failure| self.failed(failure))?;
        Ok(Answer {
            status: reply.status,
            headers: reply.headers,
            body: reply.body,
        })
    }

    fn failed(&self, failure: Failure) -> Problem {
        let endpoint = self.http.endpoint();
        Problem::unreachable(match failure {
            Failure::Impossible(message) => message,
            Failure::NotSent(message) if endpoint.is_loopback() => format!(
                "{message}; start a server with `outlast serve --dev`, or name another one with \
                 --endpoint or OUTLAST_ENDPOINT"
            ),
            Failure::NotSent(message) => format!(
                "{message}; is this the right one? Name another with --endpoint or OUTLAST_ENDPOINT"
            ),
            Failure::Broken(message) => format!("{endpoint} gave no answer: {message}"),
        })
    }

    /// What a refusal says.
    fn refused(&self, answer: &Answer) -> Problem {
        let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let text = |member: &str| body.get(member).and_then(Value::as_str);
        let exception = answer.header(ERROR_TYPE).or_else(|| text("__type"));
        // AWS appends an address to some names.
        let exception = exception.and_then(|name| name.split(':').next());
        let message = text("Message").or_else(|| text("message"));
        let message = message.map_or_else(
            || format!("{} answered {}", self.http.endpoint(), answer.status),
            str::to_owned,
        );
        let problem = Problem::refused(answer.status.as_u16(), exception, message);
        problem.about_the_caller(self.is_aws())
    }
}
