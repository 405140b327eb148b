//! The store under test, its clock, and the helper methods that cases use.

use std::fmt::Debug;
use std::sync::Arc;

use crore_core::limit::Limit;
use crore_core::machine::{Change, JobEvent, NextRecord, Outcome, RetryDirective, decide};
use crore_core::version::KindVersions;
use crore_core::{Batch, Clock, Job, JobId, NewJob, Span, Time};
use crore_store::jobs::{
    Applied, Claim, Claimed, Pushed, PushedBatch, QueueOrder, Renew, Renewed, StoreWrite,
};
use crore_store::registry::{Define, Defined, QueueSettings, RegistryTable, RegistryValue};
use crore_store::{Jobs, Registry, Store, StoreFuture};
use crore_testkit::FakeClock;

use super::job_builder::name;

/// A fresh store and its clock.
#[derive(Debug)]
pub struct Subject<S: ?Sized> {
    /// The store, used by one case only.
    pub store: Arc<S>,
    /// Its clock. A remote store receives the time with every call.
    pub clock: Arc<FakeClock>,
}

/// The traits that a store implements first.
pub(super) trait JobsAndRegistry: Jobs + Registry {}

impl<T: Jobs + Registry> JobsAndRegistry for T {}

/// A subject for cases that use jobs, limits, queue settings and groups.
pub(super) type JobsSubject = Subject<dyn JobsAndRegistry>;

/// A subject for cases that use the whole store.
pub(super) type StoreSubject = Subject<dyn Store>;

/// The only randomness of the suite.
const FIXED_JITTER: u64 = 7;

/// The response, which must not be an error.
pub(super) async fn expect_ok<T: Debug>(answer: StoreFuture<'_, T>) -> T {
    answer.await.expect("the store responds")
}

impl<S: Jobs + Registry + 'static> Subject<S> {
    pub(super) fn few(self) -> JobsSubject {
        Subject { store: self.store, clock: self.clock }
    }
}

impl<S: Store + 'static> Subject<S> {
    pub(super) fn whole(self) -> StoreSubject {
        Subject { store: self.store, clock: self.clock }
    }
}

impl<S: Jobs + Registry + ?Sized> Subject<S> {
    pub(super) fn now(&self) -> Time {
        self.clock.now()
    }

    pub(super) fn advance(&self, span: Span) {
        self.clock.advance(span);
    }

    pub(super) async fn batch(&self, batch: impl Into<Batch>) -> PushedBatch {
        expect_ok(self.store.push(batch.into())).await.into_inner()
    }

    /// The result of pushing one job.
    pub(super) async fn try_push(&self, job: NewJob) -> Pushed {
        let pushes = self.batch(job).await;
        assert_eq!(pushes.jobs.len(), 1, "one result for one job");
        pushes.jobs[0]
    }

    /// Pushes a job that must be new.
    pub(super) async fn push(&self, job: NewJob) -> JobId {
        match self.try_push(job).await {
            Pushed::New(id) => id,
            other => panic!("a new job is stored, but the response is {other:?}"),
        }
    }

    /// Pushes jobs that must all be new.
    pub(super) async fn push_all(&self, jobs: Vec<NewJob>) -> Vec<JobId> {
        let pushes = self.batch(jobs).await;
        let new = |answer: &Pushed| match answer {
            Pushed::New(id) => *id,
            other => panic!("a new job is stored, but the response is {other:?}"),
        };
        pushes.jobs.iter().map(new).collect()
    }

    pub(super) async fn ask(&self, ask: Claim) -> Claimed {
        expect_ok(self.store.claim(ask)).await
    }

    pub(super) async fn claim(&self, queues: &[&str], n: usize) -> Vec<Job> {
        self.ask(claim(queues, n)).await.jobs
    }

    /// The ids of the claimed jobs.
    pub(super) async fn claim_ids(&self, queues: &[&str], n: usize) -> Vec<JobId> {
        ids(&self.claim(queues, n).await)
    }

    /// Claims a job that must be available.
    pub(super) async fn claim_one(&self, queue: &str) -> Job {
        let mut jobs = self.claim(&[queue], 1).await;
        assert_eq!(jobs.len(), 1, "there is a job to claim in `{queue}`");
        jobs.remove(0)
    }

    /// Pushes a job and claims it. It must be the first of its queue.
    pub(super) async fn start(&self, job: NewJob) -> Job {
        let queue = job.spec.queue.clone();
        let id = self.push(job).await;
        let job = self.claim_one(queue.as_str()).await;
        assert_eq!(job.id, id, "the job that was pushed is the one to claim");
        job
    }

    pub(super) async fn find(&self, id: JobId) -> Option<Job> {
        let mut jobs = expect_ok(self.store.get(vec![id.into()])).await;
        assert_eq!(jobs.len(), 1, "one result for one id");
        jobs.remove(0)
    }

    /// The jobs that hold these unique keys.
    pub(super) async fn holders(&self, keys: &[&str]) -> Vec<Option<JobId>> {
        expect_ok(self.store.holders(keys.iter().map(|key| Arc::from(*key)).collect())).await
    }

