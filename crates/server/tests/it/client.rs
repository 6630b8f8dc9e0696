//! A client in a few lines: one request per connection or many, whole answers.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{HeaderMap, Method, Request, StatusCode, client::conn::http1::SendRequest};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::net::SocketAddr;
use tokio::net::TcpStream;

/// A client of one server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client(pub(crate) SocketAddr);

/// An answer.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Client {
    pub(crate) async fn send(
        self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Reply {
        let mut line = self.line().await;
        line.send(method, path, headers, body).await
    }

    /// A connection that is kept.
    pub(crate) async fn line(self) -> Line {
        let stream = TcpStream::connect(self.0).await.unwrap();
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .unwrap();
        drop(tokio::runtime::Handle::current().spawn(connection));
        Line(sender)
    }

    pub(crate) async fn get(self, path: &str) -> Reply {
        self.send(Method::GET, path, &[], "").await
    }

    pub(crate) async fn post(self, path: &str, body: impl ToString) -> Reply {
        self.send(Method::POST, path, &[], body.to_string()).await
    }

    pub(crate) async fn put(self, path: &str, body: impl ToString) -> Reply {
        self.send(Method::PUT, path, &[], body.to_string()).await
    }

    pub(crate) async fn delete(self, path: &str) -> Reply {
        self.send(Method::DELETE, path, &[], "").await
    }
}

/// One connection, for one request after the other.
pub(crate) struct Line(SendRequest<Full<Bytes>>);

impl Line {
    pub(crate) async fn send(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Reply {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request
            .header("host", "outlast")
            .body(Full::new(body.into()));
        self.0.ready().await.unwrap();
        let response = self.0.send_request(request.unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        Reply {
            status: parts.status,
            headers: parts.headers,
            body: body.collect().await.unwrap().to_bytes(),
        }
    }
}

impl Line {
    /// Resolves when the server closes the connection.
    pub(crate) async fn closed(&mut self) {
        while !self.0.is_closed() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }
}

impl Reply {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// The body of an answer that must have this status.
    #[track_caller]
    pub(crate) fn ok(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        assert_eq!(self.header("x-amzn-errortype"), None);
        assert_eq!(self.header("x-amzn-requestid").unwrap().len(), 36);
        if self.body.is_empty() {
            Value::Null
        } else {
            self.json()
        }
    }

    /// The message of a refusal, which must be this one.
    #[track_caller]
    pub(crate) fn refused(&self, status: u16, name: &str) -> String {
        assert_eq!(self.status, status, "{}", self.text());
        assert_eq!(
            self.header("x-amzn-errortype"),
            Some(name),
            "{}",
            self.text()
        );
        assert_eq!(self.header("x-amzn-requestid").unwrap().len(), 36);
        let body = self.json();
        assert_eq!(body["Type"], if status < 500 { "User" } else { "Service" });
        let message = body.get("message").or(body.get("Message"));
        message.unwrap().as_str().unwrap().to_owned()
    }
}

/// Percent-encodes everything that clients encode in a path segment.
pub(crate) fn encode(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded += &format!("%{byte:02X}");
        }
    }
    encoded
}
