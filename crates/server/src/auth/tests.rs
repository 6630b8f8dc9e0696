//! Every cell of role and operation; who is known by what they show.

use super::*;
use crate::{operation::OPERATIONS, sigv4::Signer};
use hyper::Request;

const NOW: Timestamp = Timestamp::from_millis(1_767_323_045_000);
const SECRET: &str = "0123456789abcdef";

struct Fixed;

impl Clock for Fixed {
    fn now(&self) -> Timestamp {
        NOW
    }
}

fn key(id: &str, role: Role, expires: Option<Timestamp>) -> KeyPair {
    KeyPair {
        id: id.into(),
        secret: Secret::new(SECRET),
        role,
        expires,
    }
}

fn access(callbacks: Callbacks) -> Access {
    let mut credentials = Credentials::default();
    for role in Role::ALL {
        credentials.add_key(key(role.name(), role, None));
        let token = Secret::new(format!("token-of-a-{role}"));
        credentials.add_token(&token, role);
    }
    let end = |ms| Some(Timestamp::from_millis(NOW.as_millis() + ms));
    credentials.add_key(key("ending", Role::Admin, end(1)));
    credentials.add_key(key("ended", Role::Admin, end(0)));
    Access::closed(credentials, callbacks, Arc::new(Fixed))
}

/// What each role may ask for: viewer, operator, worker, admin.
const TABLE: &str = "
    CheckpointDurableExecution            . . w a
    GetDurableExecutionState              . . w a
    GetDurableExecution                   v o . a
    GetDurableExecutionHistory            v o . a
    StopDurableExecution                  . o . a
    SendDurableExecutionCallbackSuccess   . o . a
    SendDurableExecutionCallbackFailure   . o . a
    SendDurableExecutionCallbackHeartbeat . o . a
    ListDurableExecutionsByFunction       v o . a
    Invoke                                . o . a
    CreateFunction                        . . . a
    ListFunctions                         v o . a
    GetFunction                           v o . a
    DeleteFunction                        . . . a
    GetFunctionConfiguration              v o w a
    UpdateFunctionConfiguration           . . . a
    UpdateFunctionCode                    . . . a
    PublishVersion                        . . . a
    ListVersionsByFunction                v o . a
    CreateAlias                           . . . a
    ListAliases                           v o . a
    GetAlias                              v o . a
    UpdateAlias                           . . . a
    DeleteAlias                           . . . a
    CheckpointMany                        . . w a
    Why                                   v o . a
    Resume                                . o . a
    Fail                                  . o . a
    Delete                                . o . a
    Changed                               . . w a
    End                                   v o . a
    Clock                                 v o . a
    Skip                                  . o . a
    Signal                                . o . a
    ReadLogs                              v o . a
    AddLogs                               . . w a
    RuntimeApi                            . . w a
    Health                                v o w a
    Metrics                               v o . a
";

#[test]
fn every_role_may_ask_for_what_the_table_says_and_nothing_else() {
    let access = access(Callbacks::Closed);
    let rows: Vec<Vec<&str>> = TABLE
        .lines()
        .map(|line| line.split_whitespace().collect())
        .filter(|row: &Vec<&str>| !row.is_empty())
        .collect();
    assert_eq!(rows.len(), OPERATIONS.len());
    for (row, (operation, name, _)) in rows.iter().zip(OPERATIONS) {
        assert_eq!(row[0], name);
        for (cell, role) in row[1..].iter().zip(Role::ALL) {
            let permitted = access.permit(Some(role), operation);
            assert_eq!(permitted.is_ok(), *cell != ".", "{role} {name}");
            if let Err(error) = permitted {
                assert_eq!((error.status, error.name), (403, "AccessDeniedException"));
            }
        }
        let nobody = access.permit(None, operation);
        assert_eq!(nobody.is_ok(), operation == Operation::Health, "{name}");
        if let Err(error) = nobody {
            assert_eq!(error.name, "MissingAuthenticationTokenException");
        }
    }
}

#[test]
fn open_callbacks_are_open_to_everybody_and_nothing_else_is() {
    let access = access(Callbacks::Open);
    for (operation, name, _) in OPERATIONS {
        let open = operation.is_callback() || operation == Operation::Health;
        assert_eq!(access.permit(None, operation).is_ok(), open, "{name}");
    }
}

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let pairs = pairs.iter().map(|(name, value)| {
        let name = hyper::header::HeaderName::from_static(name);
        (name, HeaderValue::from_str(value).unwrap())
    });
    let mut map = HeaderMap::new();
    for (name, value) in pairs {
        map.append(name, value);
    }
    map
}

/// The role that somebody shows, or the exception.
fn shown(authorization: &str) -> Result<Option<Role>, (u16, &'static str)> {
    let headers = headers(&[("authorization", authorization)]);
    match access(Callbacks::Closed).caller(Operation::Invoke, &headers) {
        Ok(Caller::Known(role)) => Ok(role),
        Ok(Caller::Signed(_, _, role)) => Ok(Some(role)),
        Err(error) => Err((error.status, error.name)),
    }
}

