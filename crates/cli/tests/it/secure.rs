//! Endpoints with TLS and keys: commands and workers over `https://`, by token and by signature, and
//! what is said when something about it is wrong.

use crate::{Called, handler, outlast, stand::Running};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use std::process::Command;

/// Variables that say who asks.
const WHO: [&str; 11] = [
    "OUTLAST_ENDPOINT",
    "OUTLAST_TOKEN",
    "OUTLAST_CA",
    "OUTLAST_ALLOW_PLAINTEXT",
    "AWS_ENDPOINT_URL_LAMBDA",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_PROFILE",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
];

/// A key pair of the server.
struct Key {
    id: String,
    secret: String,
}

impl Key {
    fn token(&self) -> String {
        format!("{}.{}", self.id, self.secret)
    }

    fn variables(&self) -> [(&str, &str); 2] {
        [
            ("AWS_ACCESS_KEY_ID", &self.id),
            ("AWS_SECRET_ACCESS_KEY", &self.secret),
        ]
    }
}

/// A server with a certificate for `localhost`, signed by an authority of its own.
struct Guarded {
    _server: Running,
    endpoint: String,
    folder: tempfile::TempDir,
}

impl Guarded {
    fn new() -> (Self, Key) {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: String| std::fs::write(folder.path().join(name), text);
        let mut authority = CertificateParams::new(Vec::new()).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let own = KeyPair::generate().unwrap();
        write("ca.pem", authority.self_signed(&own).unwrap().pem()).unwrap();
        let issuer = Issuer::new(authority, own);
        let key = KeyPair::generate().unwrap();
        let server = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let server = server.signed_by(&key, &issuer).unwrap();
        write("server.pem", server.pem()).unwrap();
        write("server.key", key.serialize_pem()).unwrap();
        let functions = r#"{"play": {"Timeout": 60, "DurableConfig": {"ExecutionTimeout": 600}}}"#;
        write("functions.json", functions.to_owned()).unwrap();
        let admin = create(folder.path(), "admin");
        let arguments = [
            "--json",
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--data",
            "data",
            "--functions",
            "functions.json",
            "--tls-certificate",
            "server.pem",
            "--tls-key",
            "server.key",
        ];
        let (server, report) = Running::start(folder.path(), &arguments);
        let endpoint = report["endpoint"].as_str().unwrap();
        let guarded = Self {
            _server: server,
            endpoint: endpoint.replace("127.0.0.1", "localhost"),
            folder,
        };
        (guarded, admin)
    }

    fn create(&self, role: &str) -> Key {
        create(self.folder.path(), role)
    }

    fn command(&self, variables: &[(&str, &str)]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_outlast"));
        command.current_dir(self.folder.path());
        for name in WHO {
            command.env_remove(name);
        }
        command.env("HOME", self.folder.path());
        command.env("OUTLAST_ENDPOINT", &self.endpoint);
        command.env("OUTLAST_CA", "ca.pem");
        command.envs(variables.iter().copied());
        command
    }

    fn call(&self, variables: &[(&str, &str)], arguments: &[&str]) -> Called {
        let output = self.command(variables).args(arguments).output().unwrap();
        Called::new(output)
    }

    /// Asks until the answer is as expected: a server notices new keys within seconds.
    #[track_caller]
    fn until(&self, variables: &[(&str, &str)], arguments: &[&str], expected: &str) -> Called {
        let mut called = self.call(variables, arguments);
        for _ in 0..1_000 {
            if called.stdout.contains(expected) || called.stderr.contains(expected) {
                return called;
            }
            called = self.call(variables, arguments);
        }
        panic!("{arguments:?} never says {expected}: {called:?}");
    }
}

fn create(folder: &std::path::Path, role: &str) -> Key {
    let made = Command::new(env!("CARGO_BIN_EXE_outlast"))
        .args(["--json", "keys", "create", "--role", role, "--data", "data"])
        .current_dir(folder)
        .output()
        .unwrap();
    let made: serde_json::Value = serde_json::from_slice(&made.stdout).unwrap();
    Key {
        id: made["access_key_id"].as_str().unwrap().to_owned(),
        secret: made["secret_access_key"].as_str().unwrap().to_owned(),
    }
}

