//! Acts of people: cancel, retry, delete and change, of one job or of all that match.

use std::collections::HashSet;
use std::sync::Arc;

use crore_core::job::When;
use crore_core::machine::{Edit, Event, Refusal, decide};
use crore_core::{Code, Invalid, Job, Name, Spec, State, Time};
use crore_store::jobs::Which;
use crore_store::views::{Cursor, Query};

use crate::change::Decided;
use crate::engine::Inner;
use crate::error::Error;
use crate::jobs::Jobs;

/// How many jobs are looked at in one go.
const AT_ONCE: usize = 1000;

/// What is to be done with a job.
#[derive(Debug, Clone, PartialEq)]
pub enum Act {
    /// It is not to run; a running one is asked to stop.
    Cancel,
    /// It is to run again, or now.
    Retry,
    /// It is to be gone.
    Delete,
    /// Something of it is to be otherwise.
    Change(Other),
}

/// What is to be otherwise; what is `None` stays.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Other {
    /// The queue.
    pub queue: Option<Name>,
    /// The priority.
    pub priority: Option<i32>,
    /// When it is due.
    pub due: Option<When>,
}

/// What became of an act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acted {
    /// It is done: the job is in this state now, or gone (`None`).
    Yes(Option<State>),
    /// The job is in no state for which this means anything.
    No(Refusal),
    /// There is no such job.
    NotFound,
}

/// Which jobs are meant.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    /// In one of these states; empty: in any.
    pub states: Vec<State>,
    /// In this queue.
    pub queue: Option<Name>,
    /// Of this kind.
    pub kind: Option<Name>,
    /// With all of these labels.
    pub labels: Vec<(String, String)>,
    /// Pushed before this.
    pub pushed_before: Option<Time>,
}

impl Filter {
    fn matches(&self, job: &Job) -> bool {
        let labels = &job.spec.labels;
        self.labels.iter().all(|(name, value)| labels.get(name) == Some(value))
            && self.pushed_before.is_none_or(|before| job.live.pushed_at < before)
    }

    fn states(&self) -> &[State] {
        if self.states.is_empty() { &State::ALL } else { &self.states }
    }
}

/// How far an act on many has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Jobs that were looked at.
    pub seen: u64,
    /// Jobs that match.
    pub matched: u64,
    /// Jobs with which it was done; in a dry run, with which it would be.
    pub done: u64,
}

/// Whether an act on many is done, or only counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Run {
    /// It is done.
    Real,
    /// It is counted how many there are.
    Dry,
}

impl Jobs<'_> {
    /// Does something with one job.
    pub async fn act(self, which: Which, act: &Act) -> Result<Acted, Error> {
        let mut acted = self.inner.act(vec![which], act).await?;
        Ok(acted.pop().unwrap_or(Acted::NotFound))
    }

    /// Does something with all jobs that match, a thousand at a time, state by state, and
    /// with each once; `progress` is told after each thousand, and ends it by saying `false`. Jobs that come meanwhile
    /// may be met or not.
    ///
    /// ```
    /// use crore::act::{Act, Filter, Run};
    /// use crore::core::{Name, State};
    /// use crore::{Engine, block_on};
    ///
    /// # fn main() -> Result<(), crore::Error> {
    /// let engine = Engine::memory();
    /// for n in 0..3 {
    ///     engine.push("mail", vec![n]).attempts(1).wait()?;
    ///     engine.pop_blocking("mail", |_| Err::<(), _>("the mail server is asleep"))?;
    /// }
    /// let queue = Some(Name::new("queue", "mail")?);
    /// let dead = Filter { states: vec![State::Dead], queue, ..Filter::default() };
    ///
    /// let would = block_on(engine.jobs().act_on_all(&dead, &Act::Retry, Run::Dry, |_| true))?;
    /// assert_eq!(would.done, 3);
    /// let did = block_on(engine.jobs().act_on_all(&dead, &Act::Retry, Run::Real, |_| true))?;
    /// assert_eq!(did.done, 3);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn act_on_all(
        self,
        filter: &Filter,
        act: &Act,
        run: Run,
        mut progress: impl FnMut(Progress) -> bool + Send,
    ) -> Result<Progress, Error> {
        if let Act::Change(other) = act {
            self.inner.check_other(other)?;
        }
        let mut so_far = Progress::default();
        // What is done may move a job ahead, into another state or a later place, and there it would
        // be met again.
        let mut met = HashSet::new();
        for state in filter.states() {
            let mut after = None;
            loop {
                let page = self.inner.some_of(filter, *state, after).await?;
                let (mut jobs, next) = page;
                jobs.retain(|job| met.insert(job.id));
                so_far.seen += jobs.len() as u64;
                jobs.retain(|job| filter.matches(job));
                so_far.matched += jobs.len() as u64;
                so_far.done += self.inner.act_on(&jobs, act, run).await?;
                if !progress(so_far) {
                    return Ok(so_far);
                }
                after = next;
                if after.is_none() {
                    break;
                }
            }
        }
        Ok(so_far)
    }
}

