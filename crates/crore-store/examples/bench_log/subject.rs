//! The store that is measured, and the work that it is given.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crore_core::job::Retain;
use crore_core::machine::{Event, Outcome, decide};
use crore_core::{Encoding, Name, NewJob, Payload, Spec};
use crore_store::embedded::{Embedded, Options};
use crore_store::jobs::{Applied, Claim, Order, Pushed, Write};
use crore_store::{Store, SystemClock};

use crate::contender::Contender;
use crate::drive::{Ran, Until, drive, wait};

/// The length of every payload.
pub(crate) const PAYLOAD_BYTES: usize = 250;

/// Whether the subject keeps anything in its directory.
pub(crate) const ON_DISK: bool = true;

/// The store in this directory, and how it is closed.
fn open(dir: &Path) -> (Arc<dyn Store>, Close) {
    let store = Embedded::open(dir, Arc::new(SystemClock), Options::DEFAULT).unwrap();
    let store = Arc::new(store);
    (store.clone(), Box::new(move || store.close().unwrap()))
}

type Close = Box<dyn FnOnce() + Send + Sync>;

/// An open store.
pub(crate) struct Subject {
    store: Arc<dyn Store>,
    close: Close,
    job: NewJob,
    left_job: NewJob,
    ask: Claim,
}

impl Subject {
    /// Opens the store in a directory, which is made if it is not there.
    pub(crate) fn open(dir: &Path) -> Self {
        std::fs::create_dir_all(dir).unwrap();
        let (store, close) = open(dir);
        let (job, left_job) = (job("work"), job("left"));
        let (queues, worker) = (vec![name("work")], name("bench"));
        let ask = Claim { queues, kinds: None, n: 1, order: Order::Merged, worker };
        Self { store, close, job, left_job, ask }
    }

    /// Closes it; everything is on disk then.
    pub(crate) fn close(self) {
        let Self { store, close, .. } = self;
        close();
        drop(store);
    }

    /// Like a cycle, but one in a hundred is pushed to a queue from which nobody claims. `left` says
    /// how many those are by now.
    pub(crate) fn churn(&self, until: Until, in_flight: usize, left: &AtomicU64) -> Ran {
        drive(until, in_flight, move |turn| async move {
            while let Some(begun_at) = turn.begin() {
                let leave = turn.left() % 100 == 0;
                let job = if leave { &self.left_job } else { &self.job };
                self.pushed(vec![job.clone()]).await;
                turn.answered(begun_at);
                if leave {
                    left.fetch_add(1, Ordering::Relaxed);
                } else {
                    self.claim_and_finish(1).await;
                }
                turn.done(1);
            }
        })
    }

    async fn pushed(&self, jobs: Vec<NewJob>) {
        let n = jobs.len();
        let pushed = self.store.push(jobs.into()).await.unwrap().into_inner().jobs;
        assert!(pushed.len() == n && pushed.iter().all(|job| matches!(job, Pushed::New(_))));
    }

    /// Gives how many there were.
    async fn claim_and_finish(&self, n: usize) -> usize {
        let jobs = self.store.claim(Claim { n, ..self.ask.clone() }).await.unwrap().jobs;
        let done = jobs.iter().map(|job| {
            let report = Outcome::Done { result: None }.into();
            let event = Event::Finished { delivery: Some(job.live.delivery), report };
            Write::Job(decide(job, &event, 0).unwrap())
        });
        let applied = self.store.apply(done.collect()).await.unwrap().into_inner();
        assert!(applied.len() == jobs.len() && applied.iter().all(|one| *one != Applied::Stale));
        jobs.len()
    }
}

impl Contender for Subject {
    fn name(&self) -> &'static str {
        "crore"
    }

    fn push(&self, until: Until, in_flight: usize, batch: usize) -> Ran {
        drive(until, in_flight, move |turn| async move {
            while let Some(begun_at) = turn.begin() {
                self.pushed(vec![self.job.clone(); batch]).await;
                turn.answered(begun_at);
                turn.done(batch);
            }
        })
    }

    fn cycle(&self, until: Until, in_flight: usize) -> Ran {
        drive(until, in_flight, move |turn| async move {
            while let Some(begun_at) = turn.begin() {
                self.pushed(vec![self.job.clone()]).await;
                turn.answered(begun_at);
                assert_eq!(self.claim_and_finish(1).await, 1, "every claim finds a job");
                turn.done(1);
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

pub(crate) fn name(text: &str) -> Name {
    Name::new("name", text).unwrap()
}

pub(crate) fn job(queue: &str) -> NewJob {
    let payload = Payload::new(Encoding::Bytes, vec![7; PAYLOAD_BYTES]);
    let mut spec = Spec::new(name(queue), name("kind"), payload);
    spec.retain = Retain::Nothing;
    spec.into()
}
