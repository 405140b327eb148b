//! Marks: restarts, deploys and changes, which explain a chart.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::units::Moment;

/// Selects marks.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct MarksQuery {
    /// Only marks from this time on.
    pub from: Option<Moment>,
    /// Only marks before this time.
    pub to: Option<Moment>,
}

/// Marks, oldest first. The server keeps the newest 1,000 in memory, and reads those of restarts and changes before its
/// start from the audit log, if it has one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Marks {
    /// The marks.
    pub marks: Vec<Mark>,
}

/// Something that may explain a change in a chart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Mark {
    /// When it happened.
    pub at: Moment,
    /// The event.
    pub mark: MarkKind,
    /// The queue or limit that was changed, or the kinds or queues of the workers, as far as known.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub names: Vec<String>,
    /// For `queue` and `limit`: how it was changed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub action: Option<MarkAction>,
    /// For `start` and `deploy`: the version of the server or of the workers.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub version: Option<String>,
    /// The caller who made the change.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub by: Option<String>,
}

/// The event of a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MarkKind {
    /// The server started.
    Start,
    /// A version of workers connected for the first time.
    Deploy,
    /// A queue was changed.
    Queue,
    /// A limit was changed.
    Limit,
}

/// How a queue or a limit was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MarkAction {
    /// The queue was paused.
    Pause,
    /// The queue was resumed.
    Resume,
    /// Its settings were changed, or the limit was set.
    Change,
    /// The limit was removed.
    Remove,
}
