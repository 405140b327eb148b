//! The domain model and rules of crore: jobs, the state machine, retries, schedules, limits, handlers.
//!
//! Pure functions on values: no I/O, no runtime, no clock and no randomness. Stores persist the
//! decisions made here; doors translate their protocols into these types.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod caps;
pub mod code;
pub mod dependency;
pub mod event;
pub mod fair;
pub mod filter;
pub mod group;
pub mod handler;
pub mod id;
pub mod index;
pub mod job;
pub mod limit;
pub mod machine;
pub mod name;
pub mod payload;
pub mod push;
pub mod replay;
pub mod restriction;
pub mod retry;
pub mod schedule;
pub mod settings;
pub mod stats;
pub mod time;
pub mod unique;
pub mod units;
pub mod version;

pub use caps::Caps;
pub use code::{Code, Invalid};
pub use dependency::Satisfaction;
pub use event::{AwaitedEvent, EventCaps, EventWait, KeptEvent, NewEvent};
pub use filter::{Fingerprint, SearchFilter};
pub use handler::Handler;
pub use id::{Delivery, EventId, GroupId, JobId, OwnerId, Revision};
pub use index::{IndexKey, IndexedField, QueueIndex};
pub use job::{Job, Live, Seen, Spec, State};
pub use name::Name;
pub use payload::{Encoding, Payload};
pub use push::{Batch, NewJob};
pub use replay::ReplayEdits;
pub use restriction::Restriction;
pub use stats::{JobCounter, JobStats, SpanHistogram};
pub use time::{Clock, Span, Time};
pub use units::Size;
