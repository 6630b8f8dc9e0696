//! The commands for people and scripts, against a real server with a real worker.

use crate::{
    outlast,
    stand::{Stand, same},
};
use serde_json::{Value, json};

#[test]
fn a_result_is_printed_and_a_failure_ends_with_1() {
    let stand = Stand::new();
    let echo = r#"{"do": "echo", "say": [1, "two"]}"#;
    assert_eq!(stand.good(&["invoke", "play", "-d", echo]), "[1,\"two\"]\n");

    let called = stand.outlast(&[
        "--json", "invoke", "play", "--wait", "--name", "one", "-d", echo,
    ]);
    assert_eq!(called.code, Some(0), "{called:?}");
    let json = called.json();
    assert_eq!(
        (&json["Status"], &json["Result"]),
        (&json!("SUCCEEDED"), &json!("[1,\"two\"]"))
    );
    let arn = json["DurableExecutionArn"].as_str().unwrap();
    // The same name and input is the same execution.
    let again = stand.good(&["invoke", "play", "--event", "--name", "one", "-d", echo]);
    assert_eq!(again.trim_end(), arn);
    let file = stand.folder.path().join("other.json");
    std::fs::write(&file, r#"{"do": "echo"}"#).unwrap();
    let file = format!("@{}", file.display());
    let other = stand.outlast(&["invoke", "play", "--event", "--name", "one", "-d", &file]);
    assert_eq!(other.code, Some(4), "{other:?}");
    assert!(
        other
            .stderr
            .contains("DurableExecutionAlreadyStartedException"),
        "{other:?}"
    );

    for wait in [&["--wait"][..], &[]] {
        let mut arguments = vec!["--json", "invoke", "play", "-d", "{}"];
        arguments.extend(wait);
        let failed = stand.outlast(&arguments);
        assert_eq!(failed.code, Some(1), "{failed:?}");
        assert_eq!(failed.json()["Status"], "FAILED");
        assert_eq!(
            failed.json()["Error"]["ErrorMessage"],
            "it was told nothing it knows"
        );
        assert!(
            failed.stderr.contains("it was told nothing it knows"),
            "{failed:?}"
        );
    }

    let slow = stand.outlast(&[
        "invoke",
        "play",
        "--wait",
        "--timeout",
        "1",
        "-d",
        r#"{"do": "wait"}"#,
    ]);
    assert_eq!((slow.code, slow.stdout.as_str()), (Some(1), ""));
    assert!(
        slow.stderr.contains("has not ended after 1 seconds"),
        "{slow:?}"
    );
}

#[test]
fn an_execution_can_be_watched_answered_and_understood() {
    let stand = Stand::new();
    let start = [
        "invoke",
        "play",
        "--event",
        "--name",
        "o-1",
        "-d",
        r#"{"do": "order"}"#,
    ];
    let arn = stand.good(&start);
    let arn = arn.trim_end();
    let shown = stand.until(&["show", "play/o-1"], "SUCCEEDED  2 attempts");
    assert!(shown.starts_with("play/o-1  RUNNING\n"), "{shown}");
    stand.until(&["why", "play/o-1"], "It waits for the callback");
    let shown: Value = serde_json::from_str(&stand.good(&["--json", "show", "play/o-1"])).unwrap();
    let operations = shown["Operations"].as_array().unwrap();
    let approve = operations
        .iter()
        .find(|one| one["Name"] == "approve")
        .unwrap();
    let inside = approve["Operations"].as_array().unwrap();
    let callback = inside
        .iter()
        .find_map(|one| one["CallbackId"].as_str())
        .unwrap();

    let kept = stand.outlast(&["callback", "heartbeat", callback]);
    assert_eq!(
        (kept.code, kept.stdout.as_str()),
        (Some(0), "kept alive\n"),
        "{kept:?}"
    );
    assert_eq!(
        stand.good(&["callback", "succeed", callback, "-d", "\"yes\""]),
        "answered\n"
    );
    let ended: Value = serde_json::from_str(&stand.good(&[
        "--json",
        "invoke",
        "play",
        "--wait",
        "--name",
        "o-1",
        "-d",
        r#"{"do": "order"}"#,
    ]))
    .unwrap();
    assert_eq!(ended["DurableExecutionArn"], arn);
    let twice = stand.outlast(&[
        "--json",
        "callback",
        "fail",
        callback,
        "--type",
        "Late",
        "--message",
        "m",
    ]);
    assert_eq!(twice.code, Some(4), "{twice:?}");
    assert_eq!(twice.json()["exception"], "CallbackTimeoutException");

    drawn(&stand, arn);
    told(&stand, arn);
}

/// The finished order as a tree.
fn drawn(stand: &Stand, arn: &str) {
    insta::assert_snapshot!(same(&stand.good(&["show", arn])), @r#"
    play/o-1  SUCCEEDED

    arn          arn:aws:lambda:us-east-1:000000000000:function:play:$LATEST/durable-execution/o-1/ID
    version      $LATEST
    started      TIME
    ended        TIME
    took         TOOK
    invocations  3
    input        {"do": "order"}
    result       {"approval":"yes","parcels":["lamp","rug"],"payment":"paid"}

    ├─ charge                Step             SUCCEEDED  2 attempts  TOOK
    ├─ pack                  Map              SUCCEEDED              TOOK
    │  ├─ map-item-0         MapIteration     SUCCEEDED              TOOK
    │  │  └─ wrap            Step             SUCCEEDED              TOOK
    │  └─ map-item-1         MapIteration     SUCCEEDED              TOOK
    │     └─ wrap            Step             SUCCEEDED              TOOK
    └─ approve               WaitForCallback  SUCCEEDED              TOOK
       ├─ approve-callback   Callback         SUCCEEDED              TOOK
       └─ approve-submitter  Step             SUCCEEDED              TOOK
    "#);
}

/// The finished order as a history and a sentence.
fn told(stand: &Stand, arn: &str) {
    insta::assert_snapshot!(same(&stand.good(&["history", "play/o-1"])), @r#"
     1 +S ExecutionStarted o-1 input={"do": "order"} timeout=600s
     2 +S StepStarted charge
     3 +S StepFailed charge attempt=1 next=1s error=Error: the bank is asleep
     4 +S InvocationCompleted
     5 +S StepStarted charge
     6 +S StepSucceeded charge attempt=2 result="paid"
     7 +S ContextStarted pack
     8 +S ContextStarted map-item-0
     9 +S StepStarted wrap
    10 +S StepSucceeded wrap attempt=1 result="lamp"
    11 +S ContextSucceeded map-item-0 result="lamp"
    12 +S ContextStarted map-item-1
    13 +S StepStarted wrap
    14 +S StepSucceeded wrap attempt=1 result="rug"
    15 +S ContextSucceeded map-item-1 result="rug"
    16 +S ContextSucceeded pack result=(141 bytes)
    17 +S ContextStarted approve
    18 +S CallbackStarted approve-callback
    19 +S StepStarted approve-submitter
    20 +S StepSucceeded approve-submitter attempt=1 result=null
    21 +S InvocationCompleted
    22 +S CallbackSucceeded approve-callback result="yes"
    23 +S ContextSucceeded approve result="yes"
    24 +S InvocationCompleted
    25 +S ExecutionSucceeded o-1 result={"approval":"yes","parcels":["lamp","rug"],"payment":"paid"}
    "#);
    let last = stand.good(&["history", "play/o-1", "--reverse", "--max", "1"]);
    assert!(
        last.contains("ExecutionSucceeded") && last.lines().count() == 1,
        "{last}"
    );
    assert_eq!(same(&stand.good(&["why", arn])), "It succeeded at TIME.\n");
    let events = stand.outlast(&["history", arn, "--json"]).json();
    assert_eq!(events["Events"][0]["EventType"], "ExecutionStarted");
}

#[test]
fn executions_are_listed_found_changed_and_deleted() {
    let stand = Stand::new();
    assert_eq!(stand.good(&["ls"]), "");
    for (name, what) in [("a", "echo"), ("b", "signal"), ("c", "wait")] {
        let input = format!(r#"{{"do": "{what}"}}"#);
        stand.good(&["invoke", "play", "--event", "--name", name, "-d", &input]);
    }
    stand.until(&["ls", "--status", "succeeded"], "\ta\t");
    insta::assert_snapshot!(same(&stand.good(&["ls"])), @"
    ID	RUNNING	play	c	TIME	TOOK
    ID	RUNNING	play	b	TIME	TOOK
    ID	SUCCEEDED	play	a	TIME	TOOK
    ");
    assert_eq!(
        stand.good(&["ls", "play", "--name", "b"]).lines().count(),
        1
    );
    assert_eq!(
        stand.good(&["ls", "--status", "failed", "--status", "stopped"]),
        ""
    );
    assert_eq!(stand.good(&["ls", "--after", "2100-01-01"]), "");
    assert_eq!(
        stand
            .good(&["ls", "--before", "2100-01-01", "--max", "2"])
            .lines()
            .count(),
        2
    );
    let oldest = stand.good(&["ls", "--reverse", "--max", "1"]);
    assert!(oldest.contains("\ta\t"), "{oldest}");

    let listed = stand.outlast(&["ls", "--name", "b", "--json"]).json();
    let arn = listed["DurableExecutions"][0]["DurableExecutionArn"]
        .as_str()
        .unwrap()
        .to_owned();
    let id = arn.rsplit('/').next().unwrap();
    stand.until(&["why", id], "the signal");
    assert!(
        stand
            .good(&["signal", id, "go", "-d", "7"])
            .starts_with("signalled ")
    );
    stand.until(&["show", id, "--json"], r#""Result":"7""#);

    let running = stand.outlast(&["delete", "play/c"]);
    assert_eq!(running.code, Some(4), "{running:?}");
    let held = stand.outlast(&["resume", "play/c"]);
    assert_eq!(held.code, Some(4), "{held:?}");
    let stopped = stand.good(&[
        "stop",
        "play/c",
        "--type",
        "Enough",
        "--message",
        "that was it",
    ]);
    assert!(stopped.starts_with("stopped arn:"), "{stopped}");
    assert_eq!(
        same(&stand.good(&["why", "play/c"])),
        "It was stopped at TIME with Enough: that was it.\n"
    );
    assert!(
        stand
            .good(&["delete", "play/c"])
            .starts_with("deleted arn:")
    );

    refused(&stand);
}

/// What cannot be done says so, with its exit code.
fn refused(stand: &Stand) {
    for (arguments, code, what) in [
        (&["show", "play/c"][..], 3, "has no execution named c"),
        (&["show", "nobody/c"], 3, "Function not found"),
        (&["why", "0000"], 3, "no execution has an id"),
        (&["show", "c"], 2, "FUNCTION/NAME"),
        (&["ls", "--after", "soon"], 2, "is no moment"),
        (&["ls", "nobody"], 3, "ResourceNotFoundException"),
        (&["invoke", "nobody"], 3, "Function not found"),
        (&["invoke", "play", "-d", "hello"], 2, "a text needs quotes"),
        (
            &["invoke", "play", "-d", "@missing.json"],
            2,
            "missing.json cannot be read",
        ),
        (&["invoke", "play", "--name", "not a name"], 4, "name"),
        (
            &["callback", "succeed", "nonsense"],
            4,
            "InvalidParameterValueException",
        ),
        (&["signal", "play/a", ""], 2, "needs a name"),
        (&["signal", "play/a", "go"], 4, ""),
    ] {
        let called = stand.outlast(arguments);
        assert_eq!(called.code, Some(code), "{arguments:?}: {called:?}");
        assert!(called.stderr.contains(what), "{arguments:?}: {called:?}");
        assert_eq!(called.stdout, "", "{arguments:?}");
    }
}

#[test]
fn functions_are_made_shown_changed_and_deleted() {
    let stand = Stand::without_worker();
    insta::assert_snapshot!(same(&stand.good(&["functions", "ls"])), @"
    plain	$LATEST		3 s	TIME
    play	$LATEST	600 s	60 s	TIME
    ");
    let file = stand.folder.path().join("mail.json");
    let file = file.to_str().unwrap();
    std::fs::write(
        file,
        r#"{"Timeout": 5, "DurableConfig": {"ExecutionTimeout": 60}}"#,
    )
    .unwrap();
    let nameless = stand.outlast(&["functions", "create", file]);
    assert_eq!(nameless.code, Some(2), "{nameless:?}");
    assert!(nameless.stderr.contains("give --name"), "{nameless:?}");
    let made = stand.good(&["functions", "create", file, "--name", "mail"]);
    assert!(made.trim_end().ends_with(":function:mail"), "{made}");
    let twice = stand.outlast(&["--json", "functions", "create", file, "--name", "mail"]);
    assert_eq!(twice.code, Some(4), "{twice:?}");
    assert_eq!(twice.json()["exception"], "ResourceConflictException");
    std::fs::write(file, r#"{"FunctionName": "mail", "Timeout": 6}"#).unwrap();
    stand.good(&["functions", "update", file]);
    let shown = stand.good(&["functions", "show", "mail"]);
    assert!(
        shown
            .lines()
            .any(|line| line.starts_with("Timeout") && line.ends_with(" 6")),
        "{shown}"
    );
    let json = stand
        .outlast(&["functions", "show", "mail", "--json"])
        .json();
    assert_eq!(
        (&json["FunctionName"], &json["Timeout"]),
        (&json!("mail"), &json!(6))
    );
    assert_eq!(
        stand.good(&["functions", "delete", "mail"]),
        "deleted mail\n"
    );
    assert_eq!(stand.outlast(&["functions", "show", "mail"]).code, Some(3));
    std::fs::write(file, "[]").unwrap();
    let wrong = stand.outlast(&["functions", "update", file]);
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
    assert!(wrong.stderr.contains("is not a JSON object"), "{wrong:?}");
    let plain = stand.outlast(&["functions", "ls", "--json"]).json();
    assert_eq!(plain["Functions"].as_array().unwrap().len(), 2);
}

#[test]
fn an_endpoint_out_of_reach_ends_with_5_and_says_what_helps() {
    // Nobody listens where somebody has just stopped to.
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", socket.local_addr().unwrap());
    drop(socket);
    for arguments in [
        &["ls"][..],
        &["invoke", "f"],
        &["show", "f/n"],
        &["history", "f/n"],
        &["why", "f/n"],
        &["logs", "f"],
        &["callback", "heartbeat", "x"],
        &["signal", "f/n", "s"],
        &["stop", "f/n"],
        &["resume", "f/n"],
        &["delete", "f/n"],
        &["functions", "ls"],
    ] {
        let mut arguments = arguments.to_vec();
        arguments.extend(["--json", "--endpoint", &endpoint]);
        let called = outlast(&arguments);
        assert_eq!(called.code, Some(5), "{arguments:?}: {called:?}");
        let error = called.json()["error"].as_str().unwrap().to_owned();
        assert!(
            error.contains(&endpoint) && error.contains("outlast serve --dev"),
            "{error}"
        );
    }
    let encrypted = outlast(&["ls", "--endpoint", "https://127.0.0.1:1"]);
    assert_eq!(encrypted.code, Some(5), "{encrypted:?}");
    let odd = outlast(&["ls", "--endpoint", "somewhere"]);
    assert_eq!(odd.code, Some(2));
    assert!(odd.stderr.contains("https://HOST[:PORT]"), "{odd:?}");
}

#[test]
fn every_shell_gets_completions() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let called = outlast(&["completions", shell]);
        assert_eq!((called.code, called.stderr.as_str()), (Some(0), ""));
        assert!(called.stdout.contains("functions") && called.stdout.contains("outlast"));
    }
    assert_eq!(outlast(&["completions", "tcsh"]).code, Some(2));
}
