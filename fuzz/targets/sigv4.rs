//! The header that signs a request: it can be read or is refused, and nobody without the secret gets
//! in with any.

#![no_main]

use hyper::{HeaderMap, Method, header::HeaderValue};
use outlast_core::time::Timestamp;
use outlast_http::{
    secret::Secret,
    sigv4::{Claim, Message},
};

libfuzzer_sys::fuzz_target!(|data: (&str, &str, &str)| {
    let (authorization, date, path) = data;
    let Ok(claim) = Claim::parse(authorization) else {
        return;
    };
    let mut headers = HeaderMap::new();
    headers.insert("host", HeaderValue::from_static("outlast"));
    if let Ok(date) = HeaderValue::from_str(date) {
        headers.insert("x-amz-date", date);
    }
    let _ = claim.check(&headers, Timestamp::from_millis(1_767_225_600_000));
    let message = Message {
        method: &Method::GET,
        path,
        query: "",
        body: b"",
    };
    let secret = Secret::new("a secret that no input knows");
    assert!(claim.verify(&message, &headers, &secret).is_err());
});
