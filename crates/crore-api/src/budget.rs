//! The budget for bytes in flight: request bodies, messages of streams and unread responses that are in memory.
//!
//! Each byte counts for its connection, its caller and the whole server. Bytes are charged in steps, without a lock,
//! and a call with a small body and a small response is not charged at all. A quarter of each limit is reserved for
//! small bodies, so that a few large ones cannot keep out the others.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crore_core::settings::section;
use crore_core::{Code, Size};
use http::Extensions;

use crate::Fault;
use crate::access::Identity;

/// Bodies up to this size are not charged: `listen.max-streams` and `listen.max-connections` bound their number.
pub const FREE_BYTES: usize = 4 << 10;
/// Charges up to this size may use the whole of a limit; larger ones leave a quarter of it.
const SMALL_BYTES: usize = 64 << 10;
/// Step of small charges.
const SMALL_STEP: usize = 16 << 10;
/// Number of counters of callers. Callers with the same hash share a counter.
const CALLER_COUNTERS: usize = 4096;

section! {
    /// Limits of the bytes in flight.
    pub struct ByteLimits: Eq = "http" {
        /// Maximum bytes of request bodies, stream messages and unread responses in memory, for the whole server.
        /// Requests beyond it are refused with `too-many`. A quarter of it is reserved for requests up to 64 KiB.
        max_in_flight: Size = "192MiB",
        /// Maximum bytes in flight of one caller: a token, a client certificate, or an address.
        max_in_flight_per_caller: Size = "96MiB",
        /// Maximum bytes in flight of one connection. A body of the maximum size must fit into three quarters of it.
        max_in_flight_per_connection: Size = "48MiB",
    }
}

/// Bytes in flight on one connection. The accept loop puts it into the extensions of each request.
#[derive(Debug, Clone, Default)]
pub struct ConnectionBytes(Arc<ConnectionCounter>);

#[derive(Debug, Default)]
struct ConnectionCounter {
    bytes: AtomicUsize,
    peer: Option<IpAddr>,
}

impl ConnectionBytes {
    /// The counter of a new connection.
    pub fn new(peer: IpAddr) -> Self {
        Self(Arc::new(ConnectionCounter { bytes: AtomicUsize::new(0), peer: Some(peer) }))
    }

    /// The counter of a request's connection.
    pub(crate) fn of(request: &Extensions) -> Self {
        request.get().cloned().unwrap_or_default()
    }
}

/// The budget of one server.
#[derive(Debug)]
pub(crate) struct ByteBudget {
    limits: ByteLimits,
    total: AtomicUsize,
    callers: Box<[AtomicUsize]>,
    hasher: RandomState,
}

impl ByteBudget {
    pub(crate) fn new(limits: ByteLimits) -> Self {
        let callers = std::iter::repeat_with(AtomicUsize::default).take(CALLER_COUNTERS).collect();
        Self { limits, total: AtomicUsize::new(0), callers, hasher: RandomState::new() }
    }

    /// The account of a caller on a connection.
    pub(crate) fn account(
        self: &Arc<Self>,
        who: &Identity,
        connection: ConnectionBytes,
    ) -> ByteAccount {
        let key = CallerKey::of(who, connection.0.peer);
        let caller = self.hasher.hash_one(key) as usize % CALLER_COUNTERS;
        ByteAccount { budget: Arc::clone(self), caller, connection }
    }
}

