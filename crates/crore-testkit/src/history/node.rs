//! Events of nodes: injected faults and observed states.

use std::sync::Arc;

use crore_core::job::EndReason;
use crore_core::{Delivery, GroupId, Job, JobId, Name, State, Time};
use serde::{Deserialize, Serialize};

use super::PayloadHash;
use super::response::RecordedCount;

/// A fault injected by a harness, recorded at the latest when it takes effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecordedFault {
    /// The process died; everything it had written survives.
    Crash,
    /// The machine died; synced data survives, unsynced data may be partly lost.
    PowerCut,
    /// From here until the next opening, a write or sync of the store's files returns an error. Recorded when
    /// the store receives the error.
    SyncError,
    /// The disk is full from here on; space that the store had preallocated stays available.
    DiskFull,
    /// The disk has space again.
    DiskFreed,
    /// The node's clock jumps by this many milliseconds; negative is backwards.
    ClockJump {
        /// Milliseconds.
        by: i64,
    },
    /// Bytes of the store's files were changed or cut off while the store was closed. If the next opening is
    /// refused, the harness restores the files before it opens again.
    Corruption {
        /// Description of the damage.
        what: String,
    },
}

/// An observation about a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeObservation {
    /// It opened its store and serves.
    Opened,
    /// It refused to open its store, with a reason.
    Refused {
        /// The reason.
        message: String,
    },
    /// It reported by itself that acknowledged data is missing.
    Reported {
        /// The report.
        message: String,
    },
    /// It was shut down cleanly, or closed itself.
    Closed,
    /// Contents found by offline inspection. The last dump of a history is the ground truth.
    Dump(StoreDump),
}

/// Contents of a store.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StoreDump {
    /// Every job.
    pub jobs: Vec<DumpedJob>,
    /// Job counts, as the store reports them.
    pub counts: Vec<RecordedCount>,
}

/// A job in a dump.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DumpedJob {
    /// Its id.
    pub id: JobId,
    /// Its state.
    pub state: State,
    /// Its queue.
    pub queue: Name,
    /// Its kind.
    pub kind: Name,
    /// Its priority.
    pub priority: i32,
    /// When it is due.
    pub due: Time,
    /// Attempts so far.
    pub attempt: u32,
    /// The newest delivery.
    pub delivery: Delivery,
    /// Its payload.
    pub payload: PayloadHash,
    /// Its result, if one is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<PayloadHash>,
    /// The job whose end pushed it, and its index among that job's follow-ups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<(JobId, u32)>,
    /// Its unique key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unique: Option<Arc<str>>,
    /// Its group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupId>,
    /// Whether it ended because it missed its deadline.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub expired: bool,
}

impl DumpedJob {
    /// Records a stored job.
    pub fn of(job: &Job) -> Self {
        Self {
            id: job.id,
            state: job.live.state,
            queue: job.spec.queue.clone(),
            kind: job.spec.kind.clone(),
            priority: job.spec.priority,
            due: job.live.due,
            attempt: job.live.attempt,
            delivery: job.live.delivery,
            payload: PayloadHash::of(&job.spec.payload),
            result: job.live.result.as_ref().map(|kept| PayloadHash::of(&kept.payload)),
            parent: job.spec.parent,
            unique: job.spec.unique.as_ref().map(|unique| Arc::clone(&unique.key)),
            group: job.spec.group,
            expired: job.live.why == Some(EndReason::Expired),
        }
    }
}
