//! Rate and concurrency limits.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::units::Moment;

/// Definition of a limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetLimit {
    /// Text of the limit: `where kind = "mail" rate 100/1m concurrency 5 per payload.tenant`.
    #[schema(example = r#"where kind = "mail" rate 100/1m"#, max_length = 16384)]
    pub limit: String,
}

/// A limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Limit {
    /// The name.
    pub name: String,
    /// Text of the limit.
    pub limit: String,
    /// Keys that reports have paused, at most 100, by value. Setting the limit ends their pauses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paused: Vec<PausedLimitKey>,
}

/// A key of a limit under which no job starts for some time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PausedLimitKey {
    /// The value of the limit's `per` field; absent if the limit or the job has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The end of the pause.
    pub until: Moment,
}

/// All limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Limits {
    /// The limits, by name.
    pub limits: Vec<Limit>,
}
