//! The embedded store under simulation.

use std::sync::Arc;

use crore_core::{Clock, JobId, Span, State};
use crore_store::Error;
use crore_store::embedded::disk::Disk;
use crore_store::embedded::{DurabilityMode, Embedded, Options};

use super::config::{self, SimConfig};
use super::subject::{OpenStore, SimulatedStore, StoreLoops};

/// The embedded store, without threads.
#[derive(Debug, Clone, Copy, Default)]
pub struct SimulatedEmbedded;

impl SimulatedStore for SimulatedEmbedded {
    fn open(
        &mut self,
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        config: &SimConfig,
    ) -> Result<OpenStore, Error> {
        let durability = match config.store.durability {
            config::StoreDurability::Always => DurabilityMode::Always,
            config::StoreDurability::Interval => DurabilityMode::Interval,
            config::StoreDurability::None => DurabilityMode::None,
        };
        let segment_bytes = config.store.segment_bytes;
        let sync_every = Span::from_millis(100);
        let options = Options { durability, sync_every, segment_bytes, ..Options::default() };
        let store = Arc::new(Embedded::open_on(disk, clock, options)?);
        Ok(OpenStore::new(Arc::clone(&store) as _, store))
    }

    fn survives_crash(&self) -> bool {
        true
    }
}

impl StoreLoops for Embedded {
    fn commit_once(&self) -> Result<bool, Error> {
        Self::commit_once(self)
    }

    fn keep_once(&self) -> Result<bool, Error> {
        Self::maintain_once(self)
    }

    fn peek(&self, id: JobId) -> Option<(State, bool)> {
        let live = Self::peek(self, id)?;
        Some((live.state, live.stop))
    }
}
