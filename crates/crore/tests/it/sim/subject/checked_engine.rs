//! The engine behind the interface of the simulator's callers.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use crore::actions::{ActionResult, BulkMode, JobAction, JobChanges, JobFilter};
use crore::fetch::Fetch;
use crore::finish::{Finish, FinishResult};
use crore::push::PushResult;
use crore::store::jobs::{Claim, Pushed, PushedBatch, Renew, Renewed};
use crore::store::registry::{
    Define, DefineAction, QueueSettings, RegistryTable, RegistryValue, Schedule,
};
use crore::store::{Error, StoreFuture};
use crore::{Engine, Work};
use crore_conformance::simulation::{EventResult, LocalResult, SimulatedEngine};
use crore_core::machine::{self, JobEvent};
use crore_core::{Batch, Clock, GroupId, Job, JobId, Name, Payload, Span, State, Time};
use crore_testkit::history::PayloadHash;
use crore_testkit::history::op::{AdminAction, RecordedOutcome, RecordedRetry};

use super::InjectedBug;
use super::deadlines::Deadlines;
use super::event_checker::EventChecker;
use super::interference::Interference;
use super::program_recorder::{ProgramActivity, ProgramRecorder};
use super::waiting_fetches::WaitingFetches;

/// An engine, with its checks and an injected bug.
#[derive(Debug)]
pub(super) struct CheckedEngine {
    pub(super) engine: Engine,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) event_checker: Arc<EventChecker>,
    pub(super) program_recorder: Arc<ProgramRecorder>,
    pub(super) deadlines: Arc<Deadlines>,
    pub(super) interference: Arc<Interference>,
    pub(super) waiting_fetches: WaitingFetches,
    pub(super) bug: InjectedBug,
}

/// Converts an error for the simulator's callers.
pub(super) fn to_store_error(error: crore::Error) -> Error {
    match error {
        crore::Error::Store(error) => error,
        crore::Error::Invalid(invalid) => Error::Invalid(invalid),
        other => Error::Unavailable(Box::new(other)),
    }
}

fn pushed(taken: PushResult) -> Result<Pushed, Error> {
    Ok(match taken {
        PushResult::New(id) => Pushed::New(id),
        PushResult::Duplicate(id) => Pushed::Duplicate(id),
        PushResult::Broken(thing) => Pushed::Broken(thing),
        PushResult::Sealed(id) => Pushed::Sealed(id),
        PushResult::BrokenBy(place) => Pushed::BrokenBy(place),
        PushResult::Invalid(invalid) => return Err(Error::Invalid(invalid)),
    })
}

fn all(taken: Vec<PushResult>) -> Result<Vec<Pushed>, Error> {
    taken.into_iter().map(pushed).collect()
}

fn act(want: AdminAction) -> JobAction {
    match want {
        AdminAction::Cancel => JobAction::Cancel,
        AdminAction::Retry => JobAction::Retry,
        AdminAction::Delete => JobAction::Delete,
        AdminAction::Edit { queue, priority, due, .. } => {
            JobAction::Change(JobChanges { queue, priority, due })
        }
    }
}

/// Maximum yields of a run.
const YIELDS: u64 = 3;