impl Inner {
    async fn act(&self, which: Vec<Which>, act: &Act) -> Result<Vec<Acted>, Error> {
        if let Act::Change(other) = act {
            self.check_other(other)?;
        }
        let asked = which.into_iter().map(|which| (which, self.event(act))).collect();
        let decided = self.change(asked, |job, event, dice| match act {
            Act::Change(other) => decide(job, &self.edited(job, other), dice),
            _ => decide(job, event, dice),
        });
        let acted = |decided| match decided {
            Decided::Yes { state, .. } => Acted::Yes(state),
            Decided::No(refusal) => Acted::No(refusal),
            Decided::NotFound => Acted::NotFound,
        };
        Ok(decided.await?.into_iter().map(acted).collect())
    }

    /// The next jobs that a list can tell to be meant.
    async fn some_of(
        &self,
        filter: &Filter,
        state: State,
        after: Option<Cursor>,
    ) -> Result<(Vec<Job>, Option<Cursor>), Error> {
        let (queue, kind) = (filter.queue.clone(), filter.kind.clone());
        let page = self.store.list(Query { state, queue, kind, after, n: AT_ONCE }).await?;
        Ok((page.jobs, page.next))
    }

    async fn act_on(&self, jobs: &[Job], act: &Act, run: Run) -> Result<u64, Error> {
        if run == Run::Dry {
            let would = |job: &&Job| match act {
                Act::Change(other) => decide(job, &self.edited(job, other), 0).is_ok(),
                _ => decide(job, &self.event(act), 0).is_ok(),
            };
            return Ok(jobs.iter().filter(would).count() as u64);
        }
        if jobs.is_empty() {
            return Ok(0);
        }
        let which = jobs.iter().map(|job| Which::Id(job.id)).collect();
        let acted = self.act(which, act).await?;
        Ok(acted.iter().filter(|acted| matches!(acted, Acted::Yes(_))).count() as u64)
    }

    const fn event(&self, act: &Act) -> Event {
        match act {
            Act::Cancel => Event::Cancel,
            Act::Retry => Event::Retry,
            Act::Delete => Event::Delete,
            Act::Change(_) => Event::Edit(Edit { spec: None, due: None }),
        }
    }

    fn edited(&self, job: &Job, other: &Other) -> Event {
        let spec = (other.queue.is_some() || other.priority.is_some()).then(|| {
            let mut spec: Spec = (*job.spec).clone();
            spec.queue = other.queue.clone().unwrap_or(spec.queue);
            spec.priority = other.priority.unwrap_or(spec.priority);
            spec.limits = self.limits.keys(&spec);
            Arc::new(spec)
        });
        Event::Edit(Edit { spec, due: other.due })
    }

    fn check_other(&self, other: &Other) -> Result<(), Invalid> {
        let now = self.now();
        match other.due {
            Some(due) if due.resolve(now, now).since(now) > self.caps.max_ahead => {
                let message = format!("is more than {:?} ahead", self.caps.max_ahead);
                Err(Invalid::new(Code::TimeRange, "due", message))
            }
            _ => Ok(()),
        }
    }
}
