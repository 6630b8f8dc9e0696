//! Routes as the clients write them.

use super::*;
use outlast_core::random::SplitMix64;

const ARN: &str = "arn:aws:lambda:us-east-1:000000000000:function:f:$LATEST/durable-execution/n/i";
const ENCODED: &str = "arn%3Aaws%3Alambda%3Aus-east-1%3A000000000000%3Afunction%3Af%3A%24LATEST\
                       %2Fdurable-execution%2Fn%2Fi";

#[track_caller]
fn check(method: Method, path: &str, expected: Result<Route<'_>, RouteError>) {
    assert_eq!(route(&method, path), expected, "{method} {path}");
}

#[test]
fn an_execution_is_found_by_its_arn_encoded_or_raw() {
    use ExecutionAction as Action;
    for arn in [ARN, ENCODED] {
        for (method, tail, action) in [
            (Method::POST, "/checkpoint", Action::Checkpoint),
            (Method::GET, "/state", Action::State),
            (Method::GET, "", Action::Get),
            (Method::GET, "/", Action::Get),
            (Method::GET, "/history", Action::History),
            (Method::POST, "/stop", Action::Stop),
        ] {
            let path = format!("/2025-12-01/durable-executions/{arn}{tail}");
            check(method, &path, Ok(Route::Execution(ARN.into(), action)));
        }
        for (method, tail) in [
            (Method::GET, "/checkpoint"),
            (Method::POST, ""),
            (Method::POST, "/history"),
            (Method::GET, "/other"),
            (Method::POST, "/stop/again"),
        ] {
            let path = format!("/2025-12-01/durable-executions/{arn}{tail}");
            check(method, &path, Err(RouteError::Unknown));
        }
    }
}

#[test]
fn an_execution_whose_id_is_an_action_word_is_still_an_execution() {
    let raw = "arn:aws:lambda:r:000000000000:function:f:1/durable-execution/state/stop";
    let path = format!("/2025-12-01/durable-executions/{raw}");
    let get = Route::Execution(raw.into(), ExecutionAction::Get);
    check(Method::GET, &path, Ok(get));
    let path = format!("/2025-12-01/durable-executions/{raw}/history");
    let history = Route::Execution(raw.into(), ExecutionAction::History);
    check(Method::GET, &path, Ok(history));
}

#[test]
fn callbacks_are_found_by_their_id_whatever_characters_it_has() {
    for (path, id) in [
        ("a1b2", "a1b2"),
        ("a%2Bb%2Fc%3D", "a+b/c="),
        ("a+b/c=", "a+b/c="),
    ] {
        for (word, action) in [
            ("succeed", CallbackAction::Succeed),
            ("fail", CallbackAction::Fail),
            ("heartbeat", CallbackAction::Heartbeat),
        ] {
            let path = format!("/2025-12-01/durable-execution-callbacks/{path}/{word}");
            check(Method::POST, &path, Ok(Route::Callback(id.into(), action)));
            check(Method::GET, &path, Err(RouteError::Unknown));
        }
    }
}

#[test]
fn functions_have_the_services_paths() {
    use FunctionAction as Action;
    let check_one = |method: Method, tail: &str, expected: Result<Route<'_>, RouteError>| {
        check(method, &format!("/2015-03-31/functions{tail}"), expected);
    };
    check_one(Method::POST, "", Ok(Route::CreateFunction));
    check_one(Method::GET, "/", Ok(Route::ListFunctions));
    check_one(Method::GET, "", Ok(Route::ListFunctions));
    check_one(
        Method::POST,
        "/f%3A1/invocations",
        Ok(Route::Invoke("f:1".into())),
    );
    for (method, tail, action) in [
        (Method::GET, "", Action::Get),
        (Method::DELETE, "", Action::Delete),
        (Method::GET, "/configuration", Action::GetConfiguration),
        (Method::PUT, "/configuration", Action::UpdateConfiguration),
        (Method::PUT, "/code", Action::UpdateCode),
        (Method::POST, "/versions", Action::Publish),
        (Method::GET, "/versions", Action::ListVersions),
        (Method::POST, "/aliases", Action::CreateAlias),
        (Method::GET, "/aliases", Action::ListAliases),
    ] {
        let expected = Ok(Route::Function("f".into(), action));
        check_one(method, &format!("/f{tail}"), expected);
    }
    for (method, action) in [
        (Method::GET, AliasAction::Get),
        (Method::PUT, AliasAction::Update),
        (Method::DELETE, AliasAction::Delete),
    ] {
        let expected = Ok(Route::Alias("f".into(), "live".into(), action));
        check_one(method, "/f/aliases/live", expected);
    }
    for (method, tail) in [
        (Method::POST, "/f"),
        (Method::GET, "/f/invocations"),
        (Method::GET, "/f/concurrency"),
        (Method::POST, "/f/aliases/live"),
        (Method::GET, "/f/aliases/"),
        (Method::GET, "/f/aliases/a/b"),
        (Method::DELETE, "/"),
    ] {
        check_one(method, tail, Err(RouteError::Unknown));
    }
    let path = "/2025-12-01/functions/f/durable-executions";
    check(Method::GET, path, Ok(Route::Executions("f".into())));
    check(Method::POST, path, Err(RouteError::Unknown));
}