/// Yields once to other tasks.
async fn yield_once() {
    let mut is_again = false;
    poll_fn(|context| {
        if std::mem::replace(&mut is_again, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

impl CheckedEngine {
    /// Runs a job; its id and delivery determine how.
    async fn run_job(&self, work: &Work<'_>) -> Result<Vec<u8>, &'static str> {
        let (id, delivery) = (work.id, work.live.delivery);
        let chance = id.0.wrapping_mul(31).wrapping_add(delivery.0);
        for _ in 0..chance % YIELDS {
            yield_once().await;
        }
        let result = format!("result of {id}, {delivery:?}").into_bytes();
        let (outcome, ran) = if chance.is_multiple_of(4) {
            (
                RecordedOutcome::Failed { again: RecordedRetry::ByPolicy, detail: None },
                Err("it broke"),
            )
        } else {
            let payload = Payload::new(crore_core::Encoding::Bytes, result.clone());
            (RecordedOutcome::Done { result: Some(PayloadHash::of(&payload)) }, Ok(result))
        };
        self.program_recorder.ended(work, outcome);
        ran
    }

    /// Runs a worker until it has run `n` jobs, or until a deadline.
    async fn run_worker(&self, queues: &[Name], n: u64, until: Time) -> Result<(), crore::Error> {
        let worker = self.engine.worker(queues.iter().map(Name::as_str)).parallel(2);
        let (stop, left) = (worker.stopper(), AtomicU64::new(n));
        let mut run = pin!(worker.run(async |work: &Work<'_>| {
            if left.fetch_sub(1, Ordering::Relaxed) == 1 {
                stop.stop();
            }
            self.run_job(work).await
        }));
        poll_fn(|context| {
            if self.clock.now() >= until {
                stop.stop();
            }
            run.as_mut().poll(context)
        })
        .await
        .map(drop)
    }

    /// Runs a call and checks the events after each poll.
    async fn checked<T>(&self, call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let mut call = pin!(self.waiting_fetches.track(call));
        poll_fn(|context| {
            let polled = call.as_mut().poll(context);
            self.event_checker.check_events(self.bug);
            polled
        })
        .await
    }

    fn checked_future<'a, T: Send + 'a>(
        &'a self,
        call: impl Future<Output = Result<T, Error>> + Send + 'a,
    ) -> StoreFuture<'a, T> {
        Box::pin(self.checked(call))
    }

    /// The same for a caller that may go away while it waits.
    fn interruptible<'a, T: Send + 'a>(
        &'a self,
        call: impl Future<Output = Result<T, Error>> + Send + 'a,
    ) -> StoreFuture<'a, T> {
        let call = async move {
            let mut call = pin!(call);
            poll_fn(|context| match call.as_mut().poll(context) {
                Poll::Pending => match self.interference.leave() {
                    Some(error) => Poll::Ready(Err(error)),
                    None => Poll::Pending,
                },
                ready @ Poll::Ready(_) => ready,
            })
            .await
        };
        Box::pin(self.checked(call))
    }

    async fn finished(&self, id: JobId, event: JobEvent) -> Result<FinishResult, Error> {
        match event {
            JobEvent::Finished { mut delivery, report } => {
                if self.bug == InjectedBug::UnfencedReports {
                    let job = self.engine.get(id).await.map_err(to_store_error)?;
                    delivery = job.map(|job| job.live.delivery).or(delivery);
                }
                let brought = (report.on_done.len(), report.on_dead.len());
                let is_done = matches!(report.outcome, machine::Outcome::Done { .. });
                let finish = Finish { job: id.into(), delivery, report };
                let finished = self.engine.finish(finish).await.map_err(to_store_error)?;
                if let FinishResult::Accepted { state, pushed } = &finished {
                    let expected = match state {
                        _ if is_done => brought.0,
                        Some(State::Dead) => brought.1,
                        _ => 0,
                    };
                    assert_eq!(pushed.len(), expected, "answered follow-ups of {id}, {state:?}");
                }
                Ok(finished)
            }
            JobEvent::Delivered(delivery) => {
                self.engine.deliveries().handed_over(id, delivery).await.map_err(to_store_error)
            }
            other => panic!("workers do not report {other:?}"),
        }
    }

    async fn set(&self, name: Name, value: RegistryValue) -> Result<(), crore::Error> {
        match value {
            RegistryValue::Limit(limit) => self.engine.limits().set(name, limit).await.map(drop),
            RegistryValue::Queue(settings) => self.engine.queues().set(name, settings).await,
            RegistryValue::Schedule(schedule) => {
                let Schedule { timing, missed, job, paused, .. } = *schedule;
                let schedules = self.engine.schedules();
                schedules.set(name.clone(), timing, missed, job).await?;
                match paused {
                    true => schedules.pause(&name).await,
                    false => schedules.resume(&name).await,
                }
            }
            other => panic!("no caller sets {other:?}"),
        }
    }

    async fn remove(&self, name: Name, table: RegistryTable) -> Result<(), crore::Error> {
        match table {
            RegistryTable::Limits => self.engine.limits().remove(name).await,
            RegistryTable::Queues => self.engine.queues().set(name, QueueSettings::default()).await,
            RegistryTable::Schedules => self.engine.schedules().remove(name).await,
            other => panic!("no caller removes from {other:?}"),
        }
    }
}

impl SimulatedEngine for CheckedEngine {
    fn push(&self, batch: Batch) -> StoreFuture<'_, PushedBatch> {
        self.interruptible(async move {
            let pushes = self.engine.push_all(batch).await.map_err(to_store_error)?;
            let crore::push::BatchResult { now, groups, jobs } = pushes;
            Ok(PushedBatch { now, groups, jobs: all(jobs)? })
        })
    }

    fn fetch(&self, ask: Claim, wait: Span) -> StoreFuture<'_, Vec<Job>> {
        let Claim { queues, kinds, versions, n, order, worker } = ask;
        self.interference.fetch_started(&worker);
        let (also, handled, within) = (Vec::new(), None, None);
        let fetch =
            Fetch { queues, kinds, versions, also, handled, n, order, worker, wait, within };
        self.interruptible(async move {
            let _sleeper = self.waiting_fetches.register(&fetch);
            self.engine.fetch(fetch).await.map_err(to_store_error)
        })
    }

    fn renew(&self, leases: Vec<Renew>) -> StoreFuture<'_, Vec<Renewed>> {
        self.interruptible(async move { self.engine.renew(leases).await.map_err(to_store_error) })
    }

    fn report_event(&self, id: JobId, event: JobEvent) -> StoreFuture<'_, EventResult> {
        self.checked_future(async move {
            Ok(match self.finished(id, event).await? {
                FinishResult::Accepted { pushed, .. } => {
                    EventResult::Yes { asked: false, pushed: all(pushed)? }
                }
                FinishResult::Stale => EventResult::No,
                FinishResult::NotFound => EventResult::NotFound,
            })
        })
    }

    fn admin(&self, id: JobId, want: AdminAction) -> StoreFuture<'_, EventResult> {
        let act = act(want);
        self.checked_future(async move {
            Ok(match self.engine.jobs().act(id.into(), &act).await.map_err(to_store_error)? {
                ActionResult::Applied(state) => {
                    let asked = act == JobAction::Cancel && state == Some(State::Running);
                    EventResult::Yes { asked, pushed: Vec::new() }
                }
                ActionResult::Refused { .. } => EventResult::No,
                ActionResult::NotFound => EventResult::NotFound,
            })
        })
    }

    fn pop(&self, queue: Name) -> LocalResult<'_> {
        Box::pin(self.checked(async move {
            let pop =
                self.engine.pop(queue.as_str(), async |work: &Work<'_>| self.run_job(work).await);
            self.program_recorder
                .run_as(ProgramActivity::Work, pop)
                .await
                .map(drop)
                .map_err(to_store_error)
        }))
    }

    fn work(&self, queues: Vec<Name>, n: u64, at_most: Span) -> LocalResult<'_> {
        Box::pin(self.checked(async move {
            let until = self.clock.now().after(at_most);
            self.program_recorder
                .run_as(ProgramActivity::Work, self.run_worker(&queues, n, until))
                .await
                .map_err(to_store_error)
        }))
    }

    fn admin_all(&self, queue: Option<Name>, want: AdminAction) -> StoreFuture<'_, ()> {
        let filter = JobFilter { queue, ..JobFilter::default() };
        let act = act(want.clone());
        self.checked_future(async move {
            let dry = self.engine.jobs().act_on_all(&filter, &act, BulkMode::DryRun, |_| true);
            self.program_recorder
                .run_as(ProgramActivity::DryRun, dry)
                .await
                .map_err(to_store_error)?;
            let real = self.engine.jobs().act_on_all(&filter, &act, BulkMode::Apply, |_| true);
            self.program_recorder
                .run_as(ProgramActivity::Sweep(want), real)
                .await
                .map(drop)
                .map_err(to_store_error)
        })
    }

    fn result(&self, id: JobId, at_most: Span) -> StoreFuture<'_, Option<Payload>> {
        self.checked_future(async move {
            // `Engine::wait` in two steps: the end has to be durable before the result is read.
            let ended = match self.engine.results().wait_for_end(id, at_most).await {
                Err(crore::Error::NotFound { .. }) => return Ok(None),
                ended => ended.map_err(to_store_error)?,
            };
            let Some(ended) = ended else { return Ok(None) };
            self.event_checker.end_notified(ended.id);
            self.engine.results().take(id).await.map_err(to_store_error)
        })
    }

    fn seal(&self, group: GroupId) -> StoreFuture<'_, bool> {
        self.checked_future(async move {
            self.engine.groups().seal(group).await.map_err(to_store_error)
        })
    }

    fn define(&self, define: Define) -> StoreFuture<'_, ()> {
        self.checked_future(async move {
            let Define { name, action: to, .. } = define;
            let done = match to {
                DefineAction::Set(value) => self.set(name, value).await,
                DefineAction::Remove(table) => self.remove(name, table).await,
            };
            match done {
                // Another caller removed the schedule meanwhile.
                Err(crore::Error::NotFound { .. }) => Ok(()),
                done => done.map_err(to_store_error),
            }
        })
    }

    fn upkeep_at(&self) -> Time {
        let upkeep_at = self.engine.upkeep().due_at();
        self.deadlines.check(upkeep_at);
        if self.deadlines.is_quiet() {
            self.waiting_fetches.check();
        }
        upkeep_at
    }

    fn upkeep_once(&self) -> StoreFuture<'_, ()> {
        let upkeep = async move { self.engine.upkeep().run_once().await.map_err(to_store_error) };
        self.checked_future(self.deadlines.upkeep(upkeep))
    }
}
