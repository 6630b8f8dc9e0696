//! What a request to the Runtime API asks for. Pure.

use hyper::{Method, StatusCode};

/// The only version of the Runtime API there is.
const VERSION: &str = "/2018-06-01/";

/// A call of the Runtime API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route<'a> {
    /// Wait for an invocation.
    Next,
    /// The handler's answer to the invocation with this id.
    Response(&'a str),
    /// The handler failed on the invocation with this id.
    Error(&'a str),
    /// The worker could not start.
    InitError,
    /// The worker asks when it has been restored from a snapshot.
    RestoreNext,
    /// The worker could not be restored.
    RestoreError,
    /// The worker announced under this id is alive.
    Alive(&'a str),
    /// The worker announced under this id has ended.
    Ended(&'a str),
}

/// Reads method and path. What stands before the version, the function on the main port, is not
/// looked at.
pub(crate) fn parse<'a>(method: &Method, path: &'a str) -> Result<Route<'a>, StatusCode> {
    let (_, rest) = path.split_once(VERSION).ok_or(StatusCode::NOT_FOUND)?;
    let parts: Vec<&str> = rest.split('/').collect();
    let (expected, route) = match parts.as_slice() {
        ["runtime", "invocation", "next"] => (Method::GET, Route::Next),
        ["runtime", "invocation", id, "response"] => (Method::POST, Route::Response(id)),
        ["runtime", "invocation", id, "error"] => (Method::POST, Route::Error(id)),
        ["runtime", "init", "error"] => (Method::POST, Route::InitError),
        ["runtime", "restore", "next"] => (Method::GET, Route::RestoreNext),
        ["runtime", "restore", "error"] => (Method::POST, Route::RestoreError),
        // Not of the service: for keepers of workers on other machines.
        ["worker", id] if *method == Method::DELETE => (Method::DELETE, Route::Ended(id)),
        ["worker", id] => (Method::GET, Route::Alive(id)),
        _ => return Err(StatusCode::NOT_FOUND),
    };
    match *method == expected {
        true => Ok(route),
        false => Err(StatusCode::METHOD_NOT_ALLOWED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_is_read_with_and_without_the_functions_path() {
        let cases = [
            ("GET", "runtime/invocation/next", Route::Next),
            (
                "POST",
                "runtime/invocation/i-1/response",
                Route::Response("i-1"),
            ),
            ("POST", "runtime/invocation/i-1/error", Route::Error("i-1")),
            ("POST", "runtime/init/error", Route::InitError),
            ("GET", "runtime/restore/next", Route::RestoreNext),
            ("POST", "runtime/restore/error", Route::RestoreError),
            ("GET", "worker/w-1", Route::Alive("w-1")),
            ("DELETE", "worker/w-1", Route::Ended("w-1")),
        ];
        for (method, path, route) in cases {
            let method: Method = method.parse().unwrap();
            for prefix in ["", "/functions/f", "/functions/f:1"] {
                let path = format!("{prefix}/2018-06-01/{path}");
                assert_eq!(parse(&method, &path), Ok(route), "{path}");
                let wrong = parse(&Method::PUT, &path);
                assert_eq!(wrong, Err(StatusCode::METHOD_NOT_ALLOWED));
            }
        }
    }

    #[test]
    fn anything_else_is_not_found() {
        for path in [
            "",
            "/",
            "/2018-06-01",
            "/2018-06-01/",
            "/2018-06-01/runtime/invocation",
            "/2018-06-01/runtime/invocation/next/",
            "/2018-06-01/runtime/invocation/a/b/response",
            "/2015-03-31/functions/f/invocations",
        ] {
            assert_eq!(
                parse(&Method::GET, path),
                Err(StatusCode::NOT_FOUND),
                "{path}"
            );
        }
    }
}
