//! Where an endpoint is, as a person writes it. Pure.

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr},
    str::FromStr,
};

/// How AWS Lambda's names begin.
const AWS_SERVICE: &str = "lambda";

/// An address such as `https://host:port/base`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    encrypted: bool,
    host: String,
    port: u16,
    authority: String,
    base: String,
}

/// A text is not an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{text}' is no endpoint of a server: {why}; write it as http://HOST[:PORT] or https://HOST[:PORT]"
)]
pub struct InvalidEndpoint {
    text: String,
    why: &'static str,
}

impl Endpoint {
    /// AWS Lambda in a region.
    pub fn aws(region: &str) -> Self {
        let tail = if region.starts_with("cn-") { ".cn" } else { "" };
        let host = format!("{AWS_SERVICE}.{region}.amazonaws.com{tail}");
        Self {
            encrypted: true,
            authority: host.clone(),
            host,
            port: 443,
            base: String::new(),
        }
    }

    /// Whether connections are encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.encrypted
    }

    /// A name or an IP address, without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Host and port as they are written, and stand in the header `host`.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// What stands before every path, without a slash at its end.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Whether it is on this machine.
    pub fn is_loopback(&self) -> bool {
        let ip = self.host.parse::<IpAddr>();
        ip.map_or_else(
            |_| self.host.eq_ignore_ascii_case("localhost"),
            |ip| ip.to_canonical().is_loopback(),
        )
    }

    /// Whether it is AWS itself.
    pub fn is_aws(&self) -> bool {
        let host = self.host.to_ascii_lowercase();
        [".amazonaws.com", ".amazonaws.com.cn", ".api.aws"]
            .iter()
            .any(|tail| host.ends_with(tail))
    }

    /// The region in an AWS name: `lambda.REGION.amazonaws.com`, also with more words before it.
    pub fn region(&self) -> Option<&str> {
        if !self.is_aws() {
            return None;
        }
        let mut words = self.host.split('.');
        let service = |word: &str| {
            word.eq_ignore_ascii_case(AWS_SERVICE) || word.eq_ignore_ascii_case("lambda-fips")
        };
        words.find(|word| service(word))?;
        words.next().filter(|word| word.contains('-'))
    }
}

impl FromStr for Endpoint {
    type Err = InvalidEndpoint;

    fn from_str(text: &str) -> Result<Self, InvalidEndpoint> {
        let wrong = |why| InvalidEndpoint {
            text: text.to_owned(),
            why,
        };
        let (encrypted, port, rest) = match text.split_once("://") {
            Some(("http", rest)) => (false, 80, rest),
            Some(("https", rest)) => (true, 443, rest),
            Some(_) | None => return Err(wrong("it does not begin with http:// or https://")),
        };
        let (authority, base) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (host, port) = host_and_port(authority, port)
            .ok_or_else(|| wrong("its host or port makes no sense"))?;
        let legal = |byte: u8| byte.is_ascii_graphic() && !b"?#@\"<>\\^`{|}".contains(&byte);
        if !rest.bytes().all(legal) {
            return Err(wrong("it has characters that no address has"));
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

fn host_and_port(authority: &str, otherwise: u16) -> Option<(&str, u16)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            let _: Ipv6Addr = host.parse().ok()?;
            (host, (!port.is_empty()).then(|| port.strip_prefix(':')))
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(Some(port))),
            None => (authority, None),
        },
    };
    let port = match port {
        None => otherwise,
        Some(port) => port?.parse().ok().filter(|port| *port > 0)?,
    };
    (!host.is_empty()).then_some((host, port))
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.encrypted { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority, self.base)
    }
}

/// An endpoint as it is named: by its address, or as AWS in whatever region is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Here.
    At(Endpoint),
    /// AWS Lambda: `aws`.
    Aws,
}

impl FromStr for Place {
    type Err = InvalidEndpoint;

