//! The embedded store as a contender.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crore_core::job::JobRetention;
use crore_core::machine::{JobEvent, Outcome, decide};
use crore_core::version::KindVersions;
use crore_core::{Encoding, Name, NewJob, Payload, Spec};
use crore_store::embedded::{Embedded, Options};
use crore_store::jobs::{Applied, Claim, Pushed, QueueOrder, StoreWrite};
use crore_store::{Store, SystemClock};

use crate::contender::Contender;
use crate::driver::{RunFigures, Until, drive, wait};

/// Length of every payload.
pub const PAYLOAD_BYTES: usize = 250;

/// The store in a directory, and the function that closes it.
fn open(dir: &Path) -> (Arc<dyn Store>, Close) {
    let store = Embedded::open(dir, Arc::new(SystemClock), Options::default()).unwrap();
    let store = Arc::new(store);
    (store.clone(), Box::new(move || store.close().unwrap()))
}

type Close = Box<dyn FnOnce() + Send + Sync>;

/// An open store and the work that it is given.
pub struct EmbeddedStore {
    store: Arc<dyn Store>,
    close: Close,
    job: NewJob,
    unclaimed_job: NewJob,
    claim: Claim,
}

impl fmt::Debug for EmbeddedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedStore").finish_non_exhaustive()
    }
}

impl EmbeddedStore {
    /// Opens the store in a directory, which is created if it is missing.
    pub fn open(dir: &Path) -> Self {
        std::fs::create_dir_all(dir).unwrap();
        let (store, close) = open(dir);
        let (job, left_job) = (job("work"), job("left"));
        let (queues, worker) = (vec![name("work")], name("bench"));
        let ask = Claim {
            queues,
            kinds: None,
            versions: KindVersions::default(),
            n: 1,
            order: QueueOrder::Merged,
            worker,
        };
        Self { store, close, job, unclaimed_job: left_job, claim: ask }
    }

    /// Closes it; everything is on disk after that.
    pub fn close(self) {
        let Self { store, close, .. } = self;
        close();
        drop(store);
    }

    /// Like a cycle, but one job in a hundred is pushed to a queue that is never claimed from; `left` counts those.
    pub fn churn(&self, until: Until, in_flight: usize, left: &AtomicU64) -> RunFigures {
        drive(until, in_flight, move |state| async move {
            while let Some(begun_at) = state.begin() {
                let leave = state.requests_left() % 100 == 0;
                let job = if leave { &self.unclaimed_job } else { &self.job };
                self.push_jobs(vec![job.clone()]).await;
                state.record_latency(begun_at);
                if leave {
                    left.fetch_add(1, Ordering::Relaxed);
                } else {
                    self.claim_and_finish(1).await;
                }
                state.count_jobs(1);
            }
        })
    }

    async fn push_jobs(&self, jobs: Vec<NewJob>) {
        let n = jobs.len();
        let pushed = self.store.push(jobs.into()).await.unwrap().into_inner().jobs;
        assert!(pushed.len() == n && pushed.iter().all(|job| matches!(job, Pushed::New(_))));
    }

    /// Claims up to `n` jobs and finishes them; returns their number.
    async fn claim_and_finish(&self, n: usize) -> usize {
        let jobs = self.store.claim(Claim { n, ..self.claim.clone() }).await.unwrap().jobs;
        let done = jobs.iter().map(|job| {
            let report = Outcome::Done { result: None }.into();
            let event = JobEvent::Finished { delivery: Some(job.live.delivery), report };
            StoreWrite::Job(decide(job, &event, 0).unwrap())
        });
        let applied = self.store.apply(done.collect()).await.unwrap().into_inner();
        assert!(applied.len() == jobs.len() && applied.iter().all(|one| *one != Applied::Stale));
        jobs.len()
    }
}

impl Contender for EmbeddedStore {
    fn name(&self) -> &'static str {
        "crore"
    }

    fn push(&self, until: Until, in_flight: usize, batch: usize) -> RunFigures {
        drive(until, in_flight, move |state| async move {
            while let Some(begun_at) = state.begin() {
                self.push_jobs(vec![self.job.clone(); batch]).await;
                state.record_latency(begun_at);
                state.count_jobs(batch);
            }
        })
    }

    fn cycle(&self, until: Until, in_flight: usize) -> RunFigures {
        drive(until, in_flight, move |state| async move {
            while let Some(begun_at) = state.begin() {
                self.push_jobs(vec![self.job.clone()]).await;
                state.record_latency(begun_at);
                assert_eq!(self.claim_and_finish(1).await, 1, "every claim finds a job");
                state.count_jobs(1);
            }
        })
    }

    fn count(&self) -> u64 {
        wait(self.store.counts(None)).unwrap().iter().map(|count| count.n).sum()
    }

    fn drain(&self) {
        wait(async { while self.claim_and_finish(1000).await > 0 {} });
        assert_eq!(self.count(), 0, "nothing is left");
    }
}

pub fn name(text: &str) -> Name {
    Name::new("name", text).unwrap()
}

pub fn job(queue: &str) -> NewJob {
    let payload = Payload::new(Encoding::Bytes, vec![7; PAYLOAD_BYTES]);
    let mut spec = Spec::new(name(queue), name("kind"), payload);
    spec.retain = JobRetention::Nothing;
    spec.into()
}
