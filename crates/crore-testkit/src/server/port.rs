//! Free ports of the loopback address.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Mutex, PoisonError};

use crate::Error;

/// Below the ports that the kernel gives to outgoing connections, so that none of those takes ours
/// between the choice and the server's start.
const FIRST: u16 = 11_000;
const COUNT: u16 = 11_000;
/// Redis puts its cluster bus this far above a node's port.
const BUS_OFFSET: u16 = 10_000;
const TRIES: usize = 1000;

/// Which ports must be free besides the one that is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bus {
    None,
    Redis,
}

/// A port that is free now and was given to nobody else in this process. Another process may still
/// be faster: the server then fails to bind, and the caller asks for another.
pub(super) fn free(bus: Bus) -> Result<u16, Error> {
    static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    for _ in 0..TRIES {
        let port = any();
        let free = is_free(port) && (bus == Bus::None || is_free(port + BUS_OFFSET));
        if free && given.insert(port) {
            return Ok(port);
        }
    }
    Err(Error::Failed(format!("no free port on loopback in {TRIES} tries")))
}

/// A port of 127.0.0.1 for a server that needs more than the one that it is given: free now, and given
/// to nobody else in this process.
///
/// # Errors
///
/// [`Error::Failed`] if none was found.
pub fn free_port() -> Result<u16, Error> {
    free(Bus::None)
}

/// Random, so that processes that start together do not all try the same port first. A hasher's
/// keys are the only randomness of std.
fn any() -> u16 {
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
        let ports: BTreeSet<_> = (0..50).map(|_| free(Bus::Redis).expect("a port")).collect();
        assert_eq!(ports.len(), 50);
    }

    #[test]
    fn a_port_in_use_is_not_free() {
        let held = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a listener");
        assert!(!is_free(held.local_addr().expect("bound").port()));
    }
}
