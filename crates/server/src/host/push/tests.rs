//! Targets and answers without a network; the calls themselves are integration tests.

use super::*;

#[test]
fn an_endpoint_is_read_or_refused() {
    for (endpoint, host, port) in [
        ("http://127.0.0.1:3001", "127.0.0.1", 3001),
        ("http://worker.internal/", "worker.internal", 80),
        ("http://[::1]:8080", "::1", 8080),
        (
            "https://lambda.eu-west-1.amazonaws.com",
            "lambda.eu-west-1.amazonaws.com",
            443,
        ),
    ] {
        let target = Target::new(endpoint, "f").unwrap();
        assert_eq!((target.host(), target.port()), (host, port));
    }
    for endpoint in [
        "",
        "127.0.0.1:3001",
        "ftp://a",
        "http://",
        "http://a/path",
        "http://a/?q",
        "http://user@a",
        "http://a b",
    ] {
        assert!(Target::new(endpoint, "f").is_err(), "{endpoint}");
    }
}

#[test]
fn a_functions_name_stays_in_its_segment() {
    let path = |function| Target::new("http://a", function).unwrap().path;
    assert_eq!(path("f"), "/2015-03-31/functions/f/invocations");
    assert_eq!(
        path("f:$LATEST"),
        "/2015-03-31/functions/f%3A%24LATEST/invocations"
    );
    assert_eq!(
        path("../x?y#z"),
        "/2015-03-31/functions/..%2Fx%3Fy%23z/invocations"
    );
}

#[test]
fn a_refusal_says_whether_anything_ran() {
    let of = |status: u16, kind, body: &str| {
        let ending = refused(StatusCode::from_u16(status).unwrap(), kind, body.as_bytes());
        match ending {
            Ending::Missing(error) => format!("missing: {error}"),
            Ending::Failed(error) => format!("failed: {error}"),
            Ending::NotStarted(error) => format!("not started: {error}"),
            Ending::Answered(_) => "answered".to_owned(),
        }
    };
    assert_eq!(
        of(
            404,
            Some("ResourceNotFoundException:http://x"),
            r#"{"Message":"gone"}"#
        ),
        "missing: ResourceNotFoundException: gone"
    );
    assert_eq!(
        of(404, None, "404 page not found"),
        "not started: InvalidRequestContentException: the function's server answered 404 Not Found"
    );
    assert_eq!(
        of(404, Some("UnknownOperationException"), ""),
        "not started: UnknownOperationException: the function's server answered 404 Not Found"
    );
    assert_eq!(
        of(
            429,
            Some("TooManyRequestsException"),
            r#"{"message":"slow down"}"#
        ),
        "not started: TooManyRequestsException: slow down"
    );
    assert_eq!(
        of(502, None, "[]"),
        "failed: ServiceException: the function's server answered 502 Bad Gateway"
    );
    assert_eq!(
        of(302, None, ""),
        "not started: InvalidRequestContentException: the function's server answered 302 Found"
    );
}
