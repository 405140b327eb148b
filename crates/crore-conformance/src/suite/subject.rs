//! The store under test, the clock in its hand, and the verbs in which cases speak.

use std::fmt::Debug;
use std::sync::Arc;

use crore_core::limit::Limit;
use crore_core::machine::{Again, Change, Event, Next, Outcome, decide};
use crore_core::{Batch, Clock, Job, JobId, NewJob, Span, Time};
use crore_store::jobs::{Applied, Claim, Claimed, Order, Pushed, Pushes, Renew, Renewed, Write};
use crore_store::registry::{Define, Defined, QueueSettings, Table, Value};
use crore_store::{Answer, Jobs, Registry, Store};
use crore_testkit::FakeClock;

use super::draft::name;

/// A fresh store, and the clock that it takes its time from.
#[derive(Debug)]
pub struct Subject<S: ?Sized> {
    /// The store. Nobody else uses it.
    pub store: Arc<S>,
    /// Its clock. A store in another server is told the time with every call.
    pub clock: Arc<FakeClock>,
}

/// What a store begins with.
pub(super) trait Beginning: Jobs + Registry {}

impl<T: Jobs + Registry> Beginning for T {}

/// A subject of which a case uses jobs, limits, queue settings and groups.
pub(super) type Few = Subject<dyn Beginning>;

/// A subject of which a case uses everything.
pub(super) type Whole = Subject<dyn Store>;

/// The only randomness of the suite.
const DICE: u64 = 7;

/// The answer, which the store must have.
pub(super) async fn got<T: Debug>(answer: Answer<'_, T>) -> T {
    answer.await.expect("the store answers")
}

impl<S: Jobs + Registry + 'static> Subject<S> {
    pub(super) fn few(self) -> Few {
        Subject { store: self.store, clock: self.clock }
    }
}

impl<S: Store + 'static> Subject<S> {
    pub(super) fn whole(self) -> Whole {
        Subject { store: self.store, clock: self.clock }
    }
}

impl<S: Jobs + Registry + ?Sized> Subject<S> {
    pub(super) fn now(&self) -> Time {
        self.clock.now()
    }

    pub(super) fn pass(&self, span: Span) {
        self.clock.advance(span);
    }

    pub(super) async fn batch(&self, batch: impl Into<Batch>) -> Pushes {
        got(self.store.push(batch.into())).await.into_inner()
    }

    /// What a push of one job is answered.
    pub(super) async fn offer(&self, job: NewJob) -> Pushed {
        let pushes = self.batch(job).await;
        assert_eq!(pushes.jobs.len(), 1, "one answer for one job");
        pushes.jobs[0]
    }

    /// Pushes a job that must be new.
    pub(super) async fn push(&self, job: NewJob) -> JobId {
        match self.offer(job).await {
            Pushed::New(id) => id,
            other => panic!("a new job is stored, not answered {other:?}"),
        }
    }

    /// Pushes jobs that must all be new.
    pub(super) async fn push_all(&self, jobs: Vec<NewJob>) -> Vec<JobId> {
        let pushes = self.batch(jobs).await;
        let new = |answer: &Pushed| match answer {
            Pushed::New(id) => *id,
            other => panic!("a new job is stored, not answered {other:?}"),
        };
        pushes.jobs.iter().map(new).collect()
    }

    pub(super) async fn ask(&self, ask: Claim) -> Claimed {
        got(self.store.claim(ask)).await
    }

    pub(super) async fn claim(&self, queues: &[&str], n: usize) -> Vec<Job> {
        self.ask(claim(queues, n)).await.jobs
    }

    /// The ids of what a claim gives.
    pub(super) async fn claim_ids(&self, queues: &[&str], n: usize) -> Vec<JobId> {
        ids(&self.claim(queues, n).await)
    }