#[derive(Hash)]
enum CallerKey<'a> {
    Token(&'a str),
    Certificate(&'a str),
    Address(Option<IpAddr>),
}

impl<'a> CallerKey<'a> {
    fn of(who: &'a Identity, peer: Option<IpAddr>) -> Self {
        match who {
            Identity::Token { id, .. } => Self::Token(id.as_str()),
            Identity::Certificate(name) => Self::Certificate(name),
            Identity::Loopback | Identity::Anyone | Identity::Unauthenticated => {
                Self::Address(peer)
            }
        }
    }
}

/// The counters to which the bytes of a call are charged.
#[derive(Debug, Clone)]
pub struct ByteAccount {
    budget: Arc<ByteBudget>,
    caller: usize,
    connection: ConnectionBytes,
}

impl ByteAccount {
    /// Each counter with its limit, and what it counts.
    fn counters(&self) -> impl Iterator<Item = (&AtomicUsize, Size, &'static str)> {
        let ByteBudget { limits, total, callers, .. } = &*self.budget;
        let connection =
            (&self.connection.0.bytes, limits.max_in_flight_per_connection, "this connection");
        let caller = callers.get(self.caller);
        let caller = caller.map(|bytes| (bytes, limits.max_in_flight_per_caller, "this caller"));
        let total = (total, limits.max_in_flight, "all callers");
        [Some(connection), caller, Some(total)].into_iter().flatten()
    }

    fn charge(&self, bytes: usize, is_small: bool) -> Result<(), Fault> {
        for (n, (counter, limit, whose)) in self.counters().enumerate() {
            let max = limit.bytes() - if is_small { 0 } else { limit.bytes() / 4 };
            let before = counter.fetch_add(bytes, Ordering::Relaxed);
            if before.saturating_add(bytes) > max {
                self.counters().take(n + 1).for_each(|(counter, ..)| {
                    counter.fetch_sub(bytes, Ordering::Relaxed);
                });
                return Err(over_budget(limit, whose));
            }
        }
        Ok(())
    }

    /// Refuses a response of this size if it could not be charged now. A call can then omit the work of encoding it; the
    /// encoded response is charged in any case.
    pub(crate) fn check_room(&self, bytes: usize) -> Result<(), Fault> {
        for (counter, limit, whose) in self.counters() {
            let max = limit.bytes() - if bytes <= SMALL_BYTES { 0 } else { limit.bytes() / 4 };
            if counter.load(Ordering::Relaxed).saturating_add(bytes) > max {
                return Err(over_budget(limit, whose));
            }
        }
        Ok(())
    }

    fn release(&self, bytes: usize) {
        for (counter, ..) in self.counters() {
            counter.fetch_sub(bytes, Ordering::Relaxed);
        }
    }
}

fn over_budget(limit: Size, whose: &str) -> Fault {
    let detail = format!(
        "too many bytes in flight: {whose} may have {limit} of unfinished requests and unread responses; retry later"
    );
    Fault::new(Code::TooMany, detail)
}

/// Bytes that are charged to an account, until it is dropped.
#[derive(Debug)]
pub struct ByteMeter {
    account: ByteAccount,
    charged: usize,
}

impl ByteMeter {
    /// A meter that holds nothing yet.
    pub const fn new(account: ByteAccount) -> Self {
        Self { account, charged: 0 }
    }

    /// Sets the number of bytes that are held. The counters change only when a step is crossed. A refused increase
    /// changes nothing.
    pub fn set(&mut self, bytes: usize) -> Result<(), Fault> {
        let step = if bytes > SMALL_BYTES { SMALL_BYTES } else { SMALL_STEP };
        let wanted = match bytes > FREE_BYTES {
            true => bytes.checked_next_multiple_of(step).unwrap_or(bytes),
            false => 0,
        };
        if wanted > self.charged {
            self.account.charge(wanted - self.charged, wanted <= SMALL_BYTES)?;
            self.charged = wanted;
        } else if wanted < self.charged {
            self.account.release(self.charged - wanted);
            self.charged = wanted;
        }
        Ok(())
    }
}

impl Drop for ByteMeter {
    fn drop(&mut self) {
        if self.charged > 0 {
            self.account.release(self.charged);
        }
    }
}

#[cfg(test)]
mod tests {
    use crore_core::Name;

    use super::*;

    const MIB: usize = 1 << 20;

    fn budget() -> Arc<ByteBudget> {
        Arc::new(ByteBudget::new(ByteLimits {
            max_in_flight: Size(16 << 20),
            max_in_flight_per_caller: Size(12 << 20),
            max_in_flight_per_connection: Size(8 << 20),
        }))
    }

    fn connection(budget: &Arc<ByteBudget>, token: &str) -> ByteAccount {
        let name = Name::new("token", token).expect("a name");
        let who = Identity::Token { id: name.clone(), name };
        budget.account(&who, ConnectionBytes::default())
    }

    fn used(budget: &ByteBudget) -> usize {
        budget.total.load(Ordering::Relaxed)
    }

    #[test]
    fn connections_callers_and_the_server_have_a_limit_each() {
        let budget = budget();
        let mut meters = Vec::new();
        let mut charge = |account: &ByteAccount, bytes| {
            let mut meter = ByteMeter::new(account.clone());
            let charged = meter.set(bytes).map_err(|fault| fault.problem().detail.clone());
            meters.push(meter);
            charged
        };
        let (one, two) = (connection(&budget, "a"), connection(&budget, "a"));
        assert_eq!(charge(&one, 6 * MIB), Ok(()));
        let refused = charge(&one, MIB).expect_err("a quarter is left for small bodies");
        assert!(refused.contains("this connection") && refused.contains("8MiB"), "{refused}");
        assert_eq!(charge(&two, 3 * MIB), Ok(()));
        assert!(charge(&two, MIB).expect_err("too much").contains("this caller"));
        let other = connection(&budget, "b");
        assert_eq!(charge(&other, 3 * MIB), Ok(()));
        assert!(charge(&other, MIB).expect_err("too much").contains("all callers"));
        for account in [&one, &two, &other] {
            assert_eq!(charge(account, SMALL_BYTES), Ok(()), "small bodies are still taken");
        }
        drop(meters);
        assert_eq!(used(&budget), 0);
        assert!(budget.callers.iter().all(|bytes| bytes.load(Ordering::Relaxed) == 0));
    }

    #[test]
    fn bytes_are_charged_in_steps_and_released() {
        let budget = budget();
        let mut meter = ByteMeter::new(connection(&budget, "a"));
        for (bytes, charged) in [
            (FREE_BYTES, 0),
            (FREE_BYTES + 1, SMALL_STEP),
            (SMALL_BYTES, SMALL_BYTES),
            (SMALL_BYTES + 1, 2 * SMALL_BYTES),
            (1, 0),
            (MIB, MIB),
        ] {
            meter.set(bytes).expect("it fits");
            assert_eq!(used(&budget), charged, "{bytes}");
        }
        assert_eq!(meter.set(usize::MAX).map_err(|fault| fault.code()), Err(Code::TooMany));
        assert_eq!(used(&budget), MIB, "a refusal changes nothing");
        drop(meter);
        assert_eq!(used(&budget), 0);
    }

    #[test]
    fn a_response_without_room_is_refused_before_it_is_encoded() {
        let budget = budget();
        let account = connection(&budget, "a");
        let mut meter = ByteMeter::new(account.clone());
        meter.set(5 * MIB).expect("6 MiB of 8 are for large bodies");
        account.check_room(MIB).expect("the sixth");
        account.check_room(MIB + 1).expect_err("more than three quarters");
        account.check_room(SMALL_BYTES).expect("a quarter is reserved for small ones");
        assert_eq!(used(&budget), 5 * MIB, "a check charges nothing");
        drop(meter);
        account.check_room(MIB + 1).expect("free again");
    }
}
