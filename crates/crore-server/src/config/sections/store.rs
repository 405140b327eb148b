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
        /// Minimum durability class of the store; the server refuses to start with a lower one. The class says which
        /// failures an acknowledged write survives. `D0`: none, as with `memory`. `D1`: a stop, a crash or a kill of
        /// the server; what `durability = "interval"` and `"none"` reach, and every store on a file system in memory
        /// (tmpfs, ramfs, or an overlay on them). `D2`: also a power failure or a crash of the operating system; what
        /// `durability = "always"` reaches on a disk. `D3`: also the loss of the machine; no store reaches it yet.
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

    /// The file system of the data directory, if it is in memory.
    pub(crate) fn in_memory_file_system(&self) -> Option<String> {
        if self.memory { None } else { embedded::disk::in_memory_file_system(&self.data) }
    }

    /// How to get a store with this durability.
    pub(crate) fn durability_advice(&self, needs: Durability) -> String {
        if needs == Durability::Host {
            return "no store of this version survives the loss of its machine; require D2, and back up the store"
                .to_owned();
        }
        if self.memory {
            return "it is in memory only; remove `store.memory` (`--memory`)".to_owned();
        }
        match self.in_memory_file_system() {
            Some(file_system) => format!(
                "the data directory `{}` is on the file system `{file_system}`, which a power failure loses; choose a \
                 directory on a disk with `store.data` (`--data`)",
                self.data.display()
            ),
            None => "set `store.durability` to `always`".to_owned(),
        }
    }
}
