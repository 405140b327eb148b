//! Explains why a job is not running.

use std::collections::BTreeSet;

use crore_core::dependency::{self, Satisfaction};
use crore_core::fair::{DEFAULT_WEIGHT, FairKey};
use crore_core::group::Group;
use crore_core::job::{Dependency, DependencyCondition, DependencyTarget, EndReason};
use crore_core::limit::{LimitKey, Rate, Tat};
use crore_core::version::{Version, VersionRequirement};
use crore_core::{AwaitedEvent, EventWait, GroupId, Job, JobId, Name, Span, State, Time};
use crore_store::jobs::JobSelector;
use crore_store::registry::{RegistryTable, RegistryValue};
use crore_store::views::{ListPage, ListQuery};

use crate::engine::{Engine, EngineInner};
use crate::error::Error;

/// Maximum jobs that are read per state to explain one job.
const MAX_JOBS_READ: usize = 1000;

/// Why a job is not running, or that it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// The job.
    pub id: JobId,
    /// Its state.
    pub state: State,
    /// The deadline for its first start, while it is in force; of an expired job, the one that it missed.
    pub deadline: Option<Time>,
    /// The reasons, the most important first; empty: nothing holds the job back, and the next fetch gets it.
    pub reasons: Vec<Reason>,
}

/// A dependency that is not satisfied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AwaitedDependency {
    /// The condition.
    pub needs: DependencyCondition,
    /// The job or group, with its state.
    pub on: AwaitedTarget,
}

/// A job or group that another job waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AwaitedTarget {
    /// A job in this state; `None`: it was removed.
    Job(JobId, Option<State>),
    /// A group with these counts; `None`: it was removed.
    Group(GroupId, Option<Group>),
}

/// A reason why a job is not handed out.
#[derive(Debug, Clone, PartialEq)]
pub enum Reason {
    /// The job has ended.
    Ended {
        /// When it ended.
        at: Option<Time>,
        /// The cause, if it did not succeed.
        why: Option<EndReason>,
    },
    /// The job is running.
    Running {
        /// When the run started.
        since: Time,
        /// The worker that holds its lease.
        worker: Option<Name>,
        /// When its lease ends unless it is renewed.
        lease_until: Time,
        /// Whether it was asked to stop.
        stop: bool,
    },
    /// The job waits for other jobs or groups.
    WaitsFor {
        /// How many of them have yet to end as required.
        left: u32,
        /// The number of its dependencies.
        of: usize,
        /// Those that have yet to end as required.
        on: Vec<AwaitedDependency>,
        /// Whether one of them can no longer succeed; the job is then cancelled.
        broken: bool,
    },
    /// The job waits for an event that has not been sent since its push.
    WaitsForEvent {
        /// The event.
        awaited: AwaitedEvent,
        /// When the wait times out; `None`: never.
        until: Option<Time>,
    },
    /// The job is due later: delayed, scheduled or waiting for a retry.
    DueAt {
        /// When it is due.
        at: Time,
        /// The time until then.
        after: Span,
        /// The number of attempts so far.
        attempts: u32,
        /// The error of the last attempt.
        error: Option<std::sync::Arc<str>>,
    },
    /// The queue is paused.
    Paused(Name),
    /// A limit has no room for it.
    Limited {
        /// The limit, and the value of its key.
        key: LimitKey,
        /// Running jobs under this key; counted up to 1000.
        running: usize,
        /// Maximum running jobs; `None`: the limit is a rate.
        most: Option<u32>,
    },
    /// A report has paused its key under a limit.
    KeyPaused {
        /// The limit, and the value of its key.
        key: LimitKey,
        /// When the pause ends.
        until: Time,
    },
    /// Other ready jobs of its queue come first.
    Behind {
        /// How many jobs.
        jobs: usize,
        /// Whether there are more than were counted.
        or_more: bool,
    },
    /// Its queue is shared: its key takes turns with other keys.
    Shared {
        /// The key of the job.
        key: FairKey,
        /// The weight of the key.
        weight: u32,
        /// How many ready jobs of its key come first.
        place: usize,
        /// How many other keys have ready jobs of its priority or a better one.
        keys: usize,
        /// Whether there are more jobs than were counted.
        or_more: bool,
    },
    /// The job requires a version of its kind that no connected worker of its queue runs.
    NoWorkerVersion {
        /// The kind.
        kind: Name,
        /// The versions that may run the job.
        required: VersionRequirement,
        /// The versions of the kind that connected workers of the queue run.
        connected: Vec<Version>,
    },
    /// No fetch waits on this engine for jobs of its queue and kind: its workers are busy, or there are none.
    NoWorkerWaiting,
}

