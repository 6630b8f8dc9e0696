//! Where an endpoint is, read from its URL. Pure.

use std::{fmt, str::FromStr};

/// The endpoint of `outlast serve` unless told otherwise.
pub(crate) const DEFAULT: &str = "http://127.0.0.1:4777";

/// An address such as `https://host:port/base`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    encrypted: bool,
    host: String,
    port: u16,
    authority: String,
    base: String,
}

impl Endpoint {
    /// Whether connections are encrypted.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.encrypted
    }

    /// The host, without brackets.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Host and port as they are written.
    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }

    /// What stands before every path, without a slash at its end.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }
}

impl Default for Endpoint {
    fn default() -> Self {
        Self {
            encrypted: false,
            host: "127.0.0.1".to_owned(),
            port: 4_777,
            authority: "127.0.0.1:4777".to_owned(),
            base: String::new(),
        }
    }
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("write it as {DEFAULT} or https://HOST[:PORT][/BASE]");
        let (scheme, rest) = text.split_once("://").ok_or_else(wrong)?;
        let (encrypted, port) = match scheme {
            "http" => (false, 80),
            "https" => (true, 443),
            _ => return Err(wrong()),
        };
        let (authority, base) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (host, written) = match authority.strip_prefix('[') {
            Some(bracketed) => bracketed.split_once(']').ok_or_else(wrong)?,
            None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
        };
        let port = match written.strip_prefix(':') {
            Some(port) => port.parse().map_err(|_| wrong())?,
            None if written.is_empty() => port,
            None => return Err(wrong()),
        };
        let odd = |byte: u8| !byte.is_ascii_graphic() || b"@?#\\".contains(&byte);
        if host.is_empty() || text.bytes().any(odd) {
            return Err(wrong());
        }
        Ok(Self {
            encrypted,
            host: host.to_owned(),
            port,
            authority: authority.to_owned(),
            base: base.trim_end_matches('/').to_owned(),
        })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.encrypted { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority, self.base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_read_and_written() {
        let cases = [
            ("http://127.0.0.1:4777", ("127.0.0.1", 4_777, "")),
            ("http://localhost", ("localhost", 80, "")),
            (
                "https://lambda.eu-west-1.amazonaws.com",
                ("lambda.eu-west-1.amazonaws.com", 443, ""),
            ),
            ("http://[::1]:1", ("::1", 1, "")),
            ("http://h:65535/a/b", ("h", 65_535, "/a/b")),
        ];
        for (text, (host, port, base)) in cases {
            let endpoint: Endpoint = text.parse().unwrap();
            assert_eq!(
                (endpoint.host(), endpoint.port(), endpoint.base()),
                (host, port, base)
            );
            assert_eq!(endpoint.to_string(), text);
            assert_eq!(endpoint.is_encrypted(), text.starts_with("https"));
        }
        let slash: Endpoint = "http://h/".parse().unwrap();
        assert_eq!(slash.to_string(), "http://h");
        assert_eq!(DEFAULT.parse(), Ok(Endpoint::default()));
    }

    #[test]
    fn anything_else_is_refused_with_a_remedy() {
        for text in [
            "",
            "h",
            "h:1",
            "ftp://h",
            "http://",
            "http://:1",
            "http://h:65536",
            "http://h:-1",
            "http://h:x",
            "http://[::1",
            "http://[::1]x",
            "http://u@h",
            "http://h h",
            "http://h?a",
        ] {
            let refused = text.parse::<Endpoint>().unwrap_err();
            assert!(refused.contains("write it as"), "{text}: {refused}");
        }
    }
}
