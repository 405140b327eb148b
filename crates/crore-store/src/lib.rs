//! The store seam of crore, and the stores that need no server.
//!
//! A store keeps jobs and obeys: it writes what [`crore_core::machine::decide`] decided, guarded and
//! whole, and makes by itself only the moves that it alone can make atomically. The contract is the
//! documentation of the four traits that a [`Store`] joins; `docs/design/0001-the-store-seam.md`
//! says why it is so.
#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![warn(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

#[cfg(feature = "bug-drill")]
pub mod bug;
#[cfg(not(feature = "bug-drill"))]
mod bug;
mod clock;
mod committed;
pub mod embedded;
mod error;
pub mod jobs;
mod local;
#[cfg(feature = "measure")]
pub mod measure;
mod memory;
pub mod registry;
mod state;
pub mod upkeep;
pub mod views;
mod vitals;

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

pub use clock::SystemClock;
pub use committed::Committed;
pub use error::Error;
pub use jobs::Jobs;
pub use memory::Memory;
pub use registry::Registry;
pub use state::{Ailment, Durability};
pub use upkeep::Upkeep;
pub use views::Views;
pub use vitals::{COMMIT_BUCKETS, Vitals};

use crore_core::Name;

/// What every verb gives: an answer that may take a while, or an error.
///
/// A local store's answer is often there at once. Dropping it before it came leaves open whether
/// the verb took effect; it takes effect whole or not at all.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// Called with the queues in which there is something new to claim; on any thread, and it must not
/// block.
pub type WakeHook = Arc<dyn Fn(&[Name]) + Send + Sync>;

/// A whole store. The engine holds an `Arc<dyn Store>` and knows no other type.
pub trait Store: Jobs + Upkeep + Views + Registry {
    /// Asks to be told when there is something new to claim: by a push, a change, a promotion, the
    /// end of a pause or a permit that came free, on this node or another. A hint: it comes after the
    /// change is durable, it may come late, twice or not at all, and whoever waits for jobs also
    /// looks by himself now and then.
    fn wakes(&self, hook: WakeHook);

    /// Whether a call to it is a call and no more. To gather many calls into one gains nothing then; a
    /// store at the other end of a connection answers once for all of them.
    fn is_near(&self) -> bool {
        false
    }

    /// What its answers survive. A store that does not say so promises nothing.
    fn durability(&self) -> Durability {
        Durability::Memory
    }

    /// What is wrong with it, as far as it knows without asking anybody; `None`: nothing.
    fn ailment(&self) -> Option<Ailment> {
        None
    }

    /// Comes when it gives up (from then on it is [`Ailment::Poisoned`]), with the reason, for whoever
    /// looks after it. A store that never does never answers.
    fn gave_up(&self) -> Pin<Box<dyn Future<Output = String> + Send + '_>> {
        Box::pin(std::future::pending())
    }

    /// What it can tell of its own work without asking anybody; `None`: nothing.
    fn vitals(&self) -> Option<Vitals> {
        None
    }
}

/// What all four parts of a store have in common.
pub trait Part: Send + Sync + Debug {}

impl<T: Send + Sync + Debug> Part for T {}
