//! Free ports of the loopback address.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Mutex, PoisonError};

use crate::Error;

/// Below the kernel's range of ephemeral ports, so that no outgoing connection takes the port before the
/// server starts.
const FIRST: u16 = 11_000;
const COUNT: u16 = 11_000;
/// Offset of the Redis cluster bus above a node's port.
const BUS_OFFSET: u16 = 10_000;
const TRIES: usize = 1000;

/// Additional ports that must be free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExtraPorts {
    None,
    Redis,
}

/// A port that is free now and was not returned before in this process. Another process may still take it:
/// the server then fails to bind, and the caller tries another.
pub(super) fn free(bus: ExtraPorts) -> Result<u16, Error> {
    static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    for _ in 0..TRIES {
        let port = random_port();
        let free = is_free(port) && (bus == ExtraPorts::None || is_free(port + BUS_OFFSET));
        if free && given.insert(port) {
            return Ok(port);
        }
    }
    Err(Error::Failed(format!("no free port on loopback in {TRIES} tries")))
}

/// A port of 127.0.0.1 for a server that needs more than one: free now, and not returned before in this
/// process.
///
/// # Errors
///
/// [`Error::Failed`] if none was found.
pub fn free_port() -> Result<u16, Error> {
    free(ExtraPorts::None)
}

/// Random, so that processes that start together do not all try the same port first. A hasher's keys are the
/// only randomness in std.
fn random_port() -> u16 {
    let random = RandomState::new().hash_one(());
    FIRST + (random % u64::from(COUNT)) as u16
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_port_is_given_twice() {
        let ports: BTreeSet<_> =
            (0..50).map(|_| free(ExtraPorts::Redis).expect("a port")).collect();
        assert_eq!(ports.len(), 50);
    }

    #[test]
    fn a_port_in_use_is_not_free() {
        let held = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a listener");
        assert!(!is_free(held.local_addr().expect("bound").port()));
    }
}
