//! Address ranges, and the entries of the allow list.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// An address range: all addresses with the same prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressRange {
    first: IpAddr,
    bits: u8,
}

impl AddressRange {
    /// The range of addresses that share the first `bits` bits with `first`.
    pub const fn new(first: IpAddr, bits: u8) -> Self {
        Self { first, bits }
    }

    /// Whether the range contains an address.
    pub fn contains(&self, ip: IpAddr) -> bool {
        match (self.first, ip) {
            (IpAddr::V4(first), IpAddr::V4(ip)) => {
                same_prefix(first.to_bits().into(), ip.to_bits().into(), 32, self.bits)
            }
            (IpAddr::V6(first), IpAddr::V6(ip)) => {
                same_prefix(first.to_bits(), ip.to_bits(), 128, self.bits)
            }
            _ => false,
        }
    }
}

/// Whether two numbers of `width` bits share their first `bits` bits.
const fn same_prefix(a: u128, b: u128, width: u8, bits: u8) -> bool {
    let rest = width.saturating_sub(bits) as u32;
    match (a ^ b).checked_shr(rest) {
        Some(different) => different == 0,
        None => true,
    }
}

/// An entry of the allow list: a range (`10.1.0.0/16`), an address, or a host name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllowEntry {
    /// An address range.
    Net(AddressRange),
    /// A host name, in lower case.
    Host(String),
}

impl FromStr for AllowEntry {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (first, bits) = match text.split_once('/') {
            Some((first, bits)) => (first, Some(bits)),
            None => (text, None),
        };
        let max_bits = |ip: IpAddr| if ip.is_ipv4() { 32 } else { 128 };
        match (first.parse::<IpAddr>(), bits.map(str::parse::<u8>)) {
            (Ok(ip), None) => Ok(Self::Net(AddressRange::new(ip, max_bits(ip)))),
            (Ok(ip), Some(Ok(bits))) if bits <= max_bits(ip) => {
                Ok(Self::Net(AddressRange::new(ip, bits)))
            }
            (Err(_), None) if is_host(text) => Ok(Self::Host(text.to_ascii_lowercase())),
            _ => Err(format!("`{text}` is not a range, address or host such as `10.1.0.0/16`")),
        }
    }
}

/// Whether a text is a valid host name.
pub(crate) fn is_host(text: &str) -> bool {
    let part = |part: &str| {
        (1..=63).contains(&part.len())
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    text.len() <= 253 && text.strip_suffix('.').unwrap_or(text).split('.').all(part)
}

impl fmt::Display for AllowEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Net(AddressRange { first, bits }) => write!(f, "{first}/{bits}"),
            Self::Host(host) => f.write_str(host),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_contains_addresses_with_its_prefix() {
        let holds = |net: &str, ip: &str| match net.parse() {
            Ok(AllowEntry::Net(net)) => net.contains(ip.parse().expect("an address")),
            other => panic!("{net}: {other:?}"),
        };
        assert!(holds("10.1.0.0/16", "10.1.255.255") && !holds("10.1.0.0/16", "10.2.0.0"));
        assert!(holds("10.1.2.3", "10.1.2.3") && !holds("10.1.2.3", "10.1.2.2"));
        assert!(holds("0.0.0.0/0", "255.1.2.3") && !holds("0.0.0.0/0", "::1"));
        assert!(holds("fd00::/8", "fd12::1") && !holds("fd00::/8", "fc00::1"));
        assert!(holds("::/0", "ffff::") && !holds("::1/128", "::2"));
    }

    #[test]
    fn allow_entries_round_trip() {
        for text in ["10.1.0.0/16", "fd00::/8", "build.lan", "localhost"] {
            assert_eq!(
                text.parse::<AllowEntry>().map(|allow| allow.to_string()),
                Ok(text.to_owned())
            );
        }
        assert_eq!("Build.LAN".parse(), Ok(AllowEntry::Host("build.lan".to_owned())));
        for bad in ["", "10.1.0.0/33", "10.1.0.0/x", "a b", "a/8", "http://a", "::/129", "a..b"] {
            assert!(bad.parse::<AllowEntry>().is_err(), "{bad}");
        }
    }
}
