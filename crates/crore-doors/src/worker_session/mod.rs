//! A connected worker: its leases, its slots, and the messages to send to it.
//!
//! [`WorkerSession`] is one connection of one worker, in the plain types of [`crore_wire::worker`]; doors translate.
//! Its [`Incarnation`](incarnation::Incarnation) outlives a broken connection for a grace period, and the
//! [`SessionRegistry`] holds all incarnations. [`LeaseTable`], [`PendingFetch`] and [`InFlight`] also serve doors whose
//! workers connect in other ways.

mod active_session;
mod handshake;
mod in_flight;
mod incarnation;
mod lease_table;
mod outbox;
mod pending_fetch;
mod presence;
mod registry;
mod renewal;
mod reports;
mod session;
#[cfg(test)]
mod tests;

pub(crate) use handshake::fetch_for;
pub(crate) use in_flight::InFlight;
pub(crate) use lease_table::LeaseTable;
pub(crate) use pending_fetch::PendingFetch;
pub(crate) use registry::SessionRegistry;
pub(crate) use reports::finish;
pub(crate) use session::{SessionError, WorkerSession};

use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
