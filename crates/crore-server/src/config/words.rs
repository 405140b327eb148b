//! Durations, sizes and addresses, as people write them.

use std::net::{Ipv4Addr, SocketAddr};

use crore_core::Span;

const SPANS: &[(&str, u64)] =
    &[("ms", 1), ("s", 1000), ("m", 60 * 1000), ("h", 60 * 60 * 1000), ("d", 24 * 60 * 60 * 1000)];

const SIZES: &[(&str, u64)] = &[
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("kB", 1000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
];

/// `250ms`, `30s`, `5m`, `24h`, `180d`.
pub(crate) fn span(text: &str) -> Result<Span, String> {
    number_and_unit(text, SPANS)
        .map(Span::from_millis)
        .ok_or_else(|| "write a whole number and a unit: ms, s, m, h or d, as in `30s`".to_owned())
}

/// `512B`, `64KiB`, `1MiB`, `2GiB`, and `kB`, `MB`, `GB` for powers of ten.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    number_and_unit(text, SIZES).ok_or_else(|| {
        "write a whole number and a unit: B, KiB, MiB or GiB, as in `64MiB`".to_owned()
    })
}

fn number_and_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit.trim_start())?;
    digits.parse::<u64>().ok()?.checked_mul(*factor)
}

/// `127.0.0.1:9000`, `[::1]:9000`, `localhost:9000`, `:9000` for every address of the machine.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    let wrong = || "write an address and a port, as in `127.0.0.1:9000`".to_owned();
    if let Some(port) = text.strip_prefix(':') {
        let port = port.parse().map_err(|_| wrong())?;
        return Ok(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)));
    }
    let local = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    local.as_deref().unwrap_or(text).parse().map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_words_with_a_unit() {
        assert_eq!(span("250ms"), Ok(Span::from_millis(250)));
        assert_eq!(span("180d"), Ok(Span::from_secs(180 * 24 * 60 * 60)));
        assert_eq!(span("5 m"), Ok(Span::from_secs(300)));
        for wrong in ["", "30", "s", "-1s", "1.5h", "30 seconds", "99999999999999999999d"] {
            assert!(span(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_are_words_with_a_unit() {
        assert_eq!(size("64MiB"), Ok(64 << 20));
        assert_eq!(size("2MB"), Ok(2_000_000));
        for wrong in ["", "64", "64mib", "18446744073709551615KiB"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn addresses_have_a_port() {
        assert_eq!(address("localhost:80"), Ok(SocketAddr::from(([127, 0, 0, 1], 80))));
        assert_eq!(address(":80"), Ok(SocketAddr::from(([0, 0, 0, 0], 80))));
        assert!(address("[::1]:80").is_ok_and(|address| address.is_ipv6()));
        for wrong in ["", "127.0.0.1", "127.0.0.1:99999", "example.com:80"] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
    }
}