impl Engine {
    /// Explains why a job is not running; `None`: the job does not exist.
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
    /// let why = block_on(engine.explain(id))?.expect("it exists");
    /// assert_eq!(why.state, State::Ready);
    /// assert!(why.reasons.contains(&Reason::Paused(queue)));
    /// assert!(why.reasons.contains(&Reason::Behind { jobs: 1, or_more: false }));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn explain(&self, id: JobId) -> Result<Option<Explanation>, Error> {
        let Some(job) = self.get(id).await? else { return Ok(None) };
        let (state, now) = (job.live.state, self.inner.now());
        let mut reasons: Vec<Reason> = match state {
            State::Waiting => self.inner.waiting_reasons(&job).await?,
            _ => reason_from_state(&job, now).into_iter().collect(),
        };
        if matches!(state, State::Ready | State::Scheduled | State::Waiting) {
            let is_paused = self.inner.queue_entry(&job.spec.queue).await?.0.paused;
            if is_paused {
                reasons.push(Reason::Paused(job.spec.queue.clone()));
            }
            reasons.extend(self.inner.limited(&job, is_paused).await?);
        }
        if state == State::Ready {
            reasons.extend(self.inner.behind(&job).await?);
            match self.inner.no_worker_version(&job) {
                Some(reason) => reasons.insert(0, reason),
                None if !self.inner.is_waited_for(&job) => reasons.push(Reason::NoWorkerWaiting),
                None => {}
            }
        }
        Ok(Some(Explanation { id, state, deadline: job.live.deadline, reasons }))
    }
}

/// The reason that follows from the job alone.
fn reason_from_state(job: &Job, now: Time) -> Option<Reason> {
    let live = &job.live;
    match live.state {
        State::Ready | State::Waiting => None,
        State::Done | State::Dead | State::Cancelled => {
            Some(Reason::Ended { at: live.ended_at, why: live.why })
        }
        State::Running => Some(Reason::Running {
            since: live.started_at,
            worker: live.worker.clone(),
            lease_until: live.lease_until,
            stop: live.stop,
        }),
        State::Scheduled => Some(Reason::DueAt {
            at: live.due,
            after: live.due.since(now),
            attempts: live.attempt,
            error: live.history.first().and_then(|attempt| attempt.error.clone()),
        }),
    }
}

impl EngineInner {
    /// The reasons why a waiting job waits.
    async fn waiting_reasons(&self, job: &Job) -> Result<Vec<Reason>, Error> {
        let mut reasons = Vec::new();
        let awaited = job.spec.wait_for.as_deref().cloned();
        if let (Some(EventWait::Open { until }), Some(awaited)) =
            (job.live.event.as_deref(), awaited)
        {
            reasons.push(Reason::WaitsForEvent { awaited, until: *until });
        }
        if job.live.waits > 0 || job.live.broken || reasons.is_empty() {
            reasons.insert(0, self.waits_for(job).await?);
        }
        Ok(reasons)
    }

    /// The dependencies of a waiting job that are not satisfied. A removed job or group is listed only if it broke
    /// the dependency: most are removed after they were done.
    async fn waits_for(&self, job: &Job) -> Result<Reason, Error> {
        let broken = job.live.broken;
        let jobs = job.spec.after.iter().filter_map(|dependency| match dependency.on {
            DependencyTarget::Job(id) => Some(JobSelector::Id(id)),
            DependencyTarget::Group(_) => None,
        });
        let mut states = self.store.get(jobs.collect()).await?.into_iter();
        let mut on = Vec::new();
        for Dependency { on: target, needs } in &job.spec.after {
            let (target, satisfaction) = match *target {
                DependencyTarget::Job(id) => {
                    let state = states.next().flatten().map(|job| job.live.state);
                    (AwaitedTarget::Job(id, state), dependency::job_satisfaction(state, *needs))
                }
                DependencyTarget::Group(id) => {
                    let group = self.store.group(id).await?;
                    let satisfaction = dependency::group_satisfaction(group.as_ref(), *needs);
                    (AwaitedTarget::Group(id, group), satisfaction)
                }
            };
            let is_awaited = match satisfaction {
                Satisfaction::Satisfied => false,
                Satisfaction::Open => true,
                Satisfaction::Broken => broken,
            };
            if is_awaited {
                on.push(AwaitedDependency { needs: *needs, on: target });
            }
        }
        Ok(Reason::WaitsFor { left: job.live.waits, of: job.spec.after.len(), on, broken })
    }

    /// The limits that have no room for a job now, as far as can be determined.
    ///
    /// Only the store knows what a rate has left. It is estimated here from the recorded runs, which does not
    /// include runs of removed jobs. If a fetch waits for the job and nothing else holds it back, a rate must be
    /// the reason.
    async fn limited(&self, job: &Job, is_held: bool) -> Result<Vec<Reason>, Error> {
        if job.spec.limits.is_empty() {
            return Ok(Vec::new());
        }
        let defined = self.entries(RegistryTable::Limits).await?;
        let running = self.first_in(State::Running).await?;
        let mut ran = self.first_in(State::Done).await?;
        for state in [State::Dead, State::Cancelled, State::Scheduled, State::Ready] {
            ran.extend(self.first_in(state).await?);
        }
        let (mut reasons, mut rates) = (self.paused_keys_of(job).await?, Vec::new());
        for (key, cost) in job.spec.charges() {
            let entry = defined.iter().find(|entry| entry.name == key.limit);
            let Some(RegistryValue::Limit(limit)) = entry.map(|entry| &entry.value) else {
                continue;
            };
            let under = |job: &&Job| job.spec.limits.contains(key);
            let runs = running.iter().filter(under).count();
            let most = limit.concurrency.filter(|most| runs >= *most as usize);
            let reason = Reason::Limited { key: key.clone(), running: runs, most };
            let is_spent = |rate: &Rate| {
                let jobs = running.iter().chain(&ran).filter(under);
                match limit.cost {
                    None => is_spent(rate, jobs, self.now()),
                    Some(_) => is_cost_spent(rate, (key, cost), jobs, self.now()),
                }
            };
            if most.is_some() || limit.rate.as_ref().is_some_and(is_spent) {
                reasons.push(reason);
            } else if limit.rate.is_some() {
                rates.push(reason);
            }
        }
        Ok(if reasons.is_empty() && !is_held && self.is_waited_for(job) { rates } else { reasons })
    }