#[track_caller]
fn says(called: &Called, code: i32, expected: &[&str]) {
    assert_eq!(called.code, Some(code), "{called:?}");
    for text in expected {
        assert!(called.stderr.contains(text), "{text}: {called:?}");
    }
}

#[test]
fn commands_are_let_in_by_token_by_keys_and_by_profile() {
    let (server, admin) = Guarded::new();
    let list = ["functions", "ls"];
    let token = admin.token();
    says(&server.call(&[("OUTLAST_TOKEN", &token)], &list), 0, &[]);
    says(&server.call(&admin.variables(), &list), 0, &[]);
    // A query, a body and headers that are signed.
    let start = [
        "invoke",
        "play",
        "--event",
        "--name",
        "a b",
        "-d",
        r#"{"do": "é"}"#,
    ];
    let refused = server.call(&admin.variables(), &start);
    assert_eq!(refused.code, Some(4), "{refused:?}");
    let start = [
        "invoke",
        "play",
        "--event",
        "--name",
        "a-b",
        "-d",
        r#"{"do": "é"}"#,
    ];
    says(&server.call(&admin.variables(), &start), 0, &[]);
    let filter = [
        "ls",
        "play",
        "--status",
        "running",
        "--name",
        "a-b",
        "--after",
        "2020-01-01T00:00:00Z",
    ];
    let listed = server.call(&admin.variables(), &filter);
    assert!(listed.stdout.contains("a-b"), "{listed:?}");
    std::fs::create_dir(server.folder.path().join(".aws")).unwrap();
    let file = format!(
        "[work]\naws_access_key_id = {}\naws_secret_access_key = {}\n",
        admin.id, admin.secret
    );
    std::fs::write(server.folder.path().join(".aws/credentials"), file).unwrap();
    says(&server.call(&[("AWS_PROFILE", "work")], &list), 0, &[]);
    // The token counts first, and keys before nobody.
    let both = [&admin.variables()[..], &[("OUTLAST_TOKEN", "wrong")]].concat();
    says(
        &server.call(&both, &list),
        4,
        &["UnrecognizedClientException"],
    );
    let nobody = server.call(&[], &list);
    says(&nobody, 4, &["OUTLAST_TOKEN", "AWS_ACCESS_KEY_ID"]);
}

