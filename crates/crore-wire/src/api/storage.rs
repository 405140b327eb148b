//! The store of the server: sizes, growth, backups.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::units::Moment;

/// State of the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Storage {
    /// Durability of acknowledged writes: `D0` to `D3`, see `GET /v1/info`.
    pub durability: String,
    /// Problems of the store: `poisoned`, `full`, `stuck` (segments cannot be released because of damage).
    pub problems: Vec<String>,
    /// Sizes; absent for a store in memory.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub disk: Option<DiskUse>,
    /// Backups; absent if the server has no backup directory.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub backups: Option<BackupState>,
    /// When the server started.
    pub started_at: Moment,
    /// Memory of the server's process in bytes, if known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub resident_bytes: Option<u64>,
    /// CPU time of the server's process in milliseconds, if known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cpu_ms: Option<u64>,
}

/// Sizes of a store on disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiskUse {
    /// Bytes of all files of the store.
    pub bytes: u64,
    /// Bytes of records in use; compaction frees the rest.
    pub live_bytes: u64,
    /// Number of segment files.
    pub segments: usize,
    /// Bytes written since the server started.
    pub written_bytes: u64,
    /// Free bytes of the file system, if known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub free_bytes: Option<u64>,
    /// Size of the store over the last 24 hours, oldest first: one sample every ten minutes since the server started.
    pub history: Vec<DiskSample>,
}

/// Size of the store at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiskSample {
    /// When it was measured.
    pub at: Moment,
    /// Bytes of all files of the store.
    pub bytes: u64,
    /// Bytes of records in use.
    pub live_bytes: u64,
}

/// Backups in the server's backup directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BackupState {
    /// Number of backups; at most 1000 are counted.
    pub count: usize,
    /// The newest backup.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub last: Option<StoredBackup>,
}

/// A backup in the server's backup directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StoredBackup {
    /// The name.
    pub name: String,
    /// When it was made.
    pub at: Moment,
    /// Bytes of its files.
    pub bytes: u64,
}
