//! Rate and concurrency limits.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

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
}

/// All limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Limits {
    /// The limits, by name.
    pub limits: Vec<Limit>,
}
