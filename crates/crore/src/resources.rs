//! Resources: the engine's calls beyond the everyday ones, each group on a handle of its own.
//!
//! An accessor such as [`Engine::queues`] gives a handle: one reference to the engine, free to make and to
//! copy. The futures of its methods borrow the engine and not the handle, so a handle can be made for a
//! single call.
//!
//! ```
//! use crore::core::Name;
//! use crore::{Engine, block_on};
//!
//! # fn main() -> Result<(), crore::Error> {
//! let engine = Engine::memory();
//! let mail = Name::new("queue", "mail")?;
//! block_on(engine.queues().pause(mail.clone()))?;
//! assert!(block_on(engine.queues().get(&mail))?.paused);
//! # Ok(())
//! # }
//! ```

pub use crate::deliveries::Deliveries;
pub use crate::groups::Groups;
#[doc(inline)]
pub use crate::handlers::Handlers;
pub use crate::jobs::Jobs;
pub use crate::lifecycle::Lifecycle;
pub use crate::limits::Limits;
pub use crate::queues::Queues;
pub use crate::results::Results;
pub use crate::schedules::Schedules;
pub use crate::status::Status;
pub use crate::tokens::Tokens;
pub use crate::upkeep::Upkeep;
#[doc(inline)]
pub use crate::watch::Telemetry;
pub use crate::workers::Workers;

use crate::engine::Engine;

/// Accessors: each gives the [handle](crate::resources) of a resource.
impl Engine {
    /// Jobs: cancel, retry, delete and change them; counts, statistics and notes.
    pub fn jobs(&self) -> Jobs<'_> {
        Jobs { inner: &self.inner }
    }

    /// Queues: settings, pause, resume and drain.
    pub fn queues(&self) -> Queues<'_> {
        Queues { inner: &self.inner }
    }

    /// Schedules: jobs that are pushed at given times.
    pub fn schedules(&self) -> Schedules<'_> {
        Schedules { inner: &self.inner }
    }

    /// Rate and concurrency limits.
    pub fn limits(&self) -> Limits<'_> {
        Limits { inner: &self.inner }
    }

    /// Handlers: how jobs of a kind are run, and what follows.
    pub fn handlers(&self) -> Handlers<'_> {
        Handlers { inner: &self.inner }
    }

    /// Groups of jobs.
    pub fn groups(&self) -> Groups<'_> {
        Groups { inner: &self.inner }
    }

    /// Results: wait for the end of a job and take its result in two steps.
    pub fn results(&self) -> Results<'_> {
        Results { inner: &self.inner }
    }

    /// Deliveries: for programs that hand jobs to workers elsewhere, what they need beyond
    /// [`fetch`](Self::fetch), [`renew`](Self::renew) and [`finish`](Self::finish).
    pub fn deliveries(&self) -> Deliveries<'_> {
        Deliveries { inner: &self.inner }
    }

    /// The register of workers elsewhere. To run jobs in this program, see [`Engine::worker`].
    pub fn workers(&self) -> Workers<'_> {
        Workers { inner: &self.inner }
    }

    /// Access tokens, for programs that serve the engine to others.
    pub fn tokens(&self) -> Tokens<'_> {
        Tokens { inner: &self.inner }
    }

    /// Upkeep, for an engine [without a thread](Self::without_thread).
    pub fn upkeep(&self) -> Upkeep<'_> {
        Upkeep { inner: &self.inner }
    }

    /// The state of the engine and its store: durability, faults, caps and clock.
    pub fn status(&self) -> Status<'_> {
        Status { inner: &self.inner }
    }

    /// Graceful shutdown: take nothing new, and wait for running jobs.
    pub fn lifecycle(&self) -> Lifecycle<'_> {
        Lifecycle { inner: &self.inner }
    }

    /// The source of metrics and traces.
    pub fn telemetry(&self) -> Telemetry<'_> {
        Telemetry { inner: &self.inner }
    }
}
