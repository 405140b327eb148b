//! How often an address may fail.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// So many failures at once.
const BURST: u32 = 10;
/// And one more after each of these.
const EACH: Duration = Duration::from_secs(6);
/// So many addresses are remembered, of some 40 bytes each; beyond that, new ones are not counted.
const MOST: usize = 20_000;

/// The failures of each address: ten, and ten more a minute.
#[derive(Debug, Default)]
pub(super) struct Failures(Mutex<Paid>);

#[derive(Debug, Default)]
struct Paid {
    /// When all failures of an address so far are paid for.
    until: HashMap<IpAddr, Instant>,
    swept_at: Option<Instant>,
}

impl Paid {
    /// Whether there is room for one more address. Those that have paid make room, but they are not
    /// looked for all the time: nobody pays within less than one failure takes.
    fn has_room(&mut self, now: Instant) -> bool {
        if self.until.len() >= MOST && self.swept_at.is_none_or(|at| now >= at + EACH) {
            self.until.retain(|_, until| *until > now);
            self.swept_at = Some(now);
        }
        self.until.len() < MOST
    }
}

impl Failures {
    /// Counts a failure; how long to wait, if there were too many.
    pub(super) fn count(&self, address: IpAddr, now: Instant) -> Result<(), Duration> {
        let mut paid = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let address = network(address);
        if !paid.until.contains_key(&address) && !paid.has_room(now) {
            return Ok(());
        }
        let until = paid.until.entry(address).or_insert(now);
        let after = (*until).max(now) + EACH;
        match after.checked_duration_since(now + EACH * BURST) {
            Some(wait) if !wait.is_zero() => Err(wait),
            _ => {
                *until = after;
                Ok(())
            }
        }
    }
}

/// Who is counted together: an address of IPv4, or a network of IPv6 as one subscriber has it.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from(u128::from(v6) & (u128::MAX << 64)).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(n: u32) -> IpAddr {
        IpAddr::V4(n.into())
    }

    #[test]
    fn ten_failures_are_free_and_then_one_every_six_seconds() {
        let (failures, start) = (Failures::default(), Instant::now());
        for _ in 0..BURST {
            assert_eq!(failures.count(v4(1), start), Ok(()));
        }
        assert_eq!(failures.count(v4(1), start), Err(EACH));
        let later = start + Duration::from_secs(2);
        assert_eq!(failures.count(v4(1), later), Err(Duration::from_secs(4)));
        assert_eq!(failures.count(v4(2), later), Ok(()), "another address");
        assert_eq!(failures.count(v4(1), start + EACH), Ok(()));
        assert_eq!(failures.count(v4(1), start + EACH), Err(EACH));
    }

    #[test]
    fn addresses_of_one_network_are_counted_together() {
        let mapped: IpAddr = "::ffff:10.0.0.1".parse().unwrap_or(v4(0));
        assert_eq!(network(mapped), v4(0x0a00_0001));
        let of = |text: &str| network(text.parse().unwrap_or(v4(0)));
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1:2"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
    }

    #[test]
    fn only_so_many_addresses_are_remembered() {
        let (failures, start) = (Failures::default(), Instant::now());
        for n in 0..2 * MOST as u32 {
            assert_eq!(failures.count(v4(n), start), Ok(()));
        }
        let len = |failures: &Failures| failures.0.lock().map_or(0, |paid| paid.until.len());
        assert_eq!(len(&failures), MOST);
        assert_eq!(failures.count(v4(u32::MAX), start + EACH), Ok(()));
        assert_eq!(len(&failures), 1, "what is paid for is forgotten");
    }
}
