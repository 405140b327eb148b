//! Events, and the history that they make.

use std::sync::Arc;

use crore_core::Time;
use serde::{Deserialize, Serialize};

use super::{Answer, Fault, Node, Op};

/// How a fetch ends (in `info`) whose caller was seen to leave before he was told what he was given: as a stream that
/// is over. It may be given back since then, and not only when its lease is over.
pub const LEFT: &str = "its caller has left";

/// One line of a history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Its place in the recorder's total order.
    pub i: u64,
    /// The recorder's own time in nanoseconds; it never goes back.
    pub t: u64,
    /// Which caller; for faults and nodes, which node.
    pub p: Arc<str>,
    /// What happened.
    #[serde(flatten)]
    pub what: What,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "k", rename_all = "kebab-case")]
pub enum What {
    /// A call begins. Whatever it does, it does not do it before.
    Invoke {
        /// The number of the call, which ties it to its end.
        n: u64,
        /// The node that is asked; none where there is only one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<Arc<str>>,
        /// What is asked.
        #[serde(flatten)]
        op: Op,
    },
    /// A call was answered.
    Ok {
        /// The number of the call.
        n: u64,
        /// The store's time, if the answer says it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        now: Option<Time>,
        /// The answer.
        r: Answer,
    },
    /// A call certainly had no effect, and has none later: it was refused.
    Fail {
        /// The number of the call.
        n: u64,
        /// Why, in words.
        why: String,
    },
    /// Nobody knows what became of a call: it may have had its effect, may have it yet, or never.
    Info {
        /// The number of the call.
        n: u64,
        /// What was seen of it, in words.
        why: String,
    },
    /// The harness broke something.
    Fault {
        /// What.
        fault: Fault,
    },
    /// Something was seen of a node.
    Node {
        /// What.
        node: Node,
    },
}

/// Everything that was recorded, in the order of `i`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct History {
    /// The events.
    pub events: Vec<Event>,
}
