use std::path::PathBuf;

use crore_core::settings::{one_of, section};
use crore_store::{Durability, embedded};

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
        /// Do not start if answers survive less: `D0` nothing, `D1` the end of the process, `D2` a power cut, `D3` the
        /// loss of a host.
        require: Option<Class> = none,
        /// The directory below which backups of the running server are made (`crore backup --name NAME`, or
        /// `POST /v1/backups`); none can be, unless one is named.
        backups: Option<PathBuf> = none,
        /// The store in the directory.
        ..embedded: embedded::Options,
    }
    shown data, memory, durability, sync_every, require, backups, segment, buffer;
}

impl Class {
    const fn durability(self) -> Durability {
        match self {
            Self::D0 => Durability::Memory,
            Self::D1 => Durability::Process,
            Self::D2 => Durability::Power,
            Self::D3 => Durability::Host,
        }
    }
}

impl Store {
    /// What answers have to survive, at least.
    pub(crate) fn required(&self) -> Durability {
        self.require.map_or(Durability::Memory, Class::durability)
    }
}
