use crore_core::settings::{one_of, section};
use std::path::PathBuf;

use crore_core::{Size, Span};
use crore_store::embedded;

one_of! {
    /// When a change is answered.
    pub(crate) enum Durability {
        /// When it is on the disk.
        Always = "always",
        /// When it is with the operating system, which is told now and then to put it on the disk.
        Interval = "interval",
        /// When it is with the operating system.
        None = "none",
    }
}

one_of! {
    /// What answers survive.
    pub(crate) enum Class {
        /// Nothing.
        D0 = "D0",
        /// The end of the process.
        D1 = "D1",
        /// A power cut.
        D2 = "D2",
        /// The loss of a host.
        D3 = "D3",
    }
}

section! {
    /// Where jobs are kept.
    pub(crate) struct Store = "store" {
        /// The directory; it is made if it is not there. One server at a time.
        data: PathBuf = "crore-data",
        /// Keep everything in memory instead: fast, and gone when crore stops.
        memory: bool = "false",
        /// When a change is answered. `always`: when it is on the disk; no crash and no power cut takes it
        /// back. `interval`: at once; a power cut takes back what was answered in the last `sync-every`.
        /// `none`: at once; the operating system puts it on the disk when it likes.
        durability: Durability = "always",
        /// How often everything is put on the disk, with `durability = "interval"`.
        sync_every: Span = "1s",
        /// Do not start if answers survive less: `D0` nothing, `D1` the end of the process, `D2` a power cut, `D3` the
        /// loss of a host.
        require: Option<Class> = none,
        /// The directory below which backups of the running server are made (`crore backup --name NAME`, or
        /// `POST /v1/backups`); none can be, unless one is named.
        backups: Option<PathBuf> = none,
        /// The size of a file of the log.
        segment: Size = "64MiB",
        /// How much may wait for the disk; callers wait while there is more.
        buffer: Size = "8MiB",
    }
}

impl Class {
    const fn durability(self) -> crore_store::Durability {
        match self {
            Self::D0 => crore_store::Durability::Memory,
            Self::D1 => crore_store::Durability::Process,
            Self::D2 => crore_store::Durability::Power,
            Self::D3 => crore_store::Durability::Host,
        }
    }
}

impl Store {
    /// What answers have to survive, at least.
    pub(crate) fn required(&self) -> crore_store::Durability {
        self.require.map_or(crore_store::Durability::Memory, Class::durability)
    }

    /// How the embedded store is opened.
    pub(crate) const fn options(&self) -> embedded::Options {
        let durability = match self.durability {
            Durability::Always => embedded::Durability::Always,
            Durability::Interval => embedded::Durability::Interval(self.sync_every),
            Durability::None => embedded::Durability::None,
        };
        let (segment_bytes, buffer_bytes) = (self.segment.0, self.buffer.0);
        embedded::Options { durability, segment_bytes, buffer_bytes, ..embedded::Options::DEFAULT }
    }
}
