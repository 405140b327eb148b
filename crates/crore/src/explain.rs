//! Why is this job not running? An answer for programs and people.

use crore_core::job::{Dependency, Why};
use crore_core::limit::{LimitKey, Rate, Tat};
use crore_core::{Job, JobId, Name, Span, State, Time};
use crore_store::registry::{Table, Value};
use crore_store::views::Query;

use crate::engine::{Engine, Inner};
use crate::error::Error;

/// How many jobs are looked at to find what stands before one.
const LOOKS: usize = 1000;

/// Why a job is not running, or that it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// The job.
    pub id: JobId,
    /// Its state.
    pub state: State,
    /// What holds it, the most important first; empty: nothing does, the next fetch gets it.
    pub reasons: Vec<Reason>,
}

/// One thing that holds a job.
#[derive(Debug, Clone, PartialEq)]
pub enum Reason {
    /// It has ended.
    Ended {
        /// When.
        at: Option<Time>,
        /// Why, if it did not end well.
        why: Option<Why>,
    },
    /// It is running.
    Running {
        /// Since when.
        since: Time,
        /// Who has it.
        worker: Option<Name>,
        /// When its lease ends if it is not renewed.
        lease_until: Time,
        /// Whether it was asked to stop.
        stop: bool,
    },
    /// It waits for so many of these to end.
    WaitsFor {
        /// How many have not ended as it needs.
        left: u32,
        /// What it waits for.
        on: Vec<Dependency>,
        /// Whether one of them can no longer succeed; the job will be cancelled.
        broken: bool,
    },
    /// It is due later.
    DueAt {
        /// When.
        at: Time,
        /// How long that is from now.
        after: Span,
        /// How many attempts it has behind it.
        attempts: u32,
        /// What the last of them said.
        error: Option<std::sync::Arc<str>>,
    },
    /// Its queue is paused.
    Paused(Name),
    /// It counts against a limit under which so many are running, of at most so many.
    Limited {
        /// The limit and its value.
        key: LimitKey,
        /// How many run; counted up to a thousand.
        running: usize,
        /// How many may; `None`: the limit is a rate.
        most: Option<u32>,
    },
    /// So many jobs of its queue come before it.
    Behind {
        /// How many.
        jobs: usize,
        /// Whether there are more than were counted.
        or_more: bool,
    },
    /// Nobody waits here for jobs of its queue and kind; a worker may be busy, or there is none.
    NobodyWaits,
}

impl Engine {
    /// Says why a job is not running; `None`: it is not there.
    ///
    /// ```
    /// use crore::core::{Name, State};
    /// use crore::explain::Reason;
    /// use crore::{Engine, block_on};
    ///
    /// # fn main() -> Result<(), crore::Error> {
    /// let engine = Engine::memory();
    /// let queue = Name::new("queue", "mail")?;
    /// block_on(engine.queues().pause(queue.clone()))?;
    /// engine.push("mail", "first").wait()?;
    /// let id = engine.push("mail", "second").wait()?;
    ///
    /// let why = block_on(engine.explain(id))?.expect("it is there");
    /// assert_eq!(why.state, State::Ready);
    /// assert!(why.reasons.contains(&Reason::Paused(queue)));
    /// assert!(why.reasons.contains(&Reason::Behind { jobs: 1, or_more: false }));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn explain(&self, id: JobId) -> Result<Option<Explanation>, Error> {
        let Some(job) = self.get(id).await? else { return Ok(None) };
        let (state, now) = (job.live.state, self.inner.now());
        let mut reasons: Vec<Reason> = plain(&job, now).into_iter().collect();
        if matches!(state, State::Ready | State::Scheduled | State::Waiting) {
            let is_paused = self.inner.queue_entry(&job.spec.queue).await?.0.paused;
            if is_paused {
                reasons.push(Reason::Paused(job.spec.queue.clone()));
            }
            reasons.extend(self.inner.limited(&job, is_paused).await?);
        }
        if state == State::Ready {
            reasons.extend(self.inner.behind(&job).await?);
            if !self.inner.is_waited_for(&job) {
                reasons.push(Reason::NobodyWaits);
            }
        }
        Ok(Some(Explanation { id, state, reasons }))
    }
}

