//! What happened to nodes: faults that a harness injected, and what was seen of a node.

use std::sync::Arc;

use crore_core::{Delivery, GroupId, Job, JobId, Name, State, Time};
use serde::{Deserialize, Serialize};

use super::Hash;
use super::answer::Count;

/// Something that a harness broke, recorded at the latest when it takes effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// The process died; what it had written is there.
    Crash,
    /// The machine died; only what was synced is there, and perhaps some of the rest.
    PowerCut,
    /// A write or a sync of the store's files reports an error from here on, until the next
    /// opening. Recorded when the error is given to the store.
    SyncError,
    /// There is no more room from here on; room that the store had taken before is its own.
    DiskFull,
    /// There is room again.
    DiskFreed,
    /// The node's clock jumps by this many milliseconds, back if negative.
    ClockJump {
        /// By how much.
        by: i64,
    },
    /// Bytes of the store's files were changed or cut off while nothing had them open. If the next
    /// opening is refused, the harness puts the files right before it opens again.
    Corruption {
        /// Which, in words.
        what: String,
    },
}

/// Something that was seen of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Node {
    /// It opened its store and serves.
    Opened,
    /// It did not open its store, and said why.
    Refused {
        /// What it said.
        message: String,
    },
    /// It reported, loudly and by itself, that acknowledged data is missing.
    Reported {
        /// What it said.
        message: String,
    },
    /// It was closed in order, or has closed itself.
    Closed,
    /// What an offline look into its store found. The last one of a history is the ground truth.
    Dump(Dump),
}

/// Everything that is in a store.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Dump {
    /// Every job.
    pub jobs: Vec<Stored>,
    /// How many jobs there are, as the store counts them.
    pub counts: Vec<Count>,
}

/// A job in a dump.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stored {
    /// Its number.
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
    pub payload: Hash,
    /// Its result, if one is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Hash>,
    /// The job whose end pushed it, and its place among the follow-ups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<(JobId, u32)>,
    /// Its unique key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unique: Option<Arc<str>>,
    /// Its group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupId>,
}

impl Stored {
    /// What is recorded of a stored job.
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
            payload: Hash::of(&job.spec.payload),
            result: job.live.result.as_ref().map(|kept| Hash::of(&kept.payload)),
            parent: job.spec.parent,
            unique: job.spec.unique.as_ref().map(|unique| Arc::clone(&unique.key)),
            group: job.spec.group,
        }
    }
}
