//! Calls of the memory store, each timed.

use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use crore_core::fair::FairKey;
use crore_core::job::JobRetention;
use crore_core::machine::{JobEvent, Outcome, decide};
use crore_core::version::KindVersions;
use crore_core::{Encoding, Job, Name, NewJob, Payload, Spec};
use crore_store::jobs::{Claim, QueueOrder, StoreWrite};
use crore_store::{Jobs, Memory, StoreFuture};

pub(crate) const BATCH: usize = 100;

/// The answer of the memory store, which is never pending.
pub(crate) fn now<T>(mut answer: StoreFuture<'_, T>) -> T {
    match answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result.unwrap(),
        Poll::Pending => unreachable!("the memory store answers at once"),
    }
}

pub(crate) fn name(text: &str) -> Name {
    Name::new("name", text).unwrap()
}

pub(crate) fn job(queue: &str, kind: &str) -> NewJob {
    let payload = Payload::new(Encoding::Bytes, vec![7; 250]);
    let mut spec = Spec::new(name(queue), name(kind), payload);
    spec.retain = JobRetention::Nothing;
    spec.into()
}

/// A job of a fair key.
pub(crate) fn fair_job(key: u64) -> NewJob {
    let mut job = job("q", "k");
    job.spec.fair = Some(FairKey::new(Some(format!("tenant-{key}").into())));
    job
}

pub(crate) fn claim_of(queue: &str) -> Claim {
    let queues = vec![name(queue)];
    Claim {
        queues,
        kinds: None,
        versions: KindVersions::default(),
        n: BATCH,
        order: QueueOrder::Merged,
        worker: name("bench"),
    }
}

/// Time spent in each verb.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct VerbTimes {
    pub(crate) push: Duration,
    pub(crate) claim: Duration,
    pub(crate) finish: Duration,
}

impl VerbTimes {
    pub(crate) fn all(self) -> Duration {
        self.push + self.claim + self.finish
    }
}

pub(crate) fn timed<T>(took: &mut Duration, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = work();
    *took += start.elapsed();
    result
}

pub(crate) fn push(store: &Memory, batch: Vec<NewJob>) {
    let n = batch.len();
    let pushed = now(store.push(batch.into()));
    assert_eq!(pushed.get().jobs.len(), n, "every job has an answer");
}

pub(crate) fn claim_all(store: &Memory, ask: &Claim, took: &mut Duration) -> Vec<Vec<Job>> {
    let mut claimed = Vec::new();
    loop {
        let ask = ask.clone();
        let jobs = timed(took, || now(store.claim(ask))).jobs;
        if jobs.is_empty() {
            return claimed;
        }
        claimed.push(jobs);
    }
}

pub(crate) fn finish_all(store: &Memory, claimed: Vec<Vec<Job>>, took: &mut Duration) {
    for jobs in claimed {
        timed(took, || {
            let done = |job: &Job| {
                let report = Outcome::Done { result: None }.into();
                let event = JobEvent::Finished { delivery: Some(job.live.delivery), report };
                StoreWrite::Job(decide(job, &event, 0).unwrap())
            };
            let applied = now(store.apply(jobs.iter().map(done).collect()));
            assert_eq!(applied.get().len(), jobs.len());
        });
    }
}