    /// Claims the one job that must be there.
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
        let mut jobs = got(self.store.get(vec![id.into()])).await;
        assert_eq!(jobs.len(), 1, "one answer for one id");
        jobs.remove(0)
    }

    /// The jobs that hold unique keys.
    pub(super) async fn holders(&self, keys: &[&str]) -> Vec<Option<JobId>> {
        got(self.store.holders(keys.iter().map(|key| Arc::from(*key)).collect())).await
    }

    /// A job that must be there.
    pub(super) async fn job(&self, id: JobId) -> Job {
        self.find(id).await.expect("the job is there")
    }

    pub(super) async fn renew(&self, job: &Job, span: Option<Span>) -> Renewed {
        let lease = Renew { id: job.id, delivery: job.live.delivery, span };
        let answers = got(self.store.renew(vec![lease])).await;
        assert_eq!(answers.len(), 1, "one answer for one lease");
        answers[0]
    }

    pub(super) async fn write_all(&self, writes: Vec<Write>) -> Vec<Applied> {
        let n = writes.len();
        let answers = got(self.store.apply(writes)).await.into_inner();
        assert_eq!(answers.len(), n, "one answer for each write");
        answers
    }

    pub(super) async fn write(&self, write: Write) -> Applied {
        self.write_all(vec![write]).await.remove(0)
    }

    pub(super) async fn apply(&self, change: Change) -> Applied {
        self.write(Write::Job(change)).await
    }

    /// Decides upon a job as it was seen, and applies that.
    pub(super) async fn tell(&self, job: &Job, event: &Event) -> Applied {
        self.apply(change(job, event)).await
    }

    pub(super) async fn finish(&self, job: &Job, outcome: Outcome) -> Applied {
        self.tell(job, &finished(job, outcome)).await
    }

    /// Something happens to a job: it applies, and the record becomes exactly what was decided.
    pub(super) async fn happens(&self, job: &Job, event: &Event) -> Vec<Pushed> {
        let change = change(job, event);
        let expected = match &change.next {
            Next::Gone => None,
            Next::Live(next) => {
                let mut job = job.clone();
                job.take(next, self.now());
                Some(job)
            }
        };
        let applied = self.apply(change).await;
        assert_eq!(self.find(job.id).await, expected, "the record after {event:?}");
        match applied {
            Applied::Yes(pushed) => pushed,
            Applied::Stale => panic!("{event:?} is based on what is so"),
        }
    }

    /// Something happens to a job as it stands now.
    pub(super) async fn happens_to(&self, id: JobId, event: &Event) -> Vec<Pushed> {
        self.happens(&self.job(id).await, event).await
    }

    pub(super) async fn ends(&self, job: &Job, outcome: Outcome) -> Vec<Pushed> {
        self.happens(job, &finished(job, outcome)).await
    }

    pub(super) async fn done(&self, job: &Job) {
        self.ends(job, Outcome::Done { result: None }).await;
    }

    /// The job fails for good.
    pub(super) async fn dies(&self, job: &Job) {
        self.ends(job, failed(Again::Never)).await;
    }

    pub(super) async fn define(&self, define: Define) -> Defined {
        let mut answers = got(self.store.define(vec![define])).await.into_inner();
        assert_eq!(answers.len(), 1, "one answer for one definition");
        answers.remove(0)
    }

    pub(super) async fn define_limit(&self, limit: &str, text: &str) {
        let value = Value::Limit(Limit::parse(text).expect("a limit"));
        let defined = self.define(Define::set(name(limit), value)).await;
        assert!(matches!(defined, Defined::Yes(_)), "nothing guards this limit");
    }

    pub(super) async fn remove_limit(&self, limit: &str) {
        let defined = self.define(Define::remove(Table::Limits, name(limit))).await;
        assert!(matches!(defined, Defined::Yes(_)), "nothing guards this limit");
    }

    pub(super) async fn set_queue(&self, queue: &str, settings: QueueSettings) {
        let defined = self.define(Define::set(name(queue), Value::Queue(settings))).await;
        assert!(matches!(defined, Defined::Yes(_)), "nothing guards these settings");
    }
}

/// A claim of any kind, merged.
pub(super) fn claim(queues: &[&str], n: usize) -> Claim {
    let queues = queues.iter().map(|queue| name(queue)).collect();
    Claim { queues, kinds: None, n, order: Order::Merged, worker: name("worker") }
}

pub(super) fn ids(jobs: &[Job]) -> Vec<JobId> {
    jobs.iter().map(|job| job.id).collect()
}

/// The decision upon a job, which must be one.
pub(super) fn change(job: &Job, event: &Event) -> Change {
    decide(job, event, DICE).expect("the event means something for this job")
}

pub(super) fn finished(job: &Job, outcome: Outcome) -> Event {
    Event::Finished { delivery: Some(job.live.delivery), report: outcome.into() }
}

pub(super) fn failed(again: Again) -> Outcome {
    Outcome::Failed { error: "it broke".into(), detail: None, again }
}
