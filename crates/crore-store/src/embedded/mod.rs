//! The embedded store: everything durable in one directory, with nothing else to install.
//!
//! All verbs run on the index in memory, under one lock, and append what they changed to the commit
//! that is being gathered; the **committer** writes and syncs one commit after the other, and those
//! who wait for theirs are woken. The **keeper** does what nobody waits for: it makes files ready,
//! gives old ones up, and writes hints. `docs/design/0002-the-log.md` draws the files byte by byte.

mod ahead;
mod backup;
mod codec;
mod commit;
mod compact;
pub mod disk;
mod durable;
mod examine;
mod fill;
mod frame;
mod gaps;
mod hint;
mod inner;
mod keep;
mod log;
mod mend;
mod needs;
mod options;
mod record;
mod recover;
mod repair;
mod repairs;
mod replay;
mod room;
mod scan;
mod segment;
mod show;
mod side;
mod store;
mod survey;
mod tail;
mod verify;

pub use backup::Backup;
pub use options::{Durability, Options};
pub use recover::Found;
pub use repair::repair;
pub use repairs::{Repairs, Step};
pub use show::show;
pub use store::{Embedded, Health};
pub use verify::{Damage, Report, verify};
