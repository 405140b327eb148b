//! Results of jobs.

use crore::EndedJob;
use crore_core::{JobId, Span};

use crate::{Api, Fault};

impl Api {
    /// Waits for a job to end; `None` if it has not ended in time. A read-once result is consumed.
    ///
    /// A shutdown ends the wait, but a job that has already ended is still returned. Waiting and consuming are two
    /// steps, so that a cancelled wait consumes nothing.
    pub async fn wait_for_job(&self, id: JobId, wait: Span) -> Result<Option<EndedJob>, Fault> {
        let engine = self.engine();
        let ended = match engine.results().wait_for_end(id, Span::ZERO).await? {
            Some(ended) => Some(ended),
            None => tokio::select! {
                ended = engine.results().wait_for_end(id, wait) => ended?,
                () = self.closing() => None,
            },
        };
        let Some(ended) = ended else { return Ok(None) };
        let result = engine.results().take(id).await?;
        Ok(Some(EndedJob { result, ..ended }))
    }
}
