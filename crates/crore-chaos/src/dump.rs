//! An offline look into the store, when no server has it open.

use std::path::Path;
use std::sync::Arc;

use crore_core::State;
use crore_store::embedded::{Embedded, Options};
use crore_store::views::Query;
use crore_store::{Error, SystemClock, Views};
use crore_testkit::history::answer::Count;
use crore_testkit::history::node::{Dump, Stored};

const PAGE: usize = 1000;

/// Everything that is in a store.
pub(crate) async fn dump(dir: &Path, segment_bytes: u64) -> Result<Dump, Error> {
    let options = Options { segment_bytes, ..Options::default() };
    let store = Embedded::open(dir, Arc::new(SystemClock), options)?;
    let mut jobs = Vec::new();
    for state in State::ALL {
        let mut after = None;
        loop {
            let query = Query { state, queue: None, kind: None, after, n: PAGE };
            let page = store.list(query).await?;
            jobs.extend(page.jobs.iter().map(Stored::of));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
    }
    let counts = store.counts(None).await?.into_iter().map(|count| Count {
        queue: count.queue,
        kind: count.kind,
        state: count.state,
        n: count.n,
    });
    let dump = Dump { jobs, counts: counts.collect() };
    store.close()?;
    Ok(dump)
}
