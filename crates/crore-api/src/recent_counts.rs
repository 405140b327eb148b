//! Counts of all jobs by queue, kind and state. On a server with many queues one snapshot serves all callers for a short
//! time: counting visits every queue under the store's lock.

use std::sync::Arc;
use std::time::Duration;

use crore::store::views::JobCount;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::{Api, Fault, Grant};

/// Up to so many rows are counted for each call.
const MAX_FRESH_ROWS: usize = 1000;
/// Maximum age of a larger snapshot.
const MAX_AGE: Duration = Duration::from_millis(500);

/// The newest snapshot. Callers that need another one wait for the same.
#[derive(Debug, Default)]
pub(crate) struct RecentCounts(Mutex<Option<CountSnapshot>>);

#[derive(Debug)]
struct CountSnapshot {
    counts: Arc<[JobCount]>,
    taken_at: Instant,
}

impl CountSnapshot {
    fn is_current(&self) -> bool {
        self.counts.len() > MAX_FRESH_ROWS && self.taken_at.elapsed() < MAX_AGE
    }
}

impl Api {
    /// Like [`Api::counts`] of all queues, in the order of queue, kind and state. With more than 1,000 rows, the numbers
    /// are up to half a second old.
    pub async fn recent_counts(&self, grant: &Grant) -> Result<Arc<[JobCount]>, Fault> {
        let mut snapshot = self.count_snapshot().0.lock().await;
        let current = snapshot.as_ref().filter(|snapshot| snapshot.is_current());
        let counts = match current {
            Some(current) => Arc::clone(&current.counts),
            None => {
                let counts: Arc<[JobCount]> = self.engine().jobs().counts(None).await?.into();
                let taken_at = Instant::now();
                *snapshot = Some(CountSnapshot { counts: Arc::clone(&counts), taken_at });
                counts
            }
        };
        drop(snapshot);
        Ok(match grant.only() {
            None => counts,
            Some(only) => {
                let seen = counts.iter().filter(|count| only.covers(&count.queue, &count.kind));
                seen.cloned().collect()
            }
        })
    }
}
