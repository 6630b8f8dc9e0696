//! Which addresses a server may call on behalf of whoever configures functions.
//!
//! Without a policy, a function whose endpoint is `http://169.254.169.254` would make the server
//! fetch its machine's credentials. So only addresses of the public internet are called, unless the
//! operator names ranges or hosts.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

/// Which addresses may be called besides public ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressPolicy {
    /// Ranges that may be called.
    pub ranges: Vec<Range>,
    /// Hosts that may be called at whatever address they have, as written in the endpoint.
    pub hosts: Vec<String>,
}

impl AddressPolicy {
    /// Public addresses and this machine's own.
    pub fn with_loopback() -> Self {
        Self {
            ranges: vec![
                Range {
                    base: IpAddr::V4(Ipv4Addr::new(127, 0, 0, 0)),
                    bits: 8,
                },
                Range {
                    base: IpAddr::V6(Ipv6Addr::LOCALHOST),
                    bits: 128,
                },
            ],
            hosts: Vec::new(),
        }
    }

    /// Whether `host`, found at `ip`, may be called.
    pub fn allows(&self, host: &str, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        is_public(ip)
            || self.ranges.iter().any(|range| range.contains(ip))
            || self
                .hosts
                .iter()
                .any(|known| known.eq_ignore_ascii_case(host))
    }
}

/// A range of addresses: `10.0.0.0/8`, `fd00::/8`, or a single one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    base: IpAddr,
    bits: u8,
}