#[test]
fn what_is_wrong_with_a_connection_or_a_key_is_said_with_what_helps() {
    let (server, admin) = Guarded::new();
    let list = ["functions", "ls"];
    let with = |more: &[(&'static str, &str)]| {
        let variables = [&admin.variables()[..], more].concat();
        server.call(&variables, &list)
    };
    says(&with(&[("OUTLAST_CA", "")]), 5, &["--ca", "OUTLAST_CA"]);
    let own = KeyPair::generate().unwrap();
    let other = CertificateParams::new(Vec::new()).unwrap();
    let other = other.self_signed(&own).unwrap().pem();
    std::fs::write(server.folder.path().join("other.pem"), other).unwrap();
    says(&with(&[("OUTLAST_CA", "other.pem")]), 5, &["--ca"]);
    says(
        &with(&[("OUTLAST_CA", "none.pem")]),
        2,
        &["none.pem", "OUTLAST_CA"],
    );
    let by_address = server.endpoint.replace("localhost", "127.0.0.1");
    let wrong_name = with(&[("OUTLAST_ENDPOINT", &by_address)]);
    says(&wrong_name, 5, &["not for 127.0.0.1", "localhost"]);
    let plain = server.endpoint.replace("https", "http");
    let plain = with(&[("OUTLAST_ENDPOINT", &plain)]);
    says(&plain, 5, &["is https:// meant?"]);

    let operator = server.create("operator");
    server.until(&operator.variables(), &list, "play");
    let rotate = [
        "keys",
        "rotate",
        &operator.id,
        "--keep-hours",
        "0",
        "--data",
        "data",
    ];
    says(&server.call(&[], &rotate), 0, &[]);
    let expired = server.until(&operator.variables(), &list, "has expired");
    says(&expired, 4, &["has expired", "outlast keys create"]);
    let token = operator.token();
    let expired = server.call(&[("OUTLAST_TOKEN", &token)], &list);
    says(&expired, 4, &["has expired", "outlast keys create"]);
    let wrong = [
        ("AWS_ACCESS_KEY_ID", &*admin.id),
        ("AWS_SECRET_ACCESS_KEY", "wrong"),
    ];
    let wrong = server.call(&wrong, &list);
    says(&wrong, 4, &["check AWS_SECRET_ACCESS_KEY"]);
    let half = server.call(&[("AWS_ACCESS_KEY_ID", "x")], &list);
    says(&half, 2, &["set both or neither"]);
}

#[test]
fn a_worker_carries_its_programs_requests_over_tls_as_itself() {
    let (server, admin) = Guarded::new();
    let worker = server.create("worker");
    let exe = std::env::current_exe().unwrap();
    let token = worker.token();
    // Who runs handlers may do nothing else.
    server.until(
        &worker.variables(),
        &["ls", "play"],
        "the role worker may not",
    );
    for (name, variables) in [
        ("by-token", vec![("OUTLAST_TOKEN", token.as_str())]),
        ("by-keys", worker.variables().to_vec()),
    ] {
        let mut command = server.command(&variables);
        command
            .args(["worker", "--server", &server.endpoint, "--function", "play"])
            .arg("--")
            .arg(&exe)
            .args(["--exact", handler::TEST, "--nocapture"])
            .env(handler::ROLE, "1");
        let running = Running(command.spawn().unwrap());
        let invoke = [
            "invoke",
            "play",
            "--wait",
            "--timeout",
            "100",
            "--name",
            name,
            "-d",
            r#"{"do": "echo"}"#,
        ];
        says(&server.call(&admin.variables(), &invoke), 0, &[]);
        let logs = server.call(&admin.variables(), &["logs", "play"]);
        assert!(logs.stdout.contains("the handler is ready"), "{logs:?}");
        drop(running);
    }
}

#[test]
fn a_token_is_not_sent_in_the_open() {
    let open = [
        "functions",
        "ls",
        "--token",
        "secret",
        "--endpoint",
        "http://192.0.2.1:1",
    ];
    says(
        &outlast(&open),
        2,
        &["https://", "OUTLAST_ALLOW_PLAINTEXT=1"],
    );
}

#[test]
fn aws_needs_a_region_and_keys_and_does_not_offer_what_only_outlast_has() {
    let folder = tempfile::tempdir().unwrap();
    let aws = |variables: &[(&str, &str)], arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_outlast"));
        for name in WHO {
            command.env_remove(name);
        }
        command
            .args(arguments)
            .env("HOME", folder.path())
            .env("OUTLAST_ENDPOINT", "aws")
            .envs(variables.iter().copied());
        Called::new(command.output().unwrap())
    };
    let keys = [("AWS_ACCESS_KEY_ID", "k"), ("AWS_SECRET_ACCESS_KEY", "s")];
    says(&aws(&keys, &["ls"]), 2, &["--region", "AWS_REGION"]);
    let region = [("AWS_REGION", "eu-west-1"), ("OUTLAST_TOKEN", "t")];
    says(
        &aws(&region, &["ls"]),
        2,
        &["AWS_ACCESS_KEY_ID", "AWS_PROFILE"],
    );
    for (arguments, what) in [
        (&["signal", "f/n", "s"][..], "signals"),
        (&["resume", "f/n"], "held executions"),
        (&["delete", "f/n"], "deleting executions"),
        (&["logs", "f"], "CloudWatch"),
    ] {
        let arguments = [arguments, &["--region", "eu-west-1"]].concat();
        let called = aws(&keys, &arguments);
        let endpoint = "https://lambda.eu-west-1.amazonaws.com";
        says(&called, 4, &["AWS Lambda does not offer", what, endpoint]);
    }
}
