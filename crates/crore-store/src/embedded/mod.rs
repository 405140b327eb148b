//! The embedded store: durable, in one directory, without other software.
//!
//! All operations run on the in-memory index under one lock and append their changes to the pending
//! commit. The **committer** thread writes and syncs one commit after another and wakes the callers
//! that wait for it. The **keeper** thread does background work: it prepares files, compacts and
//! releases old segments, and writes hints. `docs/design/0002-log.md` specifies the files.

mod backup;
mod check;
pub(crate) mod codec;
mod commit;
mod compact;
pub mod disk;
mod durable;
mod frame;
mod hint;
mod inner;
mod keeper;
mod log;
mod log_files;
mod new_file;
mod options;
mod pending_commit;
mod read_ahead;
mod record;
mod recover;
mod replay;
mod scan;
mod segment;
mod side;
mod space_needs;
mod store;

pub use backup::Backup;
pub use check::{Damage, RepairReport, RepairStep, VerifyReport, repair, show, verify};
pub use options::{DurabilityMode, Options};
pub use recover::OpenReport;
pub use store::{Embedded, StoreHealth};
