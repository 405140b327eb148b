//! Offline dump of the store, while no server has it open.

use std::path::Path;
use std::sync::Arc;

use crore_core::State;
use crore_store::embedded::{Embedded, Options};
use crore_store::views::ListQuery;
use crore_store::{Error, SystemClock, Views};
use crore_testkit::history::node::{DumpedJob, StoreDump};
use crore_testkit::history::response::RecordedCount;

const PAGE: usize = 1000;

/// Everything that is in a store.
pub(crate) async fn dump(dir: &Path, segment_bytes: u64) -> Result<StoreDump, Error> {
    let options = Options { segment_bytes, ..Options::default() };
    let store = Embedded::open(dir, Arc::new(SystemClock), options)?;
    let mut jobs = Vec::new();
    for state in State::ALL {
        let mut after = None;
        loop {
            let query = ListQuery { state, queue: None, kind: None, key: None, after, n: PAGE };
            let page = store.list(query).await?;
            jobs.extend(page.jobs.iter().map(DumpedJob::of));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
    }
    let counts = store.counts(None).await?.into_iter().map(|count| RecordedCount {
        queue: count.queue,
        kind: count.kind,
        state: count.state,
        n: count.n,
    });
    let dump = StoreDump { jobs, counts: counts.collect() };
    store.close()?;
    Ok(dump)
}
