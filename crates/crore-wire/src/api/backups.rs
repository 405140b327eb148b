//! Backups of a running server.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A backup to make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewBackup {
    /// Its name, which nothing in the server's directory for backups has yet: letters, digits, `.`, `-` and
    /// `_`, and no `.` at its start.
    #[schema(min_length = 1, max_length = 255, pattern = "^[A-Za-z0-9_-][A-Za-z0-9._-]*$")]
    pub name: String,
}

/// A backup that was made: a store with everything that was answered before it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Backup {
    /// Its name.
    pub name: String,
    /// How many bytes it has.
    pub bytes: u64,
    /// In how many files.
    pub segments: usize,
    /// The newest commit in it.
    pub commit: u64,
}
