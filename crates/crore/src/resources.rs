//! Resource handles: the engine's calls beyond the everyday ones, grouped by resource.
//!
//! An accessor such as [`Engine::queues`] returns a handle. A handle is a reference to the engine (that of jobs also to the name of its caller), free to
//! create and to copy; the futures of its methods borrow the engine and not the handle, so it can be created for a
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

pub use crate::connected_versions::WorkerVersions;
pub use crate::deliveries::Deliveries;
pub use crate::groups::Groups;
#[doc(inline)]
pub use crate::handlers::Handlers;
pub use crate::jobs::Jobs;
pub use crate::lifecycle::Lifecycle;
pub use crate::limits::Limits;
pub use crate::named_events::{EventReceipt, NamedEvents};
#[doc(inline)]
pub use crate::observer::Telemetry;
pub use crate::operation_records::OperationRecords;
pub use crate::queues::Queues;
pub use crate::results::Results;
pub use crate::schedules::Schedules;
pub use crate::status::Status;
pub use crate::tokens::Tokens;
pub use crate::upkeep::ManualUpkeep;
pub use crate::workers::Workers;

use crate::engine::Engine;

/// Accessors: each returns the [handle](crate::resources) of a resource.
impl Engine {
    /// Jobs: cancel, retry, delete and edit them; counts, statistics and notes.
    pub fn jobs(&self) -> Jobs<'_> {
        Jobs { inner: &self.inner, caller: crate::jobs::LIBRARY_CALLER }
    }

    /// Queues: settings, pause, resume and drain.
    pub fn queues(&self) -> Queues<'_> {
        Queues { inner: &self.inner }
    }

    /// Events: named messages from outside that jobs wait for.
    ///
    /// ```
    /// use crore::core::event::DEFAULT_KEEP;
    /// use crore::core::{Name, NewEvent, Payload};
    /// use crore::{Engine, block_on};
    ///
    /// # fn main() -> Result<(), crore::Error> {
    /// let engine = Engine::memory();
    /// engine.push("shipping", "order 17").wait_for("order-17-paid").wait()?;
    /// let name = Name::new("event", "order-17-paid")?;
    /// let payload = Payload::json(r#"{"amount":120}"#);
    /// let sent = block_on(engine.events().send(NewEvent { name, payload, keep: DEFAULT_KEEP }))?;
    /// assert_eq!(sent.waiting, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn events(&self) -> NamedEvents<'_> {
        NamedEvents { inner: &self.inner }
    }

    /// Schedules: recurring jobs, by cron expression or interval.
    pub fn schedules(&self) -> Schedules<'_> {
        Schedules { inner: &self.inner }
    }

    /// Rate and concurrency limits.
    pub fn limits(&self) -> Limits<'_> {
        Limits { inner: &self.inner }
    }

    /// Handlers: how jobs of a kind are run, and their follow-ups.
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

    /// Deliveries: calls for programs that serve remote workers, beyond [`fetch`](Self::fetch),
    /// [`renew`](Self::renew) and [`finish`](Self::finish).
    pub fn deliveries(&self) -> Deliveries<'_> {
        Deliveries { inner: &self.inner }
    }

    /// The registry of remote workers. To run jobs in this program, see [`Engine::worker`].
    pub fn workers(&self) -> Workers<'_> {
        Workers { inner: &self.inner }
    }

    /// Records of bulk operations, for programs that run them in the background.
    pub fn operations(&self) -> OperationRecords<'_> {
        OperationRecords { inner: &self.inner }
    }

    /// Access tokens, for programs that serve the engine over a network.
    pub fn tokens(&self) -> Tokens<'_> {
        Tokens { inner: &self.inner }
    }

    /// Upkeep, for an engine [without a thread](Self::without_thread).
    pub fn upkeep(&self) -> ManualUpkeep<'_> {
        ManualUpkeep { inner: &self.inner }
    }

    /// The state of the engine and its store: durability, faults, caps and clock.
    pub fn status(&self) -> Status<'_> {
        Status { inner: &self.inner }
    }

    /// Graceful shutdown: accept no new work, and wait for running jobs.
    pub fn lifecycle(&self) -> Lifecycle<'_> {
        Lifecycle { inner: &self.inner }
    }

    /// The source of metrics and traces.
    pub fn telemetry(&self) -> Telemetry<'_> {
        Telemetry { inner: &self.inner }
    }
}