impl Range {
    /// Whether `ip` is in the range.
    pub fn contains(&self, ip: IpAddr) -> bool {
        match (self.base, ip.to_canonical()) {
            (IpAddr::V4(base), IpAddr::V4(ip)) => {
                let (base, ip) = (base.to_bits(), ip.to_bits());
                (base ^ ip).leading_zeros() >= u32::from(self.bits)
            }
            (IpAddr::V6(base), IpAddr::V6(ip)) => {
                let (base, ip) = (base.to_bits(), ip.to_bits());
                (base ^ ip).leading_zeros() >= u32::from(self.bits)
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

/// A text is not a range of addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not a range of addresses like 10.0.0.0/8")]
pub struct InvalidRange(String);

impl FromStr for Range {
    type Err = InvalidRange;

    fn from_str(text: &str) -> Result<Self, InvalidRange> {
        let invalid = || InvalidRange(text.to_owned());
        let (base, bits) = match text.split_once('/') {
            Some((base, bits)) => (base, Some(bits)),
            None => (text, None),
        };
        let base: IpAddr = base.parse().map_err(|_| invalid())?;
        let most = match base {
            IpAddr::V4(_) => 32,
            IpAddr::V6(_) => 128,
        };
        let bits = match bits {
            None => most,
            Some(bits) => bits.parse().map_err(|_| invalid())?,
        };
        match bits <= most {
            true => Ok(Self { base, bits }),
            false => Err(invalid()),
        }
    }
}

/// Whether an address belongs to the public internet. Addresses that carry an IPv4 address inside
/// are as public as that one.
fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    let reserved = matches!(
        (a, b, c),
        // This network, shared address space, protocol assignments, 6to4 relays, benchmarks.
        (0, _, _)
            | (100, 64..=127, _)
            | (192, 0, 0)
            | (192, 88, 99)
            | (198, 18..=19, _)
            | (240..=255, _, _)
    );
    !(reserved
        || ip.is_loopback()
        || ip.is_private()
        || ip.is_link_local()
        || ip.is_multicast()
        || ip.is_documentation())
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    let segments = ip.segments();
    let embedded = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match segments {
        // Mapped and compatible IPv4, with loopback and the unspecified address.
        [0, 0, 0, 0, 0, 0xffff, high, low] => embedded(high, low),
        // Translation to IPv4, and 6to4.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => embedded(high, low),
        // Teredo, benchmarks, ORCHID and documentation.
        [0x2001, 0..=0x1ff, ..] | [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => false,
        // All that is given out for the public internet begins with 001.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PUBLIC: &str = "\
        1.1.1.1 100.63.255.255 100.128.0.0 172.15.255.255 172.32.0.0 9.255.255.255 11.0.0.0 \
        126.255.255.255 128.0.0.0 169.253.255.255 169.255.0.0 192.167.255.255 192.169.0.0 \
        198.17.255.255 198.20.0.0 223.255.255.255 2606:4700::1111 2a00::1 64:ff9b::1.1.1.1 \
        2002:101:101::1 ::ffff:1.1.1.1 2001:200::1";
    const OTHERS: &str = "\
        0.0.0.0 0.1.2.3 10.0.0.0 10.255.255.255 100.64.0.0 100.127.255.255 127.0.0.1 \
        127.255.255.255 169.254.0.0 169.254.169.254 172.16.0.0 172.31.255.255 192.0.0.1 \
        192.0.2.1 192.88.99.1 192.168.0.0 192.168.255.255 198.18.0.0 198.19.255.255 \
        198.51.100.1 203.0.113.1 224.0.0.1 239.255.255.255 240.0.0.0 255.255.255.255 :: ::1 \
        ::ffff:127.0.0.1 ::ffff:169.254.169.254 ::127.0.0.1 64:ff9b::10.0.0.1 64:ff9b:1::1 \
        2002:a00:1::1 2001::1 2001:db8::1 3fff::1 fc00::1 fdff::1 fe80::1 fec0::1 ff02::1 \
        100::1 5f00::1";

    #[test]
    fn only_public_addresses_are_called_without_a_word_from_the_operator() {
        let allowed = |ip: &&str| AddressPolicy::default().allows("x", ip.parse().unwrap());
        let wrong: Vec<&str> = PUBLIC
            .split_whitespace()
            .filter(|ip| !allowed(ip))
            .collect();
        assert!(wrong.is_empty(), "refused: {wrong:?}");
        let wrong: Vec<&str> = OTHERS.split_whitespace().filter(allowed).collect();
        assert!(wrong.is_empty(), "allowed: {wrong:?}");
    }

    #[test]
    fn an_operators_range_begins_and_ends_where_it_says() {
        let policy = AddressPolicy {
            ranges: vec!["10.1.0.0/16".parse().unwrap(), "fd00::/8".parse().unwrap()],
            hosts: vec!["Worker.internal".to_owned()],
        };
        for (ip, allowed) in [
            ("10.0.255.255", false),
            ("10.1.0.0", true),
            ("10.1.255.255", true),
            ("::ffff:10.1.0.1", true),
            ("10.2.0.0", false),
            ("fcff::1", false),
            ("fd00::", true),
            ("fdff:ffff::1", true),
            ("fe00::", false),
        ] {
            assert_eq!(policy.allows("x", ip.parse().unwrap()), allowed, "{ip}");
        }
        let loopback: IpAddr = "127.0.0.1".parse().unwrap();
        assert!(policy.allows("worker.INTERNAL", loopback));
        assert!(!policy.allows("worker.internal.example", loopback));
        assert!(AddressPolicy::with_loopback().allows("x", loopback));
        assert!(!AddressPolicy::with_loopback().allows("x", "10.0.0.1".parse().unwrap()));
    }

    #[test]
    fn ranges_are_read_or_refused() {
        for text in [
            "0.0.0.0/0",
            "1.2.3.4",
            "1.2.3.4/32",
            "::/0",
            "::1",
            "::1/128",
        ] {
            assert!(text.parse::<Range>().is_ok(), "{text}");
        }
        for text in [
            "",
            "1.2.3/8",
            "1.2.3.4/33",
            "::1/129",
            "1.2.3.4/",
            "1.2.3.4/-1",
            "host/8",
        ] {
            assert!(text.parse::<Range>().is_err(), "{text}");
        }
        let all: Range = "0.0.0.0/0".parse().unwrap();
        assert!(all.contains("255.255.255.255".parse().unwrap()));
        assert!(!all.contains("::1".parse().unwrap()));
    }
}