    /// The keys of a job that are paused.
    async fn paused_keys_of(&self, job: &Job) -> Result<Vec<Reason>, Error> {
        let mut reasons = Vec::new();
        for key in &job.spec.limits {
            let paused = self.store.paused_keys(Some(key.limit.clone()), MAX_JOBS_READ).await?;
            let paused = paused.into_iter().find(|paused| paused.key == *key);
            reasons.extend(paused.map(|it| Reason::KeyPaused { key: it.key, until: it.until }));
        }
        Ok(reasons)
    }

    fn no_worker_version(&self, job: &Job) -> Option<Reason> {
        let (spec, required) = (&job.spec, job.spec.worker_version.as_deref()?);
        let connected = self.unsatisfying_versions(&spec.queue, &spec.kind, required)?;
        let (kind, connected) = (spec.kind.clone(), connected.into_iter().collect());
        Some(Reason::NoWorkerVersion { kind, required: *required, connected })
    }

    fn is_waited_for(&self, job: &Job) -> bool {
        job.live.state == State::Ready && self.wait_list.is_waited_for(&job.spec)
    }

    /// The first jobs in a state.
    async fn first_in(&self, state: State) -> Result<Vec<Job>, Error> {
        let query =
            ListQuery { state, queue: None, kind: None, key: None, after: None, n: MAX_JOBS_READ };
        Ok(self.store.list(query).await?.jobs)
    }

    /// The number of ready jobs of its queue that come before a job.
    async fn behind(&self, job: &Job) -> Result<Option<Reason>, Error> {
        let queue = Some(job.spec.queue.clone());
        let query = ListQuery {
            state: State::Ready,
            queue,
            kind: None,
            key: None,
            after: None,
            n: MAX_JOBS_READ,
        };
        let page = self.store.list(query).await?;
        if let Some(key) = &job.spec.fair {
            return Ok(self.shared(job, key, &page));
        }
        let position = page.jobs.iter().position(|other| other.id == job.id);
        let (jobs, or_more) =
            position.map_or((page.jobs.len(), true), |position| (position, false));
        Ok((jobs > 0).then_some(Reason::Behind { jobs, or_more }))
    }
}

impl EngineInner {
    /// The share and the place of a job, counted in the first ready jobs of its queue; `None`: it is the next.
    fn shared(&self, job: &Job, key: &FairKey, page: &ListPage) -> Option<Reason> {
        let ready = page.jobs.iter();
        let own = ready.clone().filter(|other| other.spec.fair.as_ref() == Some(key));
        let position = own.clone().position(|other| other.id == job.id);
        let others = ready.filter(|other| other.spec.priority <= job.spec.priority);
        let others = others.filter_map(|other| other.spec.fair.as_ref());
        let place = position.unwrap_or_else(|| own.count());
        let keys = others.filter(|other| *other != key).collect::<BTreeSet<_>>().len();
        let share = self.limits.share(&job.spec.queue);
        let weight = share.map_or(DEFAULT_WEIGHT, |share| share.weight(key.as_str()));
        let (key, or_more) = (key.clone(), page.next.is_some());
        (place > 0 || keys > 0 || or_more).then_some(Reason::Shared {
            key,
            weight,
            place,
            keys,
            or_more,
        })
    }
}

/// Whether a rate that counts costs does not have this cost after all recorded runs of these jobs. Reports may have
/// corrected what they cost, which is not recorded.
fn is_cost_spent<'a>(
    rate: &Rate,
    (key, cost): (&LimitKey, u32),
    jobs: impl Iterator<Item = &'a Job>,
    now: Time,
) -> bool {
    let starts = jobs.flat_map(|job| {
        let cost = job.spec.charges().find(|(other, _)| *other == key).map_or(0, |(_, cost)| cost);
        let before = job.live.history.iter().map(|attempt| attempt.started_at);
        let all = before.chain((job.live.state == State::Running).then_some(job.live.started_at));
        all.map(move |at| (at, cost))
    });
    let mut starts: Vec<(Time, u32)> = starts.collect();
    starts.sort_unstable();
    let used = |tat, (at, cost)| rate.take_cost(tat, at, cost).tat;
    let tat = starts.into_iter().fold(Tat::default(), used);
    !rate.take_cost(tat, now, cost).is_granted
}

/// Whether a rate is used up after all recorded runs of these jobs.
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
