//! Limits: how many jobs may start or run, and which ones.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A limit to set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetLimit {
    /// The limit: `where kind = "mail" rate 100/1m concurrency 5 per payload.tenant`.
    #[schema(example = r#"where kind = "mail" rate 100/1m"#, max_length = 16384)]
    pub limit: String,
}

/// A limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Limit {
    /// Its name.
    pub name: String,
    /// What it says.
    pub limit: String,
}

/// All limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Limits {
    /// By name.
    pub limits: Vec<Limit>,
}
