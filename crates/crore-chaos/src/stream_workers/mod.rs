//! Streaming workers. They outlive servers and their own connections, and return as the same incarnation or as another.
//!
//! ```text
//! connection    a connection that can be stopped and cut
//! worker        its identity, the deliveries it holds between two streams, and how it returns
//! stream        one stream: its messages, and how they are recorded
//! misbehavior   the faults of a worker on its stream
//! report        reports of jobs
//! ```

mod connection;
mod misbehavior;
mod report;
mod stream;
mod worker;

use std::net::SocketAddr;
use std::sync::Arc;

use crore_testkit::SeededRng;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

pub(crate) use self::worker::Behavior;
use self::worker::{StreamFilter, StreamWorker};
use crate::context::ChaosContext;
use crate::draft::{KINDS, STREAMED_QUEUES};

/// All streaming workers of a run.
#[derive(Debug)]
pub(crate) struct StreamWorkers(Vec<Arc<Mutex<StreamWorker>>>);

impl StreamWorkers {
    pub(crate) fn new(context: &Arc<ChaosContext>, rng: &mut SeededRng) -> Self {
        let [first, second] = STREAMED_QUEUES;
        let filter = |queues: &[&'static str], kind: Option<&'static str>, strict| StreamFilter {
            queues: queues.to_vec(),
            kind,
            strict,
        };
        let all = [
            filter(&[first], None, false),
            filter(&[first, second], None, false),
            filter(&[second, first], None, true),
            filter(&[first, second], Some(KINDS[0]), false),
        ];
        let worker =
            |(n, filter)| StreamWorker::new(format!("streamed-{n}"), filter, context, rng.fork());
        Self(all.into_iter().enumerate().map(worker).map(Mutex::new).map(Arc::new).collect())
    }

    /// This many workers with the same queues.
    pub(crate) fn many(n: usize, context: &Arc<ChaosContext>, rng: &mut SeededRng) -> Self {
        let filter =
            || StreamFilter { queues: vec![STREAMED_QUEUES[0]], kind: None, strict: false };
        let worker = |n| StreamWorker::new(format!("streamed-{n}"), filter(), context, rng.fork());
        Self((0..n).map(worker).map(Mutex::new).map(Arc::new).collect())
    }

    /// Starts the workers; they run until the server is unreachable.
    pub(crate) fn begin(&self, address: SocketAddr, callers: &mut JoinSet<()>) {
        for worker in &self.0 {
            let worker = Arc::clone(worker);
            callers.spawn(async move { worker.lock().await.run(address).await });
        }
    }

    /// Sets their behavior; none of them is running.
    pub(crate) async fn set_behavior(&self, behavior: Behavior) {
        for worker in &self.0 {
            worker.lock().await.behavior = behavior;
        }
    }
}
