//! The engine as what callers of the simulator speak to.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use crore::act::{Act, Acted, Filter, Other, Run};
use crore::fetch::Fetch;
use crore::finish::{Finish, Finished};
use crore::push::Taken;
use crore::store::jobs::{Claim, Pushed, Pushes, Renew, Renewed};
use crore::store::registry::{Define, Definition, QueueSettings, Schedule, Table, Value};
use crore::store::{Answer, Error};
use crore::{Engine, Work};
use crore_conformance::simulation::{Fate, Front, Ran};
use crore_core::machine::{self, Event};
use crore_core::{Batch, Clock, GroupId, Job, JobId, Name, Payload, Span, State, Time};
use crore_testkit::history::Hash;
use crore_testkit::history::op::{Again, Outcome, Want};

use super::Lie;
use super::deadlines::Deadlines;
use super::desk::{Desk, Doing};
use super::ear::Ear;
use super::interference::Interference;
use super::sleepers::Sleepers;

/// An engine, and the lie that it tells.
#[derive(Debug)]
pub(super) struct Engaged {
    pub(super) engine: Engine,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) ear: Arc<Ear>,
    pub(super) desk: Arc<Desk>,
    pub(super) deadlines: Arc<Deadlines>,
    pub(super) interference: Arc<Interference>,
    pub(super) sleepers: Sleepers,
    pub(super) lie: Lie,
}

/// What the simulator's callers understand.
pub(super) fn plain(error: crore::Error) -> Error {
    match error {
        crore::Error::Store(error) => error,
        crore::Error::Invalid(invalid) => Error::Invalid(invalid),
        other => Error::Unavailable(Box::new(other)),
    }
}

fn pushed(taken: Taken) -> Result<Pushed, Error> {
    Ok(match taken {
        Taken::New(id) => Pushed::New(id),
        Taken::Duplicate(id) => Pushed::Duplicate(id),
        Taken::Broken(thing) => Pushed::Broken(thing),
        Taken::BrokenBy(place) => Pushed::BrokenBy(place),
        Taken::Invalid(invalid) => return Err(Error::Invalid(invalid)),
    })
}

fn all(taken: Vec<Taken>) -> Result<Vec<Pushed>, Error> {
    taken.into_iter().map(pushed).collect()
}

fn act(want: Want) -> Act {
    match want {
        Want::Cancel => Act::Cancel,
        Want::Retry => Act::Retry,
        Want::Delete => Act::Delete,
        Want::Edit { queue, priority, due, .. } => Act::Change(Other { queue, priority, due }),
    }
}

/// How often a run lets others go first.
const YIELDS: u64 = 3;

