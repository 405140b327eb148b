//! Backups of a running server.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Request for a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewBackup {
    /// Name of the backup, which must not exist yet in the server's backup directory: letters, digits, `.`, `-`
    /// and `_`, not beginning with `.`.
    #[schema(min_length = 1, max_length = 255, pattern = "^[A-Za-z0-9_-][A-Za-z0-9._-]*$")]
    pub name: String,
}

/// A completed backup: a store with every write that was acknowledged before the request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Backup {
    /// The name.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Number of segment files.
    pub segments: usize,
    /// The last commit it contains.
    pub commit: u64,
}
