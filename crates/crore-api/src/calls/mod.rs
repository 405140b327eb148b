//! The calls of the API: typed functions of [`Api`](crate::Api), one file for each resource.
//!
//! A call uses engine types where they hold payloads, and the structures of the native API (`crore_wire::api`)
//! otherwise. It checks what the engine does not know (pages, cursors, counts); every error is a
//! [`Fault`](crate::Fault).

mod acts;
mod audit;
mod backups;
mod complete;
mod diff;
mod errors;
mod events;
mod explain;
mod explain_queue;
mod groups;
mod handlers;
mod info;
mod jobs;
mod limits;
mod marks;
mod named_events;
mod notes;
mod operations;
mod push;
mod queue_workers;
mod queues;
mod replays;
mod results;
mod schedules;
mod stats;
mod storage;
mod tokens;
mod work;
mod workers;

pub use acts::{BulkAction, BulkStep, change};
pub(crate) use complete::NameCache;
pub use crore::actions::JobAction;
pub use events::{ListenerPermit, Subscription, event, sent_event};
pub use handlers::{HandlerList, HandlerView, check_define};
pub use jobs::JobPage;
pub use operations::BulkPreview;
pub use push::{broken_dependency, pushed, pushed_result, refused_result, unreadable_job};
pub use replays::ReplayCall;
pub use schedules::{NewSchedule, ScheduleView};
pub(crate) use storage::DiskHistory;
pub use work::restrict_fetch;
