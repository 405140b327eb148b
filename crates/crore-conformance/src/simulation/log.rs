//! The embedded store as a subject.

use std::sync::Arc;

use crore_core::{Clock, JobId, Span, State};
use crore_store::Error;
use crore_store::embedded::disk::Disk;
use crore_store::embedded::{Durability, Embedded, Options};

use super::config::{self, Config};
use super::subject::{Loops, Running, Subject};

/// The embedded store, without threads.
#[derive(Debug, Clone, Copy, Default)]
pub struct OnLog;

impl Subject for OnLog {
    fn open(
        &mut self,
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        config: &Config,
    ) -> Result<Running, Error> {
        let durability = match config.store.durability {
            config::Durability::Always => Durability::Always,
            config::Durability::Interval => Durability::Interval,
            config::Durability::None => Durability::None,
        };
        let segment_bytes = config.store.segment_bytes;
        let sync_every = Span::from_millis(100);
        let options = Options { durability, sync_every, segment_bytes, ..Options::default() };
        let store = Arc::new(Embedded::open_on(disk, clock, options)?);
        Ok(Running::new(Arc::clone(&store) as _, store))
    }

    fn survives(&self) -> bool {
        true
    }
}

impl Loops for Embedded {
    fn commit_once(&self) -> Result<bool, Error> {
        Self::commit_once(self)
    }

    fn keep_once(&self) -> Result<bool, Error> {
        Self::keep_once(self)
    }

    fn peek(&self, id: JobId) -> Option<(State, bool)> {
        let live = Self::peek(self, id)?;
        Some((live.state, live.stop))
    }
}
