//! Deliveries that a killed process of this server has left: their leases would delay the jobs until they expire.

use crore::Engine;
use crore::store::views::ListQuery;
use crore_core::State;

/// Name of the host in a server with this store. A store has one server at a time, and no other worker has this name
/// by accident, so a delivery under it belongs to this server or to one that is dead.
pub(super) fn host_name(engine: &Engine) -> String {
    let id = engine.status().store_id().to_string();
    // Half of it is enough, and leaves room for the name of the queue.
    format!("crore-{}", id.get(..16).unwrap_or(&id))
}

/// Expires the leases of the jobs that a dead host process was running, so that they run again now. Late reports of
/// the dead process are refused, because the jobs get new deliveries. Like any expiry, it counts as a crash of the
/// worker. Call it before the host starts.
pub(crate) async fn release_orphaned_jobs(engine: &Engine) -> Result<usize, crore::Error> {
    let prefix = format!("{}/", host_name(engine));
    let n = engine.status().caps().page;
    let (mut after, mut released) = (None, 0);
    loop {
        let query =
            ListQuery { state: State::Running, queue: None, kind: None, key: None, after, n };
        let page = engine.list(query).await?;
        let is_left = |worker: Option<&crore_core::Name>| {
            worker.is_some_and(|worker| worker.as_str().starts_with(&prefix))
        };
        let left: Vec<_> = page
            .jobs
            .iter()
            .filter(|job| is_left(job.live.worker.as_ref()))
            .map(|job| (job.id, job.live.delivery))
            .collect();
        released += left.len();
        if !left.is_empty() {
            engine.deliveries().lapse(left).await?;
        }
        after = page.next;
        if after.is_none() {
            return Ok(released);
        }
    }
}
