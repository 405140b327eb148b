//! Events and the history they form.

use std::sync::Arc;

use crore_core::Time;
use serde::{Deserialize, Serialize};

use super::{NodeObservation, RecordedFault, RecordedOp, RecordedResponse};

/// The `why` of a fetch that ends in `info` because its caller left before the response, for example on a
/// closed stream. Jobs it took may be given back from then on, before their leases end.
pub const CALLER_LEFT: &str = "its caller has left";

/// One line of a history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HistoryEvent {
    /// Position in the recorder's total order.
    pub i: u64,
    /// The recorder's monotonic time in nanoseconds.
    pub t: u64,
    /// The caller; for faults and nodes, the node.
    pub p: Arc<str>,
    /// The content of the event.
    #[serde(flatten)]
    pub what: HistoryEventBody,
}

/// The content of an event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "k", rename_all = "kebab-case")]
pub enum HistoryEventBody {
    /// A call begins. It has no effect before this event.
    Invoke {
        /// Number of the call; its end carries the same number.
        n: u64,
        /// The node that is called. `None` where there is only one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<Arc<str>>,
        /// The operation.
        #[serde(flatten)]
        op: RecordedOp,
    },
    /// A call received a response.
    Ok {
        /// The number of the call.
        n: u64,
        /// The store's time, if the response carries it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        now: Option<Time>,
        /// The response.
        r: RecordedResponse,
    },
    /// The call was refused: it had no effect and will have none.
    Fail {
        /// The number of the call.
        n: u64,
        /// The reason, as text.
        why: String,
    },
    /// The effect of the call is unknown: it may have happened, may still happen, or may never happen.
    Info {
        /// The number of the call.
        n: u64,
        /// The observation, as text.
        why: String,
    },
    /// The harness injected a fault.
    Fault {
        /// The fault.
        fault: RecordedFault,
    },
    /// Something was observed at a node.
    Node {
        /// The observation.
        node: NodeObservation,
    },
}

/// All recorded events, in the order of `i`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct History {
    /// The events.
    pub events: Vec<HistoryEvent>,
}
