//! Rate limit of failed authentications per address.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Failures allowed at once.
const BURST: u32 = 10;
/// Time until one more failure is allowed.
const REFILL_TIME: Duration = Duration::from_secs(6);
/// Maximum number of tracked addresses, about 40 bytes each; above it, new ones are not counted.
const MAX_ADDRESSES: usize = 20_000;

/// Failure counter per address: a burst of ten, and ten more per minute.
#[derive(Debug, Default)]
pub(super) struct FailureLimiter(Mutex<Allowances>);

#[derive(Debug, Default)]
struct Allowances {
    /// Time at which the allowance of an address is full again.
    until: HashMap<IpAddr, Instant>,
    swept_at: Option<Instant>,
}

impl Allowances {
    /// Whether there is room for one more address. Expired entries are removed first, at most once per
    /// [`REFILL_TIME`], the shortest time in which one can expire.
    fn has_room(&mut self, now: Instant) -> bool {
        if self.until.len() >= MAX_ADDRESSES
            && self.swept_at.is_none_or(|at| now >= at + REFILL_TIME)
        {
            self.until.retain(|_, until| *until > now);
            self.swept_at = Some(now);
        }
        self.until.len() < MAX_ADDRESSES
    }
}

impl FailureLimiter {
    /// Counts a failure; returns the time to wait if there were too many.
    pub(super) fn count(&self, address: IpAddr, now: Instant) -> Result<(), Duration> {
        let mut allowances = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let address = network(address);
        if !allowances.until.contains_key(&address) && !allowances.has_room(now) {
            return Ok(());
        }
        let until = allowances.until.entry(address).or_insert(now);
        let after = (*until).max(now) + REFILL_TIME;
        match after.checked_duration_since(now + REFILL_TIME * BURST) {
            Some(wait) if !wait.is_zero() => Err(wait),
            _ => {
                *until = after;
                Ok(())
            }
        }
    }
}

/// Unit of counting: an IPv4 address, or an IPv6 /64 network.
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
        let (failures, start) = (FailureLimiter::default(), Instant::now());
        for _ in 0..BURST {
            assert_eq!(failures.count(v4(1), start), Ok(()));
        }
        assert_eq!(failures.count(v4(1), start), Err(REFILL_TIME));
        let later = start + Duration::from_secs(2);
        assert_eq!(failures.count(v4(1), later), Err(Duration::from_secs(4)));
        assert_eq!(failures.count(v4(2), later), Ok(()), "another address");
        assert_eq!(failures.count(v4(1), start + REFILL_TIME), Ok(()));
        assert_eq!(failures.count(v4(1), start + REFILL_TIME), Err(REFILL_TIME));
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
    fn tracked_addresses_are_bounded() {
        let (failures, start) = (FailureLimiter::default(), Instant::now());
        for n in 0..2 * MAX_ADDRESSES as u32 {
            assert_eq!(failures.count(v4(n), start), Ok(()));
        }
        let len = |failures: &FailureLimiter| {
            failures.0.lock().map_or(0, |allowances| allowances.until.len())
        };
        assert_eq!(len(&failures), MAX_ADDRESSES);
        assert_eq!(failures.count(v4(u32::MAX), start + REFILL_TIME), Ok(()));
        assert_eq!(len(&failures), 1, "expired entries are removed");
    }
}
