//! The embedded store: everything durable in one directory, with nothing else to install.
//!
//! All verbs run on the index in memory, under one lock, and append what they changed to the commit
//! that is being gathered; the **committer** writes and syncs one commit after the other, and those
//! who wait for theirs are woken. The **keeper** does what nobody waits for: it makes files ready,
//! gives old ones up, and writes hints. `docs/design/0002-the-log.md` draws the files byte by byte.

mod ahead;
mod backup;
mod check;
mod codec;
mod commit;
mod compact;
pub mod disk;
mod durable;
mod frame;
mod hint;
mod inner;
mod keep;
mod log;
mod needs;
mod options;
mod record;
mod recover;
mod replay;
mod room;
mod scan;
mod segment;
mod side;
mod store;
mod tail;

pub use backup::Backup;
pub use check::{Damage, Repairs, Report, Step, repair, show, verify};
pub use options::{Durability, Options};
pub use recover::Found;
pub use store::{Embedded, Health};
