use crore_core::Size;
use crore_core::settings::section;
use std::path::PathBuf;

use crore_api::audit;

section! {
    /// What operators change, and who was refused: a line of JSON for each.
    pub(crate) struct Audit = "audit" {
        /// The file; none is written, unless one is named.
        file: Option<PathBuf> = none,
        /// When the file would be larger than this, a new one is begun.
        max_size: Size = "64MiB",
        /// How many older files are kept: `audit.jsonl.1` is the youngest of them.
        keep: u64 = "8",
    }
}

impl Audit {
    pub(crate) fn options(&self) -> audit::Options {
        audit::Options {
            file: self.file.clone(),
            max_size: self.max_size,
            keep: u32::try_from(self.keep).unwrap_or(u32::MAX),
        }
    }
}
