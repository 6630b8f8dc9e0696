//! Signatures of other signers are accepted, and nothing that was changed after signing.

use super::*;
use outlast_core::random::SplitMix64;

const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
const HISTORY: &str = "/2025-12-01/durable-executions/arn%3Aaws%3Alambda%3Aus-east-1%3A000000000000\
    %3Afunction%3Af%3A%24LATEST%2Fdurable-execution%2Fn%2F1/history";

/// 2026-01-02T03:04:05Z.
const AT: Timestamp = Timestamp::from_millis(1_767_323_045_000);

/// A request as it arrives.
#[derive(Clone, Debug, PartialEq)]
struct Sent {
    method: Method,
    path: String,
    query: String,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Sent {
    fn new(method: Method, path: &str, query: &str, headers: &[(&'static str, &str)]) -> Self {
        let mut map = HeaderMap::new();
        map.insert("host", HeaderValue::from_static("127.0.0.1:4777"));
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_str(value).unwrap());
        }
        Self {
            method,
            path: path.to_owned(),
            query: query.to_owned(),
            headers: map,
            body: Vec::new(),
        }
    }

    fn message(&self) -> Message<'_> {
        Message {
            method: &self.method,
            path: &self.path,
            query: &self.query,
            body: &self.body,
        }
    }

    fn signed(mut self, session: Option<&str>) -> Self {
        let mut headers = self.headers.clone();
        let signer = Signer {
            key_id: "AKIDEXAMPLE".to_owned(),
            secret: Secret::new(SECRET),
            session: session.map(Secret::new),
            region: "us-east-1".to_owned(),
        };
        signer.sign(&self.message(), &mut headers, AT).unwrap();
        self.headers = headers;
        self
    }

    fn authorization(&self) -> String {
        let value = self.headers.get("authorization");
        value
            .map_or("", |value| value.to_str().unwrap_or(""))
            .to_owned()
    }

    fn judge(&self, now: Timestamp) -> Result<(), Refused> {
        let authorization = self.authorization();
        let claim = Claim::parse(&authorization)?;
        if claim.key_id != "AKIDEXAMPLE" {
            return Err(Refused::Mismatch);
        }
        claim.check(&self.headers, now)?;
        claim.verify(&self.message(), &self.headers, &Secret::new(SECRET))
    }

    fn set(&mut self, name: &'static str, value: &str) {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(name, value);
        }
    }
}

fn later(seconds: i64) -> Timestamp {
    let ms = i64::try_from(AT.as_millis()).unwrap() + seconds * 1_000;
    Timestamp::from_millis(u64::try_from(ms).unwrap())
}

fn examples() -> Vec<Sent> {
    let get = Sent::new(
        Method::GET,
        HISTORY,
        "ReverseOrder=true&MaxItems=1000&Marker=a%2Bb%3D%3D",
        &[],
    );
    let mut start = Sent::new(
        Method::POST,
        "/2015-03-31/functions/f%3A%24LATEST/invocations",
        "",
        &[
            ("x-amz-invocation-type", "Event"),
            ("content-type", "application/json"),
        ],
    );
    start.body = br#"{"a":1}"#.to_vec();
    let list = Sent::new(
        Method::GET,
        "/2025-12-01/functions/f/durable-executions",
        "Statuses=RUNNING&Statuses=FAILED&StartedAfter=2026-01-01T00%3A00%3A00Z",
        &[],
    );
    let raw = Sent::new(
        Method::POST,
        "/2015-03-31/functions/f:$LATEST/invocations",
        "",
        &[],
    );
    vec![
        get.signed(None),
        start.signed(Some("tok/en==")),
        list.signed(None),
        raw.signed(None),
    ]
}

/// What botocore 1.44 computes for the same requests.
#[test]
fn our_signatures_are_those_of_botocore() {
    let theirs = [
        "f8dbd7af6c94322d40aee99253329ed4ef6f515071cca2a98d79d9c140d950c6",
        "67f9667903e24ff52169c4828674ba39b291adf4395af4c947a5ef4804831afb",
        "5c64cddc7a410ee3f0ef03ed0e93676f2b3dccfca3a7f8a5dfb088bdb7329dd0",
        "a2a0148c6eb8b091a9c012aa12ddc59626468a693c1fd6bc919d77b78a00137d",
    ];
    for (sent, signature) in examples().iter().zip(theirs) {
        let authorization = sent.authorization();
        assert!(authorization.ends_with(signature), "{authorization}");
        assert!(authorization.contains("Credential=AKIDEXAMPLE/20260102/us-east-1/lambda/"));
        assert_eq!(sent.judge(AT), Ok(()));
    }
}

