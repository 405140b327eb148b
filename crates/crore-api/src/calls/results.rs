//! Results of jobs.

use crore::Ended;
use crore_core::{JobId, Span};

use crate::{Api, Fault};

impl Api {
    /// How a job ended, waiting for its end for a while; `None`: it has not ended. A result that can be read once is
    /// taken.
    ///
    /// A server that drains ends the wait, but still answers for a job that has ended. Waiting and taking are two
    /// steps, so that a wait that is given up takes nothing.
    pub async fn wait_for_job(&self, id: JobId, wait: Span) -> Result<Option<Ended>, Fault> {
        let engine = self.engine();
        let ended = match engine.results().ended(id, Span::ZERO).await? {
            Some(ended) => Some(ended),
            None => tokio::select! {
                ended = engine.results().ended(id, wait) => ended?,
                () = self.closing() => None,
            },
        };
        let Some(ended) = ended else { return Ok(None) };
        let result = engine.results().take(id).await?;
        Ok(Some(Ended { result, ..ended }))
    }
}
