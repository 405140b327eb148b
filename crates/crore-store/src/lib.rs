//! The store interface of crore, and the two stores that run in-process.
//!
//! A store persists jobs; it does not decide about them. It writes the decisions of
//! [`crore_core::machine::decide`], each guarded by what the caller saw and applied atomically, and
//! makes on its own only the moves that have to be atomic with choosing a job. The contract is the
//! documentation of the five traits that [`Store`] joins; `docs/design/0001-store-interface.md` has
//! the reasons.
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
pub mod events;
pub mod jobs;
mod local;
#[cfg(feature = "measure")]
pub mod measure;
mod memory;
mod metrics;
pub mod registry;
mod state;
mod store_id;
pub mod upkeep;
pub mod views;

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

pub use clock::SystemClock;
pub use committed::Committed;
pub use error::Error;
pub use events::Events;
pub use jobs::Jobs;
pub use memory::Memory;
pub use metrics::{COMMIT_BUCKETS, StoreMetrics};
pub use registry::Registry;
pub use state::{Durability, StoreProblem};
pub use store_id::StoreId;
pub use upkeep::Upkeep;
pub use views::Views;

use crore_core::Name;

/// Future of every store operation.
///
/// A local store's future is often ready at once. A caller that drops it cannot know whether the
/// operation took effect; it takes effect entirely or not at all.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// Callback for queues that have new jobs to claim. The store calls it on any thread; it must not
/// block.
pub type WakeHook = Arc<dyn Fn(&[Name]) + Send + Sync>;

/// A complete store. The engine holds an `Arc<dyn Store>` and knows no other type.
pub trait Store: Jobs + Events + Upkeep + Views + Registry {
    /// Registers a callback for new claimable jobs: after a push, a change, a promotion, the end of
    /// a pause or a returned permit, on this node or another.
    ///
    /// The callback is a hint. The store calls it after the change is durable; the call may be
    /// late, repeated or missing, so a caller that waits for jobs also polls.
    fn add_wake_hook(&self, hook: WakeHook);

    /// Identity of the store, known since it was opened: no other store has it, and it never
    /// changes, whatever crashes. A store that was created without one gets it at its next opening.
    fn store_id(&self) -> StoreId;

    /// Whether an operation is a function call without a network round trip. The engine does not
    /// combine calls to such a store, because that saves nothing.
    fn is_local(&self) -> bool {
        false
    }

    /// The failures that acknowledged writes survive. The default promises nothing.
    fn durability(&self) -> Durability {
        Durability::Memory
    }

    /// Current problem of the store, from local knowledge and without I/O; `None` when healthy.
    fn problem(&self) -> Option<StoreProblem> {
        None
    }

    /// Resolves with the reason when the store becomes [`StoreProblem::Poisoned`]. Never resolves for a
    /// store that cannot fail.
    fn poisoned(&self) -> Pin<Box<dyn Future<Output = String> + Send + '_>> {
        Box::pin(std::future::pending())
    }

    /// Counters of the store's work, without I/O; `None` if the store keeps none.
    fn metrics(&self) -> Option<StoreMetrics> {
        None
    }
}

/// Bounds that all five traits of a store share.
pub trait StorePart: Send + Sync + Debug {}

impl<T: Send + Sync + Debug> StorePart for T {}