/// The first example of the test suite that AWS publishes; its service is not ours.
#[test]
fn the_published_example_has_the_published_signature() {
    let mut headers = HeaderMap::new();
    headers.insert("host", HeaderValue::from_static("example.amazonaws.com"));
    headers.insert(DATE, HeaderValue::from_static("20150830T123600Z"));
    let message = Message {
        method: &Method::GET,
        path: "/",
        query: "",
        body: b"",
    };
    let hash = hex(&Sha256::digest(b""));
    let canonical = canonical(&message, &headers, "host;x-amz-date", &hash).unwrap();
    let scope = Scope {
        date: "20150830",
        region: "us-east-1",
        service: "service",
    };
    let signature = scope.signature(&Secret::new(SECRET), "20150830T123600Z", &canonical);
    assert_eq!(
        hex(&signature),
        "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"
    );
}

#[test]
fn clocks_may_differ_by_five_minutes_and_no_more() {
    let sent = &examples()[0];
    for (seconds, accepted) in [
        (-301, false),
        (-300, true),
        (-299, true),
        (0, true),
        (299, true),
        (300, true),
        (301, false),
    ] {
        let expected = if accepted {
            Ok(())
        } else {
            Err(Refused::Expired)
        };
        assert_eq!(sent.judge(later(seconds)), expected, "{seconds}");
    }
}

#[test]
fn what_matters_must_be_signed() {
    let refused = |sent: &Sent| matches!(sent.judge(AT), Err(Refused::Incomplete(_)));
    let sent = &examples()[1];
    for header in [
        "host",
        "x-amz-date",
        "x-amz-invocation-type",
        "x-amz-security-token",
    ] {
        let mut changed = sent.clone();
        let without = sent.authorization().replace(&format!("{header};"), "");
        let without = without.replace(&format!(";{header},"), ",");
        assert_ne!(without, sent.authorization());
        changed.set("authorization", &without);
        assert!(refused(&changed), "{header}");
        let mut changed = sent.clone();
        changed.headers.remove(header);
        assert!(changed.judge(AT).is_err(), "{header}");
    }
    let mut added = sent.clone();
    added.set("x-amz-tenant-id", "other");
    assert!(refused(&added));
    let mut harmless = sent.clone();
    harmless.set("x-amzn-trace-id", "Root=1");
    harmless.set("user-agent", "me");
    assert_eq!(harmless.judge(AT), Ok(()));
}