    fn from_str(text: &str) -> Result<Self, InvalidEndpoint> {
        match text {
            "aws" => Ok(Self::Aws),
            text => text.parse().map(Self::At),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_a_host_with_or_without_port_and_base() {
        for (text, encrypted, host, port, authority, base) in [
            (
                "http://localhost:4777",
                false,
                "localhost",
                4_777,
                "localhost:4777",
                "",
            ),
            ("http://a.example/", false, "a.example", 80, "a.example", ""),
            ("https://a.example", true, "a.example", 443, "a.example", ""),
            (
                "http://10.0.0.1:80/x/y/",
                false,
                "10.0.0.1",
                80,
                "10.0.0.1:80",
                "/x/y",
            ),
            (
                "https://[::1]:65535",
                true,
                "::1",
                65_535,
                "[::1]:65535",
                "",
            ),
            ("http://[::1]", false, "::1", 80, "[::1]", ""),
        ] {
            let read: Endpoint = text.parse().unwrap();
            assert_eq!(
                (
                    read.is_encrypted(),
                    read.host(),
                    read.port(),
                    read.authority(),
                    read.base()
                ),
                (encrypted, host, port, authority, base),
                "{text}"
            );
            assert_eq!(read.to_string(), text.trim_end_matches('/'));
        }
    }

    #[test]
    fn anything_else_is_refused_and_says_how_to_write_it() {
        for text in [
            "",
            "localhost:4777",
            "ftp://host",
            "http://",
            "https://:80",
            "http://host:",
            "http://host:0",
            "http://host:65536",
            "http://host:port",
            "http://[::1",
            "http://[::1]x",
            "http://[host]:1",
            "http://user@host",
            "http://host/a?b",
            "http://host/a#b",
            "http://ho st",
            "http://hö",
        ] {
            let error = text.parse::<Endpoint>().unwrap_err().to_string();
            assert!(error.contains("https://HOST"), "{error}");
        }
    }

    #[test]
    fn only_addresses_of_this_machine_are_loopback() {
        for (text, expected) in [
            ("http://localhost:1", true),
            ("http://LOCALHOST", true),
            ("http://127.0.0.1", true),
            ("http://127.255.0.3", true),
            ("http://[::1]", true),
            ("http://[::ffff:127.0.0.1]", true),
            ("http://localhost.example", false),
            ("http://127.0.0.1.example", false),
            ("http://0.0.0.0", false),
            ("http://10.0.0.1", false),
            ("http://[::2]", false),
        ] {
            let read: Endpoint = text.parse().unwrap();
            assert_eq!(read.is_loopback(), expected, "{text}");
        }
    }

    #[test]
    fn aws_is_known_by_its_names_and_they_tell_the_region() {
        for (text, is_aws, region) in [
            (
                "https://lambda.eu-west-1.amazonaws.com",
                true,
                Some("eu-west-1"),
            ),
            (
                "https://lambda-fips.us-east-2.amazonaws.com",
                true,
                Some("us-east-2"),
            ),
            (
                "https://vpce-1-a.lambda.us-east-1.vpce.amazonaws.com",
                true,
                Some("us-east-1"),
            ),
            ("https://lambda.us-east-1.api.aws", true, Some("us-east-1")),
            (
                "https://lambda.cn-north-1.amazonaws.com.cn",
                true,
                Some("cn-north-1"),
            ),
            ("https://x.amazonaws.com", true, None),
            (
                "https://lambda.eu-west-1.amazonaws.com.example",
                false,
                None,
            ),
            ("https://amazonaws.com.evil", false, None),
        ] {
            let read: Endpoint = text.parse().unwrap();
            assert_eq!((read.is_aws(), read.region()), (is_aws, region), "{text}");
        }
        for region in ["eu-west-1", "cn-north-1"] {
            let made = Endpoint::aws(region);
            assert_eq!(made.region(), Some(region));
            assert_eq!(made.to_string().parse(), Ok(made));
        }
    }
}