#[test]
fn a_bearer_is_known_by_a_token_or_by_a_key_pair() {
    for role in Role::ALL {
        assert_eq!(shown(&format!("Bearer token-of-a-{role}")), Ok(Some(role)));
        assert_eq!(shown(&format!("bearer {role}.{SECRET}")), Ok(Some(role)));
    }
    let unknown = Err((401, "UnrecognizedClientException"));
    for token in [
        "token-of-a-",
        "token-of-a-wizard",
        "admin",
        "admin.",
        "admin.0123456789abcdeF",
        "wizard.0123456789abcdef",
        "",
    ] {
        assert_eq!(shown(&format!("Bearer {token}")), unknown, "{token}");
    }
}

#[test]
fn a_key_ends_when_it_says() {
    assert_eq!(
        shown(&format!("Bearer ending.{SECRET}")),
        Ok(Some(Role::Admin))
    );
    let unknown = Err((401, "UnrecognizedClientException"));
    assert_eq!(shown(&format!("Bearer ended.{SECRET}")), unknown);
}

#[test]
fn anything_else_is_incomplete() {
    for text in ["Basic YTpi", "x", "AWS4-HMAC-SHA256 x"] {
        assert_eq!(
            shown(text),
            Err((403, "IncompleteSignatureException")),
            "{text}"
        );
    }
    let twice = headers(&[("authorization", "Bearer a"), ("authorization", "Bearer b")]);
    let refused = access(Callbacks::Closed).caller(Operation::Invoke, &twice);
    assert_eq!(refused.err().unwrap().name, "IncompleteSignatureException");
}

fn signed(id: &str, secret: &str) -> Parts {
    let request = Request::builder().uri("/2015-03-31/functions?MaxItems=5");
    let (mut parts, ()) = request.header("host", "h").body(()).unwrap().into_parts();
    let signer = Signer {
        key_id: id.to_owned(),
        secret: Secret::new(secret),
        session: None,
        region: "eu-west-1".to_owned(),
    };
    let message = Message {
        method: &parts.method.clone(),
        path: "/2015-03-31/functions",
        query: "MaxItems=5",
        body: b"body",
    };
    signer.sign(&message, &mut parts.headers, NOW).unwrap();
    parts
}

#[test]
fn whoever_signs_is_known_once_the_body_is_there() {
    let access = access(Callbacks::Closed);
    let judge = |parts: &Parts, body: &[u8]| {
        let caller = access.caller(Operation::Invoke, &parts.headers)?;
        caller.proven(parts, body)
    };
    let parts = signed("worker", SECRET);
    assert_eq!(judge(&parts, b"body"), Ok(Some(Role::Worker)));
    assert_eq!(
        judge(&parts, b"bodY").unwrap_err().name,
        "InvalidSignatureException"
    );
    let forged = signed("worker", "0123456789abcdeX");
    assert_eq!(
        judge(&forged, b"body").unwrap_err().name,
        "InvalidSignatureException"
    );
    let stranger = judge(&signed("wizard", SECRET), b"body").unwrap_err();
    assert_eq!(
        (stranger.status, stranger.name),
        (403, "UnrecognizedClientException")
    );
    access.replace(Credentials::default());
    assert_eq!(
        judge(&parts, b"body").unwrap_err().name,
        "UnrecognizedClientException"
    );
}

#[test]
fn where_everybody_is_let_in_pages_of_other_origins_are_not() {
    let judge = |pairs: &[(&'static str, &str)]| {
        Access::open()
            .caller(Operation::Invoke, &headers(pairs))
            .map(|_| ())
            .map_err(|error| error.name)
    };
    let denied = Err("AccessDeniedException");
    assert_eq!(judge(&[]), Ok(()));
    assert_eq!(judge(&[("host", "anything")]), Ok(()), "no browser");
    assert_eq!(
        judge(&[("authorization", "AWS4-HMAC-SHA256 nonsense")]),
        Ok(())
    );
    for host in [
        "localhost:4777",
        "127.0.0.1:4777",
        "[::1]:4777",
        "localhost",
    ] {
        let own = format!("http://{host}");
        assert_eq!(judge(&[("host", host), ("origin", &own)]), Ok(()), "{host}");
        assert_eq!(judge(&[("host", host), ("sec-fetch-site", "none")]), Ok(()));
        assert_eq!(
            judge(&[("host", host), ("origin", "http://evil.example")]),
            denied
        );
        assert_eq!(judge(&[("host", host), ("origin", "null")]), denied);
        assert_eq!(
            judge(&[("host", host), ("sec-fetch-site", "cross-site")]),
            denied
        );
    }
    // A name that a foreign name server points at this machine.
    let rebound = [
        ("host", "evil.example:4777"),
        ("origin", "http://evil.example:4777"),
    ];
    assert_eq!(judge(&rebound), denied);
    assert_eq!(
        judge(&[("host", "evil.example"), ("sec-fetch-site", "same-origin")]),
        denied
    );
}

#[test]
fn what_is_printed_never_has_a_secret() {
    let mut credentials = Credentials::default();
    credentials.add_key(key("k", Role::Admin, None));
    credentials.add_token(&Secret::new("token-of-an-admin"), Role::Admin);
    let shown = format!("{credentials:?} {:?}", access(Callbacks::Open));
    assert!(
        !shown.contains(SECRET) && !shown.contains("token-of"),
        "{shown}"
    );
}
