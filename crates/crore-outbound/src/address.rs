//! Classifies IP addresses: which may be called, and which need permission.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::net::AddressRange;

/// Class of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AddressClass {
    /// May always be called.
    Public,
    /// May be called if allowed, or if the server listens on loopback only.
    Loopback,
    /// May be called if allowed; the text describes it.
    Internal(&'static str),
    /// Must never be called.
    Forbidden(&'static str),
}

use AddressClass::{Forbidden, Internal, Loopback};

const LINK_LOCAL: AddressClass = Forbidden("a link-local address");
const METADATA: AddressClass = Forbidden("a cloud metadata address");
const MULTICAST: AddressClass = Forbidden("a multicast address");
const UNSPECIFIED: AddressClass = Forbidden("not the address of a host");
const PRIVATE: AddressClass = Internal("a private address");
const RESERVED: AddressClass = Internal("a reserved address");
const DOCUMENTATION: AddressClass = Internal("a documentation address");

/// The first range that contains the address determines its class.
#[rustfmt::skip]
const V4: &[([u8; 4], u8, AddressClass)] = &[
    ([0, 0, 0, 0],         8,  UNSPECIFIED),
    ([10, 0, 0, 0],        8,  PRIVATE),
    ([100, 100, 100, 200], 32, METADATA),
    ([100, 64, 0, 0],      10, Internal("a carrier-grade NAT address")),
    ([127, 0, 0, 0],       8,  Loopback),
    ([169, 254, 0, 0],     16, LINK_LOCAL),
    ([168, 63, 129, 16],   32, METADATA),
    ([172, 16, 0, 0],      12, PRIVATE),
    ([192, 0, 0, 192],     32, METADATA),
    ([192, 0, 0, 0],       24, RESERVED),
    ([192, 0, 2, 0],       24, DOCUMENTATION),
    ([192, 88, 99, 0],     24, RESERVED),
    ([192, 168, 0, 0],     16, PRIVATE),
    ([198, 18, 0, 0],      15, Internal("a benchmarking address")),
    ([198, 51, 100, 0],    24, DOCUMENTATION),
    ([203, 0, 113, 0],     24, DOCUMENTATION),
    ([224, 0, 0, 0],       4,  MULTICAST),
    ([240, 0, 0, 0],       4,  UNSPECIFIED),
];

#[rustfmt::skip]
const V6: &[([u16; 8], u8, AddressClass)] = &[
    ([0, 0, 0, 0, 0, 0, 0, 0],               128, UNSPECIFIED),
    ([0, 0, 0, 0, 0, 0, 0, 1],               128, Loopback),
    ([0, 0, 0, 0, 0, 0, 0, 0],               96,  UNSPECIFIED),
    ([0x64, 0xff9b, 1, 0, 0, 0, 0, 0],       48,  RESERVED),
    ([0x100, 0, 0, 0, 0, 0, 0, 0],           64,  RESERVED),
    ([0x2001, 0, 0, 0, 0, 0, 0, 0],          23,  RESERVED),
    ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0],      32,  DOCUMENTATION),
    ([0x3fff, 0, 0, 0, 0, 0, 0, 0],          20,  DOCUMENTATION),
    ([0x5f00, 0, 0, 0, 0, 0, 0, 0],          16,  RESERVED),
    ([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254],  128, METADATA),
    ([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254],   128, METADATA),
    ([0xfc00, 0, 0, 0, 0, 0, 0, 0],          7,   PRIVATE),
    ([0xfe80, 0, 0, 0, 0, 0, 0, 0],          10,  LINK_LOCAL),
    ([0xfec0, 0, 0, 0, 0, 0, 0, 0],          10,  PRIVATE),
    ([0xff00, 0, 0, 0, 0, 0, 0, 0],          8,   MULTICAST),
];