/// What a job says by itself.
fn plain(job: &Job, now: Time) -> Option<Reason> {
    let live = &job.live;
    match live.state {
        State::Ready => None,
        State::Done | State::Dead | State::Cancelled => {
            Some(Reason::Ended { at: live.ended_at, why: live.why })
        }
        State::Running => Some(Reason::Running {
            since: live.started_at,
            worker: live.worker.clone(),
            lease_until: live.lease_until,
            stop: live.stop,
        }),
        State::Waiting => {
            let (left, on, broken) = (live.waits, job.spec.after.clone(), live.broken);
            Some(Reason::WaitsFor { left, on, broken })
        }
        State::Scheduled => Some(Reason::DueAt {
            at: live.due,
            after: live.due.since(now),
            attempts: live.attempt,
            error: live.history.first().and_then(|attempt| attempt.error.clone()),
        }),
    }
}

impl Inner {
    /// The limits that have no room for a job now, as far as can be seen.
    ///
    /// What a rate has left is the store's to know, and is worked out from the runs that are on record.
    /// Of those that are not, one thing tells: a job that somebody waits for, and that nothing else holds,
    /// would have been handed out.
    async fn limited(&self, job: &Job, is_held: bool) -> Result<Vec<Reason>, Error> {
        if job.spec.limits.is_empty() {
            return Ok(Vec::new());
        }
        let defined = self.entries(Table::Limits).await?;
        let running = self.some_in(State::Running).await?;
        let mut ran = self.some_in(State::Done).await?;
        for state in [State::Dead, State::Cancelled, State::Scheduled, State::Ready] {
            ran.extend(self.some_in(state).await?);
        }
        let (mut reasons, mut rates) = (Vec::new(), Vec::new());
        for key in &job.spec.limits {
            let entry = defined.iter().find(|entry| entry.name == key.limit);
            let Some(Value::Limit(limit)) = entry.map(|entry| &entry.value) else { continue };
            let under = |job: &&Job| job.spec.limits.contains(key);
            let runs = running.iter().filter(under).count();
            let most = limit.concurrency.filter(|most| runs >= *most as usize);
            let reason = Reason::Limited { key: key.clone(), running: runs, most };
            let is_spent = |rate: &Rate| {
                let jobs = running.iter().chain(&ran).filter(under);
                is_spent(rate, jobs, self.now())
            };
            if most.is_some() || limit.rate.as_ref().is_some_and(is_spent) {
                reasons.push(reason);
            } else if limit.rate.is_some() {
                rates.push(reason);
            }
        }
        Ok(if reasons.is_empty() && !is_held && self.is_waited_for(job) { rates } else { reasons })
    }

    fn is_waited_for(&self, job: &Job) -> bool {
        job.live.state == State::Ready
            && self.dispatch.is_waited_for(&job.spec.queue, &job.spec.kind)
    }

    /// The first jobs in a state.
    async fn some_in(&self, state: State) -> Result<Vec<Job>, Error> {
        let query = Query { state, queue: None, kind: None, after: None, n: LOOKS };
        Ok(self.store.list(query).await?.jobs)
    }

    /// How many ready jobs of its queue come before a job.
    async fn behind(&self, job: &Job) -> Result<Option<Reason>, Error> {
        let queue = Some(job.spec.queue.clone());
        let query = Query { state: State::Ready, queue, kind: None, after: None, n: LOOKS };
        let page = self.store.list(query).await?;
        let place = page.jobs.iter().position(|other| other.id == job.id);
        let (jobs, or_more) = place.map_or((page.jobs.len(), true), |place| (place, false));
        Ok((jobs > 0).then_some(Reason::Behind { jobs, or_more }))
    }
}

/// Whether a rate has nothing left after all runs of these jobs.
fn is_spent<'a>(rate: &Rate, jobs: impl Iterator<Item = &'a Job>, now: Time) -> bool {
    let starts = jobs.flat_map(|job| {
        let before = job.live.history.iter().map(|attempt| attempt.started_at);
        before.chain((job.live.state == State::Running).then_some(job.live.started_at))
    });
    let mut starts: Vec<Time> = starts.collect();
    starts.sort_unstable();
    let tat = starts.into_iter().fold(Tat::default(), |tat, at| rate.take(tat, at, 1).tat);
    rate.take(tat, now, 1).granted == 0
}