#[test]
fn our_own_operations_are_under_a_prefix_of_their_own() {
    for arn in [ARN, ENCODED] {
        for (method, tail, action) in [
            (Method::GET, "/why", OwnAction::Why),
            (Method::POST, "/resume", OwnAction::Resume),
            (Method::POST, "/fail", OwnAction::Fail),
            (Method::DELETE, "", OwnAction::Delete),
            (Method::GET, "/changed", OwnAction::Changed),
            (Method::GET, "/end", OwnAction::End),
            (Method::GET, "/clock", OwnAction::Clock),
            (Method::POST, "/clock", OwnAction::Skip),
        ] {
            let path = format!("/outlast/v1/executions/{arn}{tail}");
            check(method, &path, Ok(Route::Own(ARN.into(), action)));
        }
        let path = format!("/outlast/v1/executions/{arn}/signals/go%20on");
        let signal = Route::Signal(ARN.into(), "go on".into());
        check(Method::POST, &path, Ok(signal));
        for tail in ["/signals", "/signals/", "/signals/a/b", "/other"] {
            let path = format!("/outlast/v1/executions/{arn}{tail}");
            check(Method::POST, &path, Err(RouteError::Unknown));
        }
    }
}

#[test]
fn what_functions_print_is_read_and_added_under_their_names() {
    let path = "/outlast/v1/functions/f%3A1/logs";
    check(
        Method::GET,
        path,
        Ok(Route::Logs("f:1".into(), LogAction::Read)),
    );
    check(
        Method::POST,
        path,
        Ok(Route::Logs("f:1".into(), LogAction::Add)),
    );
    check(Method::PUT, path, Err(RouteError::Unknown));
    for path in [
        "/outlast/v1/functions/logs",
        "/outlast/v1/functions//logs",
        "/outlast/v1/functions/f/logs/x",
        "/outlast/v1/functions/f/other",
    ] {
        check(Method::GET, path, Err(RouteError::Unknown));
    }
}

#[test]
fn runtimes_and_health_have_paths() {
    let next = "/functions/f%3A2/2018-06-01/runtime/invocation/next";
    check(Method::GET, next, Ok(Route::Runtime("f:2".into())));
    for path in [
        "/functions/f",
        "/functions/f/other",
        "/functions//2018-06-01/x",
    ] {
        check(Method::GET, path, Err(RouteError::Unknown));
    }
    check(Method::GET, "/health", Ok(Route::Health));
    check(Method::POST, "/health", Err(RouteError::Unknown));
}

#[test]
fn other_paths_are_unknown_and_broken_escapes_are_malformed() {
    for path in [
        "",
        "/",
        "x",
        "*",
        "//",
        "/2025-12-01",
        "/2025-12-01/",
        "/2025-12-01/durable-executions",
        "/2025-12-01/durable-executions/",
        "/2015-03-31",
        "/2015-03-31/function",
        "/outlast/v1",
        "/outlast/v1/executions/",
        "/2025-12-01/functions/f",
    ] {
        check(Method::GET, path, Err(RouteError::Unknown));
    }
    for name in ["%", "%2", "%zz", "%ff", "a%C3%28"] {
        let path = format!("/2015-03-31/functions/{name}");
        check(Method::GET, &path, Err(RouteError::Malformed));
    }
}

#[test]
fn a_query_gives_first_and_all_values_decoded() {
    let query = Query::new(Some("a=1&b=x%20y&a=2&c=&d&e=p+q%2B"));
    assert_eq!(query.get("a").unwrap().as_deref(), Some("1"));
    assert_eq!(query.all("a").unwrap(), ["1", "2"]);
    assert_eq!(query.get("b").unwrap().as_deref(), Some("x y"));
    assert_eq!(query.get("e").unwrap().as_deref(), Some("p+q+"));
    for absent in ["c", "d", "f", ""] {
        assert_eq!(query.get(absent).unwrap(), None, "{absent}");
    }
    assert_eq!(
        Query::new(Some("a=%f")).get("a"),
        Err(RouteError::Malformed)
    );
    assert_eq!(Query::new(None).get("a"), Ok(None));
}

/// The next of some characters that paths are made of, and of those that they are not.
fn character(random: &mut SplitMix64) -> char {
    let characters = b"/%:$ab2Fz0?&=+-_. \xff".map(char::from);
    let index = random.next_u64() % characters.len() as u64;
    characters[usize::try_from(index).unwrap()]
}

#[test]
fn no_path_or_query_makes_it_panic() {
    let prefixes = [
        "",
        "/2025-12-01/durable-executions/",
        "/2025-12-01/durable-execution-callbacks/",
        "/2025-12-01/functions/",
        "/2015-03-31/functions/",
        "/outlast/v1/executions/",
        "/functions/",
    ];
    let methods = [Method::GET, Method::POST, Method::PUT, Method::DELETE];
    for seed in 0..20_000 {
        let mut random = SplitMix64::new(seed);
        let length = random.next_u64() % 40;
        let tail: String = (0..length).map(|_| character(&mut random)).collect();
        for prefix in prefixes {
            let path = format!("{prefix}{tail}");
            for method in &methods {
                let _ = route(method, &path);
            }
        }
        let _ = Query::new(Some(&tail)).all("a");
    }
}

#[test]
fn whatever_is_encoded_is_decoded() {
    for seed in 0..5_000 {
        let mut random = SplitMix64::new(seed);
        let text: String = (0..20).map(|_| character(&mut random)).collect();
        let encoded: String = text.bytes().map(|byte| format!("%{byte:02x}")).collect();
        assert_eq!(decode(&encoded).unwrap(), text);
        let path = format!("/2015-03-31/functions/{encoded}");
        let expected = Route::Function(text.into(), FunctionAction::Get);
        check(Method::GET, &path, Ok(expected));
    }
}
