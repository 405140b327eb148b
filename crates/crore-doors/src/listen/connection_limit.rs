//! Connection limits: in total, and per address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Counts open connections.
#[derive(Debug, Clone)]
pub(super) struct ConnectionLimiter {
    max: usize,
    max_per_address: usize,
    open: Arc<Mutex<OpenConnections>>,
}

#[derive(Debug, Default)]
struct OpenConnections {
    total: usize,
    by_address: HashMap<IpAddr, usize>,
}

impl ConnectionLimiter {
    pub(super) fn new(max: usize, max_per_address: usize) -> Self {
        Self { max, max_per_address, open: Arc::default() }
    }

    /// Registers a connection from this address; `None`: a limit is reached.
    pub(super) fn try_register(&self, address: IpAddr) -> Option<CountedConnection> {
        let mut open = self.lock();
        if open.total >= self.max {
            return None;
        }
        let per_address = open.by_address.entry(address).or_default();
        if *per_address >= self.max_per_address {
            return None;
        }
        *per_address += 1;
        open.total += 1;
        drop(open);
        Some(CountedConnection { limiter: self.clone(), address })
    }

    fn lock(&self) -> MutexGuard<'_, OpenConnections> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One counted connection, until it is dropped.
#[derive(Debug)]
pub(super) struct CountedConnection {
    limiter: ConnectionLimiter,
    address: IpAddr,
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        let mut open = self.limiter.lock();
        open.total = open.total.saturating_sub(1);
        if let Some(per_address) = open.by_address.get_mut(&self.address) {
            *per_address = per_address.saturating_sub(1);
            if *per_address == 0 {
                open.by_address.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_counted_in_total_and_per_address() {
        let limiter = ConnectionLimiter::new(3, 2);
        let (one, two) = (IpAddr::from([127, 0, 0, 1]), IpAddr::from([127, 0, 0, 2]));
        let connections = (limiter.try_register(one), limiter.try_register(one));
        assert!(
            connections.0.is_some()
                && connections.1.is_some()
                && limiter.try_register(one).is_none()
        );
        let third = limiter.try_register(two);
        assert!(third.is_some() && limiter.try_register(two).is_none());
        drop(connections);
        assert!(limiter.try_register(one).is_some());
        drop(third);
        assert!(limiter.lock().by_address.is_empty() && limiter.lock().total == 0);
    }
}
