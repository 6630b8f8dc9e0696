//! Every setting is read, and nothing else.

use super::*;

const FULL: &str = r#"
listen = "0.0.0.0:4777"
data = "data"
functions = "functions.json"
region = "eu-west-1"
account = "123456789012"
callbacks = "open"
parity = "strict"

[[keys]]
id = "OLK1"
secret = "0123456789abcdef"
role = "worker"

[[tokens]]
token = "0123456789abcdeX"
role = "viewer"

[tls]
certificate = "cert.pem"
key = "key.pem"

[limits]
body_bytes_max = 1
bodies_bytes_max = 2
connections_max = 3
header_timeout_seconds = 4
body_timeout_seconds = 5
synchronous_seconds_max = 6
background_max = 7
grace_seconds = 0
invocations_max = 9

[push]
allow = ["10.0.0.0/8", "::1", "127.0.0.1", "worker.internal"]
sign = ["lambda.eu-west-1.amazonaws.com"]
ca = "ca.pem"
"#;

fn error(text: &str) -> String {
    Config::parse(text).unwrap_err().to_string()
}

#[test]
fn every_setting_is_read() {
    let config = Config::parse(FULL).unwrap();
    assert_eq!(config.listen, Some("0.0.0.0:4777".parse().unwrap()));
    assert_eq!(config.data, Some("data".into()));
    assert_eq!(config.functions, Some("functions.json".into()));
    assert_eq!(config.region.as_deref(), Some("eu-west-1"));
    assert_eq!(config.account.as_deref(), Some("123456789012"));
    assert_eq!(config.callbacks, Some(Callbacks::Open));
    assert_eq!(config.parity, Some(Parity::Strict));
    assert!(!config.credentials().is_empty());
    assert!(config.tls.is_some());
    let options = config.limits.options();
    assert_eq!((options.body_bytes_max, options.bodies_bytes_max), (1, 2));
    assert_eq!((options.connections_max, options.background_max), (3, 7));
    assert_eq!(options.header_timeout, Duration::from_secs(4));
    assert_eq!(options.body_timeout, Duration::from_secs(5));
    assert_eq!(options.synchronous_max, Duration::from_secs(6));
    assert_eq!(options.grace, Duration::ZERO);
    assert_eq!(config.limits.invocations_max, Some(9));
    let policy = config.policy(AddressPolicy::default()).unwrap();
    assert_eq!((policy.ranges.len(), policy.hosts.len()), (3, 1));
    assert_eq!(config.push.sign, ["lambda.eu-west-1.amazonaws.com"]);
    assert_eq!(config.push.ca, Some("ca.pem".into()));
}

#[test]
fn the_list_of_settings_is_complete() {
    let table: Table = FULL.parse().unwrap();
    for (name, keys) in KNOWN {
        for key in keys {
            let inner = match table.get(name) {
                None => &table,
                Some(Value::Array(entries)) => entries[0].as_table().unwrap(),
                Some(value) => value.as_table().unwrap(),
            };
            assert!(
                inner.contains_key(*key),
                "{name}.{key} is known and not tried"
            );
        }
    }
}

#[test]
fn an_empty_file_leaves_everything_open() {
    let config = Config::parse("").unwrap();
    assert!(config.listen.is_none() && config.tls.is_none());
    assert!(config.credentials().is_empty());
    let loopback = AddressPolicy::with_loopback();
    assert_eq!(config.policy(loopback.clone()).unwrap(), loopback);
    let (found, default) = (config.limits.options(), Options::default());
    assert_eq!(format!("{found:?}"), format!("{default:?}"));
}

#[test]
fn an_unknown_setting_is_named_with_the_nearest() {
    for (text, expected) in [
        ("lisen = 1", "there is no setting lisen; is listen meant?"),
        ("[tsl]\nkey = 1", "there is no setting tsl; is tls meant?"),
        (
            "[tls]\nkeys = 1",
            "there is no setting tls.keys; is tls.key meant?",
        ),
        (
            "[limits]\nconnection_max = 1",
            "there is no setting limits.connection_max; is limits.connections_max meant?",
        ),
        (
            "connections_max = 1",
            "there is no setting connections_max; is limits.connections_max meant?",
        ),
        (
            "[[keys]]\nscret = 1",
            "there is no setting keys.scret; is keys.secret meant?",
        ),
        ("zzz = 1", "there is no setting zzz"),
    ] {
        assert_eq!(error(text), expected);
    }
}

#[test]
fn a_value_that_cannot_be_used_is_named_with_its_line_and_never_shown() {
    assert_eq!(
        error("\n\nlisten = "),
        "line 3: string values must be quoted, expected literal string"
    );
    let wrong = error("[[keys]]\nid = \"a\"\nsecret = \"0123456789abcdef\"\nrole = \"wizard\"");
    assert!(wrong.starts_with("line 4: "), "{wrong}");
    let number = error("[[tokens]]\nrole = \"admin\"\ntoken = 1234567890123456");
    assert!(number.starts_with("line 3: "), "{number}");
    let broken = error("[[tokens]]\ntoken = \"0123456789abcdef");
    assert!(!broken.contains("0123456789abcdef"), "{broken}");
    for (text, expected) in [
        (
            "account = \"12345678901\"",
            "account: an account is twelve digits",
        ),
        (
            "account = \"12345678901x\"",
            "account: an account is twelve digits",
        ),
        (
            "region = \"eu west\"",
            "region: a region is letters, digits and -",
        ),
        (
            "[limits]\nbackground_max = 0",
            "limits.background_max: nothing would work with 0",
        ),
        (
            "[push]\nallow = [\"10.0.0.0/33\"]",
            "push.allow: 10.0.0.0/33 is not a range of addresses like 10.0.0.0/8",
        ),
        (
            "[[keys]]\nid = \"a/b\"\nsecret = \"0123456789abcdef\"\nrole = \"admin\"",
            "keys[0].id: an id is letters, digits, - and _",
        ),
    ] {
        assert_eq!(error(text), expected);
    }
}

#[test]
fn a_secret_has_a_least_length() {
    for (length, fits) in [(15, false), (16, true), (17, true)] {
        let secret = "x".repeat(length);
        for text in [
            format!("[[keys]]\nid = \"a\"\nrole = \"admin\"\nsecret = \"{secret}\""),
            format!("[[tokens]]\nrole = \"admin\"\ntoken = \"{secret}\""),
        ] {
            let read = Config::parse(&text);
            assert_eq!(read.is_ok(), fits, "{length}");
        }
    }
}

#[test]
fn what_is_printed_never_has_a_secret() {
    let shown = format!("{:?}", Config::parse(FULL).unwrap());
    assert!(!shown.contains("0123456789abcde"), "{shown}");
}
