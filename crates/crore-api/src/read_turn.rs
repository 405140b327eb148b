//! Turns for calls that read whole jobs.
//!
//! Reading and converting a job with a payload of a megabyte takes a millisecond of a core. Hundreds of such calls at
//! once would fill the queues of the runtime, and every other call would wait for all of them. With turns there are
//! never more of them in these queues than cores, and other calls are served in between.

use std::thread::available_parallelism;

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::Api;

/// Turns for reading jobs: as many as cores. A local store reads without waiting, so more at once would not be
/// faster; reads from a store on another machine would need more turns.
#[derive(Debug)]
pub(crate) struct ReadTurns(Semaphore);

impl ReadTurns {
    pub(crate) fn new() -> Self {
        Self::for_cores(available_parallelism().map_or(1, usize::from))
    }

    fn for_cores(cores: usize) -> Self {
        Self(Semaphore::new(cores))
    }

    async fn turn(&self) -> ReadTurn<'_> {
        // The semaphore is never closed.
        ReadTurn(self.0.acquire().await.ok())
    }
}

/// A turn. Lasts until it is dropped: keep it until the response is encoded.
#[derive(Debug)]
pub struct ReadTurn<'a>(#[expect(dead_code, reason = "held")] Option<SemaphorePermit<'a>>);

impl Api {
    /// Waits for a turn to read a job with its payload.
    pub async fn read_turn(&self) -> ReadTurn<'_> {
        self.read_turns().turn().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn there_are_as_many_turns_as_cores() {
        let turns = ReadTurns::for_cores(2);
        let first = turns.turn().now_or_never();
        let second = turns.turn().now_or_never();
        assert!(first.is_some() && second.is_some());
        let mut third = Box::pin(turns.turn());
        assert!(third.as_mut().now_or_never().is_none());
        drop(first);
        assert!(third.now_or_never().is_some());
    }
}
