//! Adds the errors of stored jobs after a start, in slices, so that the table is not empty after a restart.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crore::store::views::ListQuery;
use crore_core::{Job, State};
use tokio::time::{Instant, sleep_until};

use super::{ErrorTable, ObservedError};
use crate::Api;

/// Jobs read at once; other calls wait meanwhile.
const SLICE: usize = 100;
/// Pause between slices.
const PAUSE: Duration = Duration::from_millis(5);
/// Maximum number of jobs read of each state.
const MAX_JOBS: usize = 20_000;

impl Api {
    /// Adds the errors of jobs that are dead or wait for a retry: of the newest dead ones, and of those that are due
    /// next. Errors since the start of the server are not counted twice.
    pub async fn fill_errors(&self) {
        let table = self.errors();
        table.is_filling.store(true, Ordering::Release);
        for state in [State::Dead, State::Scheduled] {
            if let Err(error) = self.fill_errors_of(state).await {
                tracing::warn!(%error, "errors of stored jobs not read");
            }
        }
        table.is_filling.store(false, Ordering::Release);
    }

    async fn fill_errors_of(&self, state: State) -> Result<(), crore::Error> {
        let (mut after, mut read) = (None, 0);
        loop {
            let query = ListQuery { state, queue: None, kind: None, key: None, after, n: SLICE };
            let page = self.engine().list(query).await?;
            page.jobs.iter().for_each(|job| self.errors().add_history(job));
            read += page.jobs.len();
            if page.next.is_none() || read >= MAX_JOBS || self.is_closing() {
                return Ok(());
            }
            after = page.next;
            sleep_until(Instant::now() + PAUSE).await;
        }
    }
}

impl ErrorTable {
    /// Adds the errors of a job from before the start of the server.
    fn add_history(&self, job: &Job) {
        for attempt in job.live.history.iter().rev() {
            let Some(message) = attempt.error.as_deref() else { continue };
            if attempt.ended_at <= self.since {
                let (queue, kind) = (&job.spec.queue, &job.spec.kind);
                let error =
                    ObservedError { queue, kind, job: job.id, message, at: attempt.ended_at };
                self.record(&error, || None);
            }
        }
    }
}