/// Lets whoever else can run go first.
async fn let_others() {
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

impl Engaged {
    /// Runs a job, somehow or other: that follows from its numbers.
    async fn runs(&self, work: &Work<'_>) -> Result<Vec<u8>, &'static str> {
        let (id, delivery) = (work.id, work.live.delivery);
        let chance = id.0.wrapping_mul(31).wrapping_add(delivery.0);
        for _ in 0..chance % YIELDS {
            let_others().await;
        }
        let result = format!("result of {id}, {delivery:?}").into_bytes();
        let (outcome, ran) = if chance.is_multiple_of(4) {
            (Outcome::Failed { again: Again::ByPolicy, detail: None }, Err("it broke"))
        } else {
            let payload = Payload::new(crore_core::Encoding::Bytes, result.clone());
            (Outcome::Done { result: Some(Hash::of(&payload)) }, Ok(result))
        };
        self.desk.ended(work, outcome);
        ran
    }

    /// Runs a worker until so many jobs were run, or it is late.
    async fn works(&self, queues: &[Name], n: u64, until: Time) -> Result<(), crore::Error> {
        let worker = self.engine.worker(queues.iter().map(Name::as_str)).parallel(2);
        let (stop, left) = (worker.stopper(), AtomicU64::new(n));
        let mut run = pin!(worker.run(async |work: &Work<'_>| {
            if left.fetch_sub(1, Ordering::Relaxed) == 1 {
                stop.stop();
            }
            self.runs(work).await
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

    /// A call, after each step of which it is judged what a listener has heard.
    async fn judge<T>(&self, call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let mut call = pin!(self.sleepers.watch(call));
        poll_fn(|context| {
            let polled = call.as_mut().poll(context);
            self.ear.judge(self.lie);
            polled
        })
        .await
    }

    fn judged<'a, T: Send + 'a>(
        &'a self,
        call: impl Future<Output = Result<T, Error>> + Send + 'a,
    ) -> Answer<'a, T> {
        Box::pin(self.judge(call))
    }

    /// The same of a caller that may leave while it waits.
    fn left<'a, T: Send + 'a>(
        &'a self,
        call: impl Future<Output = Result<T, Error>> + Send + 'a,
    ) -> Answer<'a, T> {
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
        Box::pin(self.judge(call))
    }

    async fn finished(&self, id: JobId, event: Event) -> Result<Finished, Error> {
        match event {
            Event::Finished { mut delivery, report } => {
                if self.lie == Lie::AnyDeliveryCounts {
                    let job = self.engine.get(id).await.map_err(plain)?;
                    delivery = job.map(|job| job.live.delivery).or(delivery);
                }
                let brought = (report.on_done.len(), report.on_dead.len());
                let is_done = matches!(report.outcome, machine::Outcome::Done { .. });
                let finish = Finish { job: id.into(), delivery, report };
                let finished = self.engine.finish(finish).await.map_err(plain)?;
                if let Finished::Yes { state, pushed } = &finished {
                    let expected = match state {
                        _ if is_done => brought.0,
                        Some(State::Dead) => brought.1,
                        _ => 0,
                    };
                    assert_eq!(pushed.len(), expected, "answered follow-ups of {id}, {state:?}");
                }
                Ok(finished)
            }
            Event::HandedOver(delivery) => {
                self.engine.deliveries().handed_over(id, delivery).await.map_err(plain)
            }
            other => panic!("workers do not say {other:?}"),
        }
    }

    async fn set(&self, name: Name, value: Value) -> Result<(), crore::Error> {
        match value {
            Value::Limit(limit) => self.engine.limits().set(name, limit).await.map(drop),
            Value::Queue(settings) => self.engine.queues().set(name, settings).await,
            Value::Schedule(schedule) => {
                let Schedule { timing, missed, job, paused, .. } = *schedule;
                let schedules = self.engine.schedules();
                schedules.set(name.clone(), timing, missed, job).await?;
                match paused {
                    true => schedules.pause(&name).await,
                    false => schedules.resume(&name).await,
                }
            }
            other => panic!("nobody sets {other:?}"),
        }
    }

    async fn remove(&self, name: Name, table: Table) -> Result<(), crore::Error> {
        match table {
            Table::Limits => self.engine.limits().remove(name).await,
            Table::Queues => self.engine.queues().set(name, QueueSettings::default()).await,
            Table::Schedules => self.engine.schedules().remove(name).await,
            other => panic!("nobody removes from {other:?}"),
        }
    }
}

impl Front for Engaged {
    fn push(&self, batch: Batch) -> Answer<'_, Pushes> {
        self.left(async move {
            let pushes = self.engine.push_all(batch).await.map_err(plain)?;
            let crore::push::Pushes { now, groups, jobs } = pushes;
            Ok(Pushes { now, groups, jobs: all(jobs)? })
        })
    }

    fn fetch(&self, ask: Claim, wait: Span) -> Answer<'_, Vec<Job>> {
        let Claim { queues, kinds, n, order, worker } = ask;
        self.interference.meets(&worker);
        let fetch = Fetch { queues, kinds, handled: None, n, order, worker, wait };
        self.left(async move {
            let _sleeper = self.sleepers.begins(&fetch.queues, fetch.kinds.as_deref());
            self.engine.fetch(fetch).await.map_err(plain)
        })
    }

    fn renew(&self, leases: Vec<Renew>) -> Answer<'_, Vec<Renewed>> {
        self.left(async move { self.engine.renew(leases).await.map_err(plain) })
    }

    fn tell(&self, id: JobId, event: Event) -> Answer<'_, Fate> {
        self.judged(async move {
            Ok(match self.finished(id, event).await? {
                Finished::Yes { pushed, .. } => Fate::Yes { asked: false, pushed: all(pushed)? },
                Finished::Stale => Fate::No,
                Finished::NotFound => Fate::NotFound,
            })
        })
    }

    fn want(&self, id: JobId, want: Want) -> Answer<'_, Fate> {
        let act = act(want);
        self.judged(async move {
            Ok(match self.engine.jobs().act(id.into(), &act).await.map_err(plain)? {
                Acted::Yes(state) => {
                    let asked = act == Act::Cancel && state == Some(State::Running);
                    Fate::Yes { asked, pushed: Vec::new() }
                }
                Acted::No(_) => Fate::No,
                Acted::NotFound => Fate::NotFound,
            })
        })
    }

    fn pop(&self, queue: Name) -> Ran<'_> {
        Box::pin(self.judge(async move {
            let pop =
                self.engine.pop(queue.as_str(), async |work: &Work<'_>| self.runs(work).await);
            self.desk.does(Doing::Work, pop).await.map(drop).map_err(plain)
        }))
    }

    fn work(&self, queues: Vec<Name>, n: u64, at_most: Span) -> Ran<'_> {
        Box::pin(self.judge(async move {
            let until = self.clock.now().after(at_most);
            self.desk.does(Doing::Work, self.works(&queues, n, until)).await.map_err(plain)
        }))
    }

    fn want_of_all(&self, queue: Option<Name>, want: Want) -> Answer<'_, ()> {
        let filter = Filter { queue, ..Filter::default() };
        let act = act(want.clone());
        self.judged(async move {
            let dry = self.engine.jobs().act_on_all(&filter, &act, Run::Dry, |_| true);
            self.desk.does(Doing::DryRun, dry).await.map_err(plain)?;
            let real = self.engine.jobs().act_on_all(&filter, &act, Run::Real, |_| true);
            self.desk.does(Doing::Sweep(want), real).await.map(drop).map_err(plain)
        })
    }

    fn result(&self, id: JobId, at_most: Span) -> Answer<'_, Option<Payload>> {
        self.judged(async move {
            // `Engine::wait` in its two steps: the end has to be durable before the result is read.
            let ended = match self.engine.results().ended(id, at_most).await {
                Err(crore::Error::NotFound { .. }) => return Ok(None),
                ended => ended.map_err(plain)?,
            };
            let Some(ended) = ended else { return Ok(None) };
            self.ear.told_of_end(ended.id);
            self.engine.results().take(id).await.map_err(plain)
        })
    }

    fn seal(&self, group: GroupId) -> Answer<'_, bool> {
        self.judged(async move { self.engine.groups().seal(group).await.map_err(plain) })
    }

    fn define(&self, define: Define) -> Answer<'_, ()> {
        self.judged(async move {
            let Define { name, to, .. } = define;
            let done = match to {
                Definition::Set(value) => self.set(name, value).await,
                Definition::Remove(table) => self.remove(name, table).await,
            };
            match done {
                // A schedule that somebody else has removed meanwhile.
                Err(crore::Error::NotFound { .. }) => Ok(()),
                done => done.map_err(plain),
            }
        })
    }

    fn upkeep_at(&self) -> Time {
        let upkeep_at = self.engine.upkeep().due_at();
        self.deadlines.check(upkeep_at);
        if self.deadlines.is_quiet() {
            self.sleepers.check();
        }
        upkeep_at
    }

    fn upkeep_once(&self) -> Answer<'_, ()> {
        let upkeep = async move { self.engine.upkeep().run_once().await.map_err(plain) };
        self.judged(self.deadlines.upkeep(upkeep))
    }
}
