use std::path::PathBuf;

use crore_core::settings::{one_of, section};
use crore_store::{Durability, embedded};

one_of! {
    /// Durability of acknowledged writes.
    pub(crate) enum RequiredDurability {
        /// Lost when the process ends.
        D0 = "D0",
        /// Survives the end of the process.
        D1 = "D1",
        /// Survives a power failure.
        D2 = "D2",
        /// Survives the loss of a host.
        D3 = "D3",
    }
}

section! {
    /// Storage of jobs.
    pub(crate) struct StoreConfig = "store" {
        /// Data directory; created if missing. Only one server may use it at a time.
        data: PathBuf = "crore-data",
        /// Store everything in memory only: fast, and lost when crore stops.
        memory: bool = "false",
        /// Minimum durability of acknowledged writes; the server refuses to start with less. `D0`: memory only; `D1`:
        /// survives the end of the process; `D2`: survives a power failure; `D3`: survives the loss of a machine.
        require: Option<RequiredDurability> = none,
        /// Directory for backups of the running server (`crore backup --name NAME`, or `POST /v1/backups`). Without it,
        /// the server refuses backups.
        backups: Option<PathBuf> = none,
        /// Options of the embedded store.
        ..embedded: embedded::Options,
    }
    shown data, memory, durability, sync_every, require, backups, segment, buffer;
}

impl RequiredDurability {
    const fn durability(self) -> Durability {
        match self {
            Self::D0 => Durability::Memory,
            Self::D1 => Durability::Process,
            Self::D2 => Durability::Power,
            Self::D3 => Durability::Host,
        }
    }
}

impl StoreConfig {
    /// Minimum durability that the configuration requires.
    pub(crate) fn required(&self) -> Durability {
        self.require.map_or(Durability::Memory, RequiredDurability::durability)
    }
}
