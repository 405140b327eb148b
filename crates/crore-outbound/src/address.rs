//! What sort of address an address is: who may be called depends on it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::net::Net;

/// How an address may be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// By anybody.
    Public,
    /// While nobody from elsewhere can tell crore what to call, or if it is allowed.
    Loopback,
    /// If it is allowed; the words say what it is.
    Inside(&'static str),
    /// Not even then.
    Never(&'static str),
}

use Class::{Inside, Loopback, Never};

const LINK_LOCAL: Class = Never("a link-local address");
const METADATA: Class = Never("an address of a cloud's metadata");
const MULTICAST: Class = Never("a multicast address");
const NOBODY: Class = Never("the address of no host");
const PRIVATE: Class = Inside("a private address");
const RESERVED: Class = Inside("a reserved address");
const SAMPLE: Class = Inside("an address for documentation");

/// The first that holds the address says what it is.
#[rustfmt::skip]
const V4: &[([u8; 4], u8, Class)] = &[
    ([0, 0, 0, 0],         8,  NOBODY),
    ([10, 0, 0, 0],        8,  PRIVATE),
    ([100, 100, 100, 200], 32, METADATA),
    ([100, 64, 0, 0],      10, Inside("an address behind a carrier's translation")),
    ([127, 0, 0, 0],       8,  Loopback),
    ([169, 254, 0, 0],     16, LINK_LOCAL),
    ([168, 63, 129, 16],   32, METADATA),
    ([172, 16, 0, 0],      12, PRIVATE),
    ([192, 0, 0, 192],     32, METADATA),
    ([192, 0, 0, 0],       24, RESERVED),
    ([192, 0, 2, 0],       24, SAMPLE),
    ([192, 88, 99, 0],     24, RESERVED),
    ([192, 168, 0, 0],     16, PRIVATE),
    ([198, 18, 0, 0],      15, Inside("an address for benchmarks")),
    ([198, 51, 100, 0],    24, SAMPLE),
    ([203, 0, 113, 0],     24, SAMPLE),
    ([224, 0, 0, 0],       4,  MULTICAST),
    ([240, 0, 0, 0],       4,  NOBODY),
];

#[rustfmt::skip]
const V6: &[([u16; 8], u8, Class)] = &[
    ([0, 0, 0, 0, 0, 0, 0, 0],               128, NOBODY),
    ([0, 0, 0, 0, 0, 0, 0, 1],               128, Loopback),
    ([0, 0, 0, 0, 0, 0, 0, 0],               96,  NOBODY),
    ([0x64, 0xff9b, 1, 0, 0, 0, 0, 0],       48,  RESERVED),
    ([0x100, 0, 0, 0, 0, 0, 0, 0],           64,  RESERVED),
    ([0x2001, 0, 0, 0, 0, 0, 0, 0],          23,  RESERVED),
    ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0],      32,  SAMPLE),
    ([0x3fff, 0, 0, 0, 0, 0, 0, 0],          20,  SAMPLE),
    ([0x5f00, 0, 0, 0, 0, 0, 0, 0],          16,  RESERVED),
    ([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254],  128, METADATA),
    ([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254],   128, METADATA),
    ([0xfc00, 0, 0, 0, 0, 0, 0, 0],          7,   PRIVATE),
    ([0xfe80, 0, 0, 0, 0, 0, 0, 0],          10,  LINK_LOCAL),
    ([0xfec0, 0, 0, 0, 0, 0, 0, 0],          10,  PRIVATE),
    ([0xff00, 0, 0, 0, 0, 0, 0, 0],          8,   MULTICAST),
];

/// What sort of address this is. One that stands for another is what that one is.
pub(crate) fn class(ip: IpAddr) -> Class {
    match ip {
        IpAddr::V4(ip) => class_of_v4(ip),
        IpAddr::V6(ip) => class_of_v6(ip),
    }
}

fn class_of_v4(ip: Ipv4Addr) -> Class {
    let holds = |(net, bits, _): &&([u8; 4], u8, Class)| {
        Net::new(Ipv4Addr::from(*net).into(), *bits).holds(ip.into())
    };
    V4.iter().find(holds).map_or(Class::Public, |(.., class)| *class)
}

fn class_of_v6(ip: Ipv6Addr) -> Class {
    if let Some(v4) = ip.to_ipv4_mapped() {
        return class_of_v4(v4);
    }
    // A translator on the way would turn these into IPv4: they are no better than what they become.
    if let Some(v4) = translated(ip) {
        return match class_of_v4(v4) {
            Class::Public => Inside("an address that is translated on the way"),
            Loopback => Never("a loopback address in disguise"),
            inside => inside,
        };
    }
    let holds = |(net, bits, _): &&([u16; 8], u8, Class)| {
        Net::new(Ipv6Addr::from(*net).into(), *bits).holds(ip.into())
    };
    V6.iter().find(holds).map_or(Class::Public, |(.., class)| *class)
}

/// The IPv4 address inside one of NAT64 or 6to4.
const fn translated(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    let (high, low) = match ip.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => (high, low),
        _ => return None,
    };
    let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
    Some(Ipv4Addr::new(a, b, c, d))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Class {
        class(text.parse().expect("an address"))
    }

    #[test]
    fn public_addresses_are_public() {
        for public in ["1.1.1.1", "9.255.255.255", "11.0.0.0", "172.32.0.1", "2606:4700::1111"] {
            assert_eq!(of(public), Class::Public, "{public}");
        }
    }

    #[test]
    fn what_is_never_to_be_called_is_never_called_in_any_form() {
        for never in [
            "0.0.0.0",
            "169.254.169.254",
            "::ffff:169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "2002:a9fe:a9fe::1",
            "64:ff9b::7f00:1",
            "fe80::1",
            "fd00:ec2::254",
            "100.100.100.200",
            "168.63.129.16",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::169.254.169.254",
            "ff02::1",
        ] {
            assert!(matches!(of(never), Never(_)), "{never}: {:?}", of(never));
        }
    }

    #[test]
    fn what_is_inside_needs_to_be_allowed() {
        for inside in [
            "10.0.0.1",
            "100.64.0.1",
            "172.16.0.1",
            "192.0.0.1",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.0.1",
            "198.18.0.1",
            "198.51.100.1",
            "203.0.113.1",
            "::ffff:10.0.0.1",
            "64:ff9b::a00:1",
            "64:ff9b::101:101",
            "100::1",
            "2001::1",
            "2001:db8::1",
            "2002:101:101::1",
            "fc00::1",
        ] {
            assert!(matches!(of(inside), Inside(_)), "{inside}: {:?}", of(inside));
        }
    }

    #[test]
    fn loopback_is_loopback_in_both_families() {
        for loopback in ["127.0.0.1", "127.255.255.254", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(of(loopback), Loopback, "{loopback}");
        }
    }
}