/// The class of an address. An address that embeds an IPv4 address is classified by that.
pub(crate) fn class(ip: IpAddr) -> AddressClass {
    match ip {
        IpAddr::V4(ip) => class_of_v4(ip),
        IpAddr::V6(ip) => class_of_v6(ip),
    }
}

fn class_of_v4(ip: Ipv4Addr) -> AddressClass {
    let holds = |(net, bits, _): &&([u8; 4], u8, AddressClass)| {
        AddressRange::new(Ipv4Addr::from(*net).into(), *bits).contains(ip.into())
    };
    V4.iter().find(holds).map_or(AddressClass::Public, |(.., class)| *class)
}

fn class_of_v6(ip: Ipv6Addr) -> AddressClass {
    if let Some(v4) = ip.to_ipv4_mapped() {
        return class_of_v4(v4);
    }
    // A gateway would translate these to IPv4, so the IPv4 address decides.
    if let Some(v4) = embedded_v4(ip) {
        return match class_of_v4(v4) {
            AddressClass::Public => Internal("an IPv6 address with an embedded IPv4 address"),
            Loopback => Forbidden("an IPv6 address with an embedded loopback address"),
            inside => inside,
        };
    }
    let holds = |(net, bits, _): &&([u16; 8], u8, AddressClass)| {
        AddressRange::new(Ipv6Addr::from(*net).into(), *bits).contains(ip.into())
    };
    // Only 2000::/3 is assigned to hosts on the internet.
    let other = if ip.segments()[0] >> 13 == 1 { AddressClass::Public } else { RESERVED };
    V6.iter().find(holds).map_or(other, |(.., class)| *class)
}

/// The IPv4 address embedded in an IPv6 address that a gateway translates: IPv4-translated (`::ffff:0:a.b.c.d`), NAT64,
/// 6to4, Teredo and ISATAP.
pub(crate) const fn embedded_v4(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    let (high, low) = match ip.segments() {
        [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x64, 0xff9b, 1, .., high, low]
        | [0x2002, high, low, ..]
        | [.., 0 | 0x200, 0x5efe, high, low] => (high, low),
        // Teredo inverts the bits of its client's address.
        [0x2001, 0, .., high, low] => (!high, !low),
        _ => return None,
    };
    let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
    Some(Ipv4Addr::new(a, b, c, d))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> AddressClass {
        class(text.parse().expect("an address"))
    }

    #[test]
    fn public_addresses_are_public() {
        for public in ["1.1.1.1", "9.255.255.255", "11.0.0.0", "172.32.0.1", "2606:4700::1111"] {
            assert_eq!(of(public), AddressClass::Public, "{public}");
        }
    }

    #[test]
    fn forbidden_addresses_are_forbidden_in_every_notation() {
        for never in [
            "0.0.0.0",
            "169.254.169.254",
            "::ffff:169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "2002:a9fe:a9fe::1",
            "64:ff9b::7f00:1",
            "::ffff:0:127.0.0.1",
            "::ffff:0:169.254.169.254",
            "64:ff9b:1::169.254.169.254",
            "2001::5601:5601",
            "2001:db8::5efe:169.254.169.254",
            "fd00::200:5efe:127.0.0.1",
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
            assert!(matches!(of(never), Forbidden(_)), "{never}: {:?}", of(never));
        }
    }

    #[test]
    fn internal_addresses_need_permission() {
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
            "::ffff:0:10.0.0.1",
            "::ffff:0:1.1.1.1",
            "64:ff9b:1::1.1.1.1",
            "4000::1",
            "::1:0:0:0:1",
            "100::1",
            "2001:1::1",
            "2001:db8::1",
            "2002:101:101::1",
            "fc00::1",
        ] {
            assert!(matches!(of(inside), Internal(_)), "{inside}: {:?}", of(inside));
        }
    }

    #[test]
    fn loopback_is_loopback_in_both_families() {
        for loopback in ["127.0.0.1", "127.255.255.254", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(of(loopback), Loopback, "{loopback}");
        }
    }
}
