//! `outlast keys`, and a server that is configured to want them.

use crate::{
    outlast,
    serve::{request, start},
};
use std::path::Path;

const TOKEN: &str = "a-token-of-an-admin";

fn keys(folder: &Path, arguments: &[&str]) -> serde_json::Value {
    let data = folder.join("data");
    let data = ["--json", "keys", "--data", data.to_str().unwrap()];
    let called = outlast(&[&data, arguments].concat());
    assert_eq!(called.code, Some(0), "{called:?}");
    called.json()
}

/// The status of a list of functions, asked for with a bearer token.
fn asked(address: &str, token: &str) -> String {
    let head = "GET /2015-03-31/functions";
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let request = format!(
        "{head} HTTP/1.1\r\nhost: h\r\nconnection: close\r\nauthorization: Bearer {token}\r\n\r\n"
    );
    std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
    let mut answer = String::new();
    std::io::Read::read_to_string(&mut stream, &mut answer).unwrap();
    answer.get(9..12).unwrap().to_owned()
}

/// Asks until the status is this one: the server looks at its keys every second.
fn until(address: &str, token: &str, status: &str) {
    let most = std::time::Duration::from_secs(20);
    let pause = std::time::Duration::from_millis(50);
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    for _ in 0..most.as_millis() / pause.as_millis() {
        if asked(address, token) == status {
            return;
        }
        // Nobody sends: this only waits.
        let _ = receiver.recv_timeout(pause);
    }
    drop(sender);
    assert_eq!(asked(address, token), status);
}

#[test]
fn a_key_lets_its_owner_in_until_it_is_revoked_while_the_server_runs() {
    let folder = tempfile::tempdir().unwrap();
    let first = keys(
        folder.path(),
        &["create", "--role", "viewer", "--name", "ci"],
    );
    let token = first["bearer_token"].as_str().unwrap();
    let secret = first["secret_access_key"].as_str().unwrap();
    let flags = ["--listen", "127.0.0.1:0", "--data", "data"];
    let (_serving, address) = start(folder.path(), &flags, &[]);
    assert_eq!(asked(&address, token), "200");
    assert_eq!(asked(&address, "wrong"), "401");
    let bare = request(&address, "GET /2015-03-31/functions", "");
    assert!(bare.starts_with("HTTP/1.1 403"), "{bare}");
    let second = keys(folder.path(), &["create", "--role", "worker"]);
    until(&address, second["bearer_token"].as_str().unwrap(), "403");
    let listed = keys(folder.path(), &["ls"]);
    assert_eq!(listed["keys"].as_array().unwrap().len(), 2);
    assert_eq!(listed["keys"][0]["name"], "ci");
    assert!(!listed.to_string().contains(secret));
    let id = first["access_key_id"].as_str().unwrap();
    let next = keys(folder.path(), &["rotate", id]);
    assert_eq!(next["role"], "viewer");
    until(&address, next["bearer_token"].as_str().unwrap(), "200");
    assert_eq!(asked(&address, token), "200", "it goes on for a day");
    keys(folder.path(), &["revoke", id]);
    until(&address, token, "401");
}

#[test]
fn a_key_that_is_not_there_is_said_so() {
    let called = outlast(&["keys", "--data", "none", "ls"]);
    assert_eq!((called.code, called.stdout.trim()), (Some(0), ""));
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    for command in ["rotate", "revoke"] {
        let called = outlast(&["keys", "--data", data, command, "OLKX"]);
        assert_eq!(called.code, Some(1));
        assert!(called.stderr.contains("there is no key OLKX"), "{called:?}");
    }
}

#[test]
fn flags_count_more_than_the_environment_and_that_more_than_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let config = format!(
        "listen = \"127.0.0.1:1\"\nregion = \"from-file\"\naccount = \"111111111111\"\n\
         [[tokens]]\nrole = \"admin\"\ntoken = \"{TOKEN}\"\n"
    );
    std::fs::write(folder.path().join("outlast.toml"), config).unwrap();
    std::fs::write(folder.path().join("functions.json"), "{\"f\": {}}").unwrap();
    let flags = [
        "--config",
        "outlast.toml",
        "--listen",
        "127.0.0.1:0",
        "--data",
        "data",
        "--account",
        "333333333333",
    ];
    let environment = [
        ("OUTLAST_LISTEN", "127.0.0.1:2"),
        ("OUTLAST_ACCOUNT", "222222222222"),
        ("OUTLAST_REGION", "from-environment"),
        ("OUTLAST_FUNCTIONS", "functions.json"),
        ("OUTLAST_ADMIN_TOKEN", "a-token-of-the-environment"),
    ];
    let (_serving, address) = start(folder.path(), &flags, &environment);
    for token in [TOKEN, "a-token-of-the-environment"] {
        assert_eq!(asked(&address, token), "200");
    }
    let head =
        format!("GET /2015-03-31/functions/f HTTP/1.1\r\nauthorization: Bearer {TOKEN}\r\nx:");
    let shown = request(&address, &head, "");
    let arn = "arn:aws:lambda:from-environment:333333333333:function:f";
    assert!(shown.contains(arn), "{shown}");
}

#[test]
fn a_configuration_that_cannot_be_used_is_said_so() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("outlast.toml");
    let refused = |text: &str, more: &[&str]| {
        std::fs::write(&file, text).unwrap();
        let flags = ["serve", "--config", file.to_str().unwrap()];
        let called = outlast(&[&flags, more].concat());
        assert_eq!(called.code, Some(1), "{called:?}");
        called.stderr
    };
    for (text, expected) in [
        ("lisen = 1", "there is no setting lisen; is listen meant?"),
        ("listen = 1", "line 1"),
        (
            "[tls]\ncertificate = \"a\"\nkey = \"b\"",
            "serving needs keys",
        ),
    ] {
        let stderr = refused(text, &[]);
        assert!(stderr.contains(expected), "{stderr}");
    }
    let stderr = refused("", &["--dev", "--tls-key", "k"]);
    assert!(stderr.contains("--tls-certificate"), "{stderr}");
    let stderr = refused("", &["--dev", "--account", "1"]);
    assert!(stderr.contains("twelve digits"), "{stderr}");
    let missing = outlast(&["serve", "--config", "none.toml"]);
    assert!(
        missing.stderr.contains("none.toml cannot be read"),
        "{missing:?}"
    );
}
