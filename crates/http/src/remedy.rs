//! What helps when an endpoint does not accept who is asking.

/// What to do about a refusal of this name; nothing if it is not about who asks.
pub fn remedy(exception: &str, is_aws: bool) -> Option<&'static str> {
    Some(match (exception, is_aws) {
        ("MissingAuthenticationTokenException", _) => {
            "give a token (--token, OUTLAST_TOKEN), or keys (AWS_ACCESS_KEY_ID and \
             AWS_SECRET_ACCESS_KEY, or AWS_PROFILE)"
        }
        ("UnrecognizedClientException", false) => {
            "it was never made there, was revoked, or has expired: on the server, `outlast keys ls` \
             shows the keys and `outlast keys create` makes one"
        }
        ("UnrecognizedClientException" | "ExpiredTokenException", _) => {
            "the keys are wrong or have expired: get new ones"
        }
        ("InvalidSignatureException" | "SignatureDoesNotMatch", _) => {
            "check AWS_SECRET_ACCESS_KEY, and this machine's clock"
        }
        ("AccessDeniedException", false) => "use a key or token whose role allows this",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::remedy;

    #[test]
    fn only_refusals_of_the_caller_have_a_remedy_here() {
        let unknown = "UnrecognizedClientException";
        assert!(remedy(unknown, false).unwrap().contains("outlast keys"));
        assert!(!remedy(unknown, true).unwrap().contains("outlast keys"));
        assert!(remedy("InvalidSignatureException", true).is_some());
        assert!(remedy("ResourceNotFoundException", false).is_none());
    }
}
