//! Offline check and repair of a store that is not open: `crore verify` and `crore repair`.
//!
//! ```text
//! files     the files of the store, and the good frames in them
//! commits   the sequence of commits in those frames, and the gaps in it
//! contents  the records, decoded and compared with hints
//! verify    the damage that these three found; report: how it is printed
//! repair    passes over the store, one kind of damage at a time; repair_report: what it did
//! gap_fill, frame_rebuild   what a repair writes in place of damage
//! show      a listing of segments and frames
//! ```

mod commits;
mod contents;
mod files;
mod frame_rebuild;
mod gap_fill;
mod repair;
mod repair_report;
mod report;
mod show;
mod verify;

pub use repair::repair;
pub use repair_report::{RepairReport, RepairStep};
pub use report::{Damage, VerifyReport};
pub use show::show;
pub use verify::verify;
