//! Work of the API in the background.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::Api;

/// Interval of the samples of the store's size.
const SAMPLE_EVERY: Duration = Duration::from_secs(600);

impl Api {
    /// Reads earlier marks and the errors of stored jobs, and then records the size of the store at intervals, until the server stops.
    pub async fn run_background(&self) {
        self.sample_disk();
        tokio::select! {
            // First: the engine of a server that stops cannot be read.
            biased;
            () = self.closing() => return,
            () = async { self.fill_marks().await; self.fill_errors().await } => {}
        }
        loop {
            tokio::select! {
                () = sleep_until(Instant::now() + SAMPLE_EVERY) => self.sample_disk(),
                () = self.closing() => return,
            }
        }
    }
}
