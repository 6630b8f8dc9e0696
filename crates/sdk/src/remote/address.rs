//! Where a server is, as a person writes it.

use crate::error::{Error, ErrorKind, Result};

/// The port of an endpoint that names none.
const PORT_DEFAULT: u16 = 80;

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    /// A name or an IP address, without brackets.
    pub(super) host: String,
    pub(super) port: u16,
    /// As it stands in the header `host`.
    pub(super) authority: String,
    /// What stands before every path; no slash at its end.
    pub(super) prefix: String,
}

impl Address {
    /// Reads `http://HOST[:PORT][/PREFIX]`.
    pub(super) fn parse(endpoint: &str) -> Result<Self> {
        let rest = match endpoint.split_once("://") {
            Some(("http", rest)) => rest,
            Some(("https", _)) => {
                return Err(wrong(
                    endpoint,
                    "this version speaks plain HTTP only; let a proxy beside it speak TLS",
                ));
            }
            Some(_) | None => return Err(wrong(endpoint, "it does not begin with http://")),
        };
        let (authority, prefix) = match rest.find('/') {
            Some(slash) => rest.split_at_checked(slash).unwrap_or((rest, "")),
            None => (rest, ""),
        };
        let (host, port) = host_and_port(authority)
            .ok_or_else(|| wrong(endpoint, "its host or port makes no sense"))?;
        let legal = |byte: u8| byte.is_ascii_graphic() && !b"?#@\"<>\\^`{|}".contains(&byte);
        if !rest.bytes().all(legal) {
            return Err(wrong(endpoint, "it has characters that no address has"));
        }
        Ok(Self {
            host: host.to_owned(),
            port,
            authority: authority.to_owned(),
            prefix: prefix.trim_end_matches('/').to_owned(),
        })
    }
}

fn host_and_port(authority: &str) -> Option<(&str, u16)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            let _: std::net::Ipv6Addr = host.parse().ok()?;
            (host, (!port.is_empty()).then(|| port.strip_prefix(':')))
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(Some(port))),
            None => (authority, None),
        },
    };
    let port = match port {
        None => PORT_DEFAULT,
        Some(port) => port?.parse().ok().filter(|port| *port > 0)?,
    };
    (!host.is_empty()).then_some((host, port))
}

fn wrong(endpoint: &str, why: &str) -> Error {
    let message = format!("'{endpoint}' is no endpoint of a server: {why}");
    Error::of_kind(ErrorKind::InvalidInput, None, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_a_host_with_or_without_port_and_prefix() {
        let check = |endpoint, host: &str, port, authority: &str, prefix: &str| {
            let address = Address::parse(endpoint).unwrap();
            assert_eq!((&*address.host, address.port), (host, port), "{endpoint}");
            assert_eq!((&*address.authority, &*address.prefix), (authority, prefix));
        };
        check(
            "http://localhost:4777",
            "localhost",
            4_777,
            "localhost:4777",
            "",
        );
        check("http://a.example/", "a.example", 80, "a.example", "");
        check(
            "http://10.0.0.1:80/x/y/",
            "10.0.0.1",
            80,
            "10.0.0.1:80",
            "/x/y",
        );
        check("http://[::1]:65535", "::1", 65_535, "[::1]:65535", "");
        check("http://[::1]", "::1", 80, "[::1]", "");
    }

    #[test]
    fn anything_else_is_refused_and_says_why() {
        for endpoint in [
            "",
            "localhost:4777",
            "ftp://host",
            "http://",
            "http://:80",
            "http://host:",
            "http://host:0",
            "http://host:65536",
            "http://host:port",
            "http://[::1",
            "http://[host]:1",
            "http://user@host",
            "http://host/a?b",
            "http://ho st",
        ] {
            let error = Address::parse(endpoint).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{endpoint}");
        }
        let error = Address::parse("https://host").unwrap_err();
        assert!(error.message().contains("plain HTTP"), "{error}");
    }
}