#[test]
fn the_body_is_the_one_whose_hash_is_given() {
    let sign = |hash: &str| {
        let mut sent = examples().remove(1);
        sent.set("x-amz-content-sha256", hash);
        sent.signed(None)
    };
    let right = hex(&Sha256::digest(br#"{"a":1}"#));
    assert_eq!(sign(&right).judge(AT), Ok(()));
    for wrong in ["UNSIGNED-PAYLOAD", &hex(&Sha256::digest(b"")), ""] {
        assert_eq!(sign(wrong).judge(AT), Err(Refused::Mismatch), "{wrong}");
    }
}

#[test]
fn a_header_that_is_no_signature_is_refused() {
    let good = examples()[0].authorization();
    assert!(Claim::parse(&good).is_ok());
    for bad in [
        "",
        "AWS4-HMAC-SHA256",
        "AWS4-HMAC-SHA256 ",
        "AWS4-HMAC-SHA512 x",
        &good.replace("AWS4-HMAC-SHA256 ", "AWS4-HMAC-SHA256"),
        &good.replace("/lambda/", "/s3/"),
        &good.replace("aws4_request", "aws5_request"),
        &good.replace("AKIDEXAMPLE", ""),
        &good.replace(", SignedHeaders", ", Other=1, SignedHeaders"),
        &format!("{good}, Signature=00"),
        &format!("{good}0"),
        &good[..good.len() - 1],
        &good[..good.len() - 80],
        &good.replace("Signature=f", "Signature=F"),
        &good.replace("Signature=f", "Signature=g"),
    ] {
        assert!(Claim::parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn a_signer_says_what_it_misses() {
    let mut sent = Sent::new(Method::GET, "/", "", &[]);
    sent.headers.clear();
    let signer = Signer {
        key_id: "k".to_owned(),
        secret: Secret::new("s"),
        session: None,
        region: "r".to_owned(),
    };
    let mut headers = HeaderMap::new();
    assert!(signer.sign(&sent.message(), &mut headers, AT).is_err());
    assert!(!format!("{signer:?}").contains("\"s\""));
}

/// A letter or digit other than this byte in either case: encodings tell cases apart nowhere.
fn other(byte: u8, random: &mut SplitMix64) -> u8 {
    let letters = b"abcdefghijklmnopqrstuvwxyz0123456789";
    loop {
        let index = usize::try_from(random.next_u64() % 36).unwrap();
        let letter = letters[index];
        if letter != byte.to_ascii_lowercase() {
            return letter;
        }
    }
}

/// Changes, inserts or removes one byte; never nothing.
fn change(bytes: &mut Vec<u8>, random: &mut SplitMix64) {
    let index = usize::try_from(random.next_u64()).unwrap() % bytes.len().max(1);
    match random.next_u64() % 3 {
        0 if !bytes.is_empty() => bytes[index] = other(bytes[index], random),
        1 if bytes.len() > 1 => drop(bytes.remove(index)),
        _ => bytes.insert(index, other(0, random)),
    }
}

fn changed(text: &str, random: &mut SplitMix64) -> String {
    let mut bytes = text.as_bytes().to_vec();
    change(&mut bytes, random);
    String::from_utf8(bytes).unwrap()
}

/// One change to a signed request, and what it was.
fn mutate(sent: &mut Sent, random: &mut SplitMix64) -> String {
    match random.next_u64() % 9 {
        0 => {
            let others = [Method::PUT, Method::DELETE, Method::HEAD, Method::PATCH];
            sent.method = others[usize::try_from(random.next_u64() % 4).unwrap()].clone();
        }
        1 => sent.path = changed(&sent.path, random),
        2 => sent.query = changed(&sent.query, random),
        3 => change(&mut sent.body, random),
        4 | 5 => {
            // A space behind a comma means nothing.
            let value = sent.authorization().replace(", ", ",");
            let value = changed(&value, random);
            sent.set("authorization", &value);
        }
        6 => {
            let names = [
                "host",
                "x-amz-date",
                "x-amz-invocation-type",
                "content-type",
            ];
            let name = names[usize::try_from(random.next_u64() % 4).unwrap()];
            let before = sent
                .headers
                .get(name)
                .map(|value| value.to_str().unwrap().to_owned());
            // A header that nobody signed is only meaningful when its name says so.
            let name = if before.is_none() { "host" } else { name };
            let before = sent.headers[name].to_str().unwrap().to_owned();
            sent.set(name, &changed(&before, random));
        }
        7 => {
            let value = HeaderValue::from_static("1");
            sent.headers.append("x-amz-tenant-id", value);
        }
        _ => {
            let names = ["host", "x-amz-date", "authorization"];
            let name = names[usize::try_from(random.next_u64() % 3).unwrap()];
            sent.headers.remove(name);
        }
    }
    format!("{sent:?}")
}

#[test]
fn ten_thousand_changes_to_signed_requests_are_refused() {
    let examples = examples();
    let mut random = SplitMix64::new(4);
    for number in 0..10_000 {
        let original = &examples[number % examples.len()];
        let mut sent = original.clone();
        let what = mutate(&mut sent, &mut random);
        assert_ne!(sent, *original);
        assert!(sent.judge(AT).is_err(), "change {number}: {what}");
    }
}

/// Whatever arrives, judging it neither panics nor accepts it.
#[test]
fn noise_is_refused() {
    let mut random = SplitMix64::new(5);
    let pieces = [
        "AWS4-HMAC-SHA256 ",
        "Credential=",
        "SignedHeaders=",
        "Signature=",
        "/",
        ",",
        ";",
        "=",
        "host",
        "x-amz-date",
        "lambda",
        "aws4_request",
        "%",
        "%2",
        "&",
        " ",
        "é",
        "\u{0}",
        "20260102",
        "0",
    ];
    let mut noise = |most: u64| -> String {
        let length = random.next_u64() % most;
        let piece = |_| pieces[usize::try_from(random.next_u64()).unwrap() % pieces.len()];
        (0..length).map(piece).collect()
    };
    let original = examples().remove(0);
    for _ in 0..50_000 {
        let mut sent = original.clone();
        sent.path = noise(20);
        sent.query = noise(20);
        let authorization = format!("AWS4-HMAC-SHA256 {}", noise(30));
        sent.set("authorization", &authorization);
        sent.set("x-amz-date", &noise(4));
        assert!(Claim::parse(&authorization).is_err());
        assert!(sent.judge(AT).is_err());
        let _ = canonical(&sent.message(), &sent.headers, &noise(10), "");
    }
}