    /// A job that must exist.
    pub(super) async fn job(&self, id: JobId) -> Job {
        self.find(id).await.expect("the job is there")
    }

    pub(super) async fn renew(&self, job: &Job, span: Option<Span>) -> Renewed {
        let lease = Renew { id: job.id, delivery: job.live.delivery, span };
        let answers = expect_ok(self.store.renew(vec![lease])).await;
        assert_eq!(answers.len(), 1, "one result for one lease");
        answers[0]
    }

    pub(super) async fn write_all(&self, writes: Vec<StoreWrite>) -> Vec<Applied> {
        let n = writes.len();
        let answers = expect_ok(self.store.apply(writes)).await.into_inner();
        assert_eq!(answers.len(), n, "one result for each write");
        answers
    }

    pub(super) async fn write(&self, write: StoreWrite) -> Applied {
        self.write_all(vec![write]).await.remove(0)
    }

    pub(super) async fn apply(&self, change: Change) -> Applied {
        self.write(StoreWrite::Job(change)).await
    }

    /// Decides an event on this version of a job, and applies the decision.
    pub(super) async fn apply_event(&self, job: &Job, event: &JobEvent) -> Applied {
        self.apply(change(job, event)).await
    }

    pub(super) async fn finish(&self, job: &Job, outcome: Outcome) -> Applied {
        self.apply_event(job, &finished(job, outcome)).await
    }

    /// Applies an event, which must succeed, and checks that the record becomes exactly what was decided.
    pub(super) async fn apply_as_decided(&self, job: &Job, event: &JobEvent) -> Vec<Pushed> {
        let change = change(job, event);
        let expected = match &change.next {
            NextRecord::Gone => None,
            NextRecord::Live(next) => {
                let mut job = job.clone();
                job.apply(next, self.now());
                Some(job)
            }
        };
        let applied = self.apply(change).await;
        assert_eq!(self.find(job.id).await, expected, "the record after {event:?}");
        match applied {
            Applied::Yes(pushed) => pushed,
            Applied::Stale => panic!("{event:?} is stale, although current"),
        }
    }

    /// Applies an event to the current version of a job.
    pub(super) async fn apply_to_current(&self, id: JobId, event: &JobEvent) -> Vec<Pushed> {
        self.apply_as_decided(&self.job(id).await, event).await
    }

    pub(super) async fn finish_as_decided(&self, job: &Job, outcome: Outcome) -> Vec<Pushed> {
        self.apply_as_decided(job, &finished(job, outcome)).await
    }

    pub(super) async fn done(&self, job: &Job) {
        self.finish_as_decided(job, Outcome::Done { result: None }).await;
    }

    /// The job fails for good.
    pub(super) async fn fail_for_good(&self, job: &Job) {
        self.finish_as_decided(job, failed(RetryDirective::Never)).await;
    }

    pub(super) async fn define(&self, define: Define) -> Defined {
        let mut answers = expect_ok(self.store.define(vec![define])).await.into_inner();
        assert_eq!(answers.len(), 1, "one result for one definition");
        answers.remove(0)
    }

    pub(super) async fn define_limit(&self, limit: &str, text: &str) {
        let value = RegistryValue::Limit(Limit::parse(text).expect("a limit"));
        let defined = self.define(Define::set(name(limit), value)).await;
        assert!(matches!(defined, Defined::Yes(_)), "the definition is unguarded");
    }

    pub(super) async fn remove_limit(&self, limit: &str) {
        let defined = self.define(Define::remove(RegistryTable::Limits, name(limit))).await;
        assert!(matches!(defined, Defined::Yes(_)), "the definition is unguarded");
    }

    pub(super) async fn set_queue(&self, queue: &str, settings: QueueSettings) {
        let defined = self.define(Define::set(name(queue), RegistryValue::Queue(settings))).await;
        assert!(matches!(defined, Defined::Yes(_)), "the definition is unguarded");
    }
}

/// A merged claim of any kind.
pub(super) fn claim(queues: &[&str], n: usize) -> Claim {
    let queues = queues.iter().map(|queue| name(queue)).collect();
    Claim {
        queues,
        kinds: None,
        versions: KindVersions::default(),
        n,
        order: QueueOrder::Merged,
        worker: name("worker"),
    }
}

pub(super) fn ids(jobs: &[Job]) -> Vec<JobId> {
    jobs.iter().map(|job| job.id).collect()
}

/// The decision on a job, which must not be a refusal.
pub(super) fn change(job: &Job, event: &JobEvent) -> Change {
    decide(job, event, FIXED_JITTER).expect("the event applies to this job")
}

pub(super) fn finished(job: &Job, outcome: Outcome) -> JobEvent {
    JobEvent::Finished { delivery: Some(job.live.delivery), report: outcome.into() }
}

pub(super) fn failed(again: RetryDirective) -> Outcome {
    Outcome::Failed { error: "it broke".into(), detail: None, again }
}
