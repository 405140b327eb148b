//! Actions on jobs: cancel, retry, delete and edit, for one job or for all that match a filter.

use std::collections::HashSet;
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use crore_core::job::{DueTime, ManualActionType};
use crore_core::machine::{JobEdit, JobEvent, NewManualAction, Refusal, decide};
use crore_core::{Code, Invalid, Job, Name, Restriction, SearchFilter, Spec, State, Time};
use crore_store::jobs::JobSelector;

use crate::change::ChangeResult;
use crate::engine::EngineInner;
use crate::error::Error;
use crate::jobs::Jobs;
use crate::replay::BulkReplay;

/// Jobs per page of a bulk action. Other calls wait while a page is read and while it is changed.
const PAGE: usize = 200;

/// An action on a job.
#[derive(Debug, Clone, PartialEq)]
pub enum JobAction {
    /// Cancel it. A running job is asked to stop.
    Cancel,
    /// Run it again after it ended, or now if it is due later.
    Retry,
    /// Remove it.
    Delete,
    /// Edit it.
    Change(JobChanges),
}

impl JobAction {
    /// The states in which a job allows the action.
    pub const fn states(&self) -> &'static [State] {
        use State::{Cancelled, Dead, Done, Ready, Running, Scheduled, Waiting};
        match self {
            Self::Cancel => &[Waiting, Scheduled, Ready, Running],
            Self::Retry => &[Scheduled, Dead, Cancelled],
            Self::Delete => &[Waiting, Scheduled, Ready, Done, Dead, Cancelled],
            Self::Change(_) => &[Waiting, Scheduled, Ready],
        }
    }
}

/// Edits of a job; fields that are `None` stay unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobChanges {
    /// The new queue.
    pub queue: Option<Name>,
    /// The new priority.
    pub priority: Option<i32>,
    /// The new due time.
    pub due: Option<DueTime>,
}

/// The task of a bulk operation.
#[derive(Debug, Clone, PartialEq)]
pub enum BulkTask {
    /// Applies an action.
    Act(JobAction),
    /// Pushes a replay.
    Replay(Box<BulkReplay>),
}

/// Result of an action on one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActionResult {
    /// Applied. The state of the job afterwards; `None`: it was removed.
    Applied(Option<State>),
    /// The state of the job does not allow the action.
    Refused {
        /// The reason.
        refusal: Refusal,
        /// The state, if it is known.
        state: Option<State>,
    },
    /// The job does not exist.
    NotFound,
}

/// Selects jobs. All conditions must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobFilter {
    /// In one of these states; empty: any state.
    pub states: Vec<State>,
    /// In this queue.
    pub queue: Option<Name>,
    /// Of this kind.
    pub kind: Option<Name>,
    /// With all of these labels.
    pub labels: Vec<(String, String)>,
    /// Pushed before this time.
    pub pushed_before: Option<Time>,
    /// Matching this filter.
    pub search: SearchFilter,
    /// Covered by this restriction. Other jobs are not counted as examined.
    pub within: Option<Arc<Restriction>>,
}

impl JobFilter {
    /// Whether a job meets the conditions on labels and the time of the push.
    pub fn matches(&self, job: &Job) -> bool {
        let labels = &job.spec.labels;
        self.labels.iter().all(|(name, value)| labels.get(name) == Some(value))
            && self.pushed_before.is_none_or(|before| job.live.pushed_at < before)
    }

    fn covers(&self, job: &Job) -> bool {
        let Spec { queue, kind, .. } = &*job.spec;
        self.within.as_ref().is_none_or(|within| within.covers(queue, kind))
    }

    /// The conditions that indexes can serve, and those of `search`.
    pub fn searched(&self) -> SearchFilter {
        let mut search = self.search.clone();
        if !self.states.is_empty() {
            search = search.with_states(&self.states);
        }
        search = self.queue.iter().fold(search, SearchFilter::with_queue);
        self.kind.iter().fold(search, SearchFilter::with_kind)
    }
}

/// Progress of a bulk action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BulkProgress {
    /// Jobs examined.
    pub examined: u64,
    /// Jobs that matched the filter.
    pub matched: u64,
    /// Jobs that the action was applied to; in a dry run, that it would be applied to.
    pub done: u64,
}

/// Whether a bulk action is applied or only counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BulkMode {
    /// Apply the action.
    Apply,
    /// Only count the jobs that it would apply to.
    DryRun,
}

impl Jobs<'_> {
    /// Applies an action to one job.
    pub async fn act(self, which: JobSelector, action: &JobAction) -> Result<ActionResult, Error> {
        let mut acted = self.inner.act(vec![which], action, self.caller).await?;
        Ok(acted.pop().unwrap_or(ActionResult::NotFound))
    }

    /// Applies an action to all jobs that match a filter, state by state in pages of 200, at most once to each
    /// job. `progress` is called after each page and stops the operation by returning `false`. Jobs that are pushed
    /// meanwhile may or may not be included.
    ///
    /// ```
    /// use crore::actions::{BulkMode, JobAction, JobFilter};
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
    /// let dead = JobFilter { states: vec![State::Dead], queue, ..JobFilter::default() };
    ///
    /// let jobs = engine.jobs();
    /// let counted = block_on(jobs.act_on_all(&dead, &JobAction::Retry, BulkMode::DryRun, |_| true))?;
    /// assert_eq!(counted.done, 3);
    /// let retried = block_on(jobs.act_on_all(&dead, &JobAction::Retry, BulkMode::Apply, |_| true))?;
    /// assert_eq!(retried.done, 3);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn act_on_all(
        self,
        filter: &JobFilter,
        action: &JobAction,
        mode: BulkMode,
        progress: impl FnMut(BulkProgress) -> bool + Send,
    ) -> Result<BulkProgress, Error> {
        self.run_bulk(filter, &BulkTask::Act(action.clone()), mode, progress).await
    }

    /// Runs a task on all jobs that match a filter; see [`Self::act_on_all`] and [`Self::replay_all`].
    pub async fn run_bulk(
        self,
        filter: &JobFilter,
        task: &BulkTask,
        mode: BulkMode,
        mut progress: impl FnMut(BulkProgress) -> bool + Send,
    ) -> Result<BulkProgress, Error> {
        if let BulkTask::Act(JobAction::Change(changes)) = task {
            self.inner.check_changes(changes)?;
        }
        let search = filter.searched();
        let (plan, now) = (self.inner.search_plan(&search, None).await?, self.inner.now());
        let mut so_far = BulkProgress::default();
        // The action may move a job to a later state or position, where a later page lists it again.
        let mut visited = HashSet::new();
        let mut position = Some(plan.start());
        while let Some(at) = position {
            let (mut jobs, next) = self.inner.planned_page(&plan, at, PAGE, now).await?;
            jobs.retain(|job| filter.covers(job) && visited.insert(job.id));
            so_far.examined += jobs.len() as u64;
            jobs.retain(|job| filter.matches(job) && search.matches(job, now));
            so_far.matched += jobs.len() as u64;
            so_far.done += match task {
                BulkTask::Act(action) if mode == BulkMode::DryRun => {
                    self.inner.count_allowed(&jobs, action)
                }
                BulkTask::Act(action) => self.inner.act_on_page(&jobs, action, self.caller).await?,
                BulkTask::Replay(replay) => {
                    let replayed = self.inner.replay_page(&jobs, replay, mode).await?;
                    // A replay may match the filter, and is not replayed itself.
                    visited.extend(replayed.new);
                    replayed.count
                }
            };
            if !progress(so_far) {
                return Ok(so_far);
            }
            position = next;
            if position.is_some() {
                // A local store answers at once, so other tasks would wait for the whole action.
                yield_once().await;
            }
        }
        Ok(so_far)
    }
}

/// Lets other tasks run.
async fn yield_once() {
    let mut has_yielded = false;
    poll_fn(|context| match std::mem::replace(&mut has_yielded, true) {
        true => Poll::Ready(()),
        false => {
            context.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await;
}

impl EngineInner {
    async fn act(
        &self,
        which: Vec<JobSelector>,
        action: &JobAction,
        caller: &str,
    ) -> Result<Vec<ActionResult>, Error> {
        if let JobAction::Change(changes) = action {
            self.check_changes(changes)?;
        }
        let requests = which.into_iter().map(|which| (which, self.event(action))).collect();
        let record = action_record(action, caller);
        let decided = self.change(requests, |job, event, random| {
            let change = match action {
                JobAction::Change(changes) => decide(job, &self.edit_event(job, changes), random),
                _ => decide(job, event, random),
            }?;
            Ok(match &record {
                Some(record) => change.recorded(record.clone()),
                None => change,
            })
        });
        let acted = |decided| match decided {
            ChangeResult::Applied { state, .. } => ActionResult::Applied(state),
            ChangeResult::Refused(refusal, state) => ActionResult::Refused { refusal, state },
            ChangeResult::NotFound => ActionResult::NotFound,
        };
        Ok(decided.await?.into_iter().map(acted).collect())
    }

    /// Number of jobs that allow an action.
    fn count_allowed(&self, jobs: &[Job], action: &JobAction) -> u64 {
        let would = |job: &&Job| match action {
            JobAction::Change(changes) => decide(job, &self.edit_event(job, changes), 0).is_ok(),
            _ => decide(job, &self.event(action), 0).is_ok(),
        };
        jobs.iter().filter(would).count() as u64
    }

    async fn act_on_page(
        &self,
        jobs: &[Job],
        action: &JobAction,
        caller: &str,
    ) -> Result<u64, Error> {
        if jobs.is_empty() {
            return Ok(0);
        }
        let which = jobs.iter().map(|job| JobSelector::Id(job.id)).collect();
        let acted = self.act(which, action, caller).await?;
        Ok(acted.iter().filter(|acted| matches!(acted, ActionResult::Applied(_))).count() as u64)
    }

    const fn event(&self, action: &JobAction) -> JobEvent {
        match action {
            JobAction::Cancel => JobEvent::Cancel,
            JobAction::Retry => JobEvent::Retry,
            JobAction::Delete => JobEvent::Delete,
            JobAction::Change(_) => JobEvent::Edit(JobEdit { spec: None, due: None }),
        }
    }

    fn edit_event(&self, job: &Job, changes: &JobChanges) -> JobEvent {
        let spec = (changes.queue.is_some() || changes.priority.is_some()).then(|| {
            let mut spec: Spec = (*job.spec).clone();
            spec.queue = changes.queue.clone().unwrap_or(spec.queue);
            spec.priority = changes.priority.unwrap_or(spec.priority);
            self.limits.set_keys(&mut spec);
            Arc::new(spec)
        });
        JobEvent::Edit(JobEdit { spec, due: changes.due })
    }

    fn check_changes(&self, changes: &JobChanges) -> Result<(), Invalid> {
        let now = self.now();
        match changes.due {
            Some(due) if due.resolve(now, now).since(now) > self.caps.max_ahead => {
                let message = format!("is more than {:?} in the future", self.caps.max_ahead);
                Err(Invalid::new(Code::TimeRange, "due", message))
            }
            _ => Ok(()),
        }
    }
}

/// Maximum bytes of a recorded caller.
const MAX_CALLER: usize = 200;

/// The record of an action; `None`: it removes the job.
fn action_record(action: &JobAction, caller: &str) -> Option<NewManualAction> {
    let (action, detail) = match action {
        JobAction::Cancel => (ManualActionType::Cancel, None),
        JobAction::Retry => (ManualActionType::Retry, None),
        JobAction::Delete => return None,
        JobAction::Change(changes) => (ManualActionType::Edit, Some(changes.to_string().into())),
    };
    let by = caller.get(..caller.floor_char_boundary(MAX_CALLER)).unwrap_or_default().into();
    Some(NewManualAction { action, by, detail })
}

impl fmt::Display for JobChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { queue, priority, due } = self;
        let mut parts = Vec::new();
        parts.extend(queue.as_ref().map(|queue| format!("queue {queue}")));
        parts.extend(priority.map(|priority| format!("priority {priority}")));
        parts.extend(due.map(|due| format!("due {due}")));
        f.write_str(&parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use crore_core::{Encoding, Live, Payload};

    use super::*;

    #[test]
    fn the_states_of_an_action_are_those_in_which_it_is_decided() {
        let queue = Name::new("queue", "q").expect("a name");
        let spec = Spec::new(queue.clone(), queue, Payload::new(Encoding::Bytes, &b""[..]));
        let changes = JobAction::Change(JobChanges::default());
        for action in [JobAction::Cancel, JobAction::Retry, JobAction::Delete, changes] {
            let event = match &action {
                JobAction::Cancel => JobEvent::Cancel,
                JobAction::Retry => JobEvent::Retry,
                JobAction::Delete => JobEvent::Delete,
                JobAction::Change(_) => JobEvent::Edit(JobEdit::default()),
            };
            for state in State::ALL {
                let now = Time::from_millis(1);
                let live = Live { state, ..Live::pushed(now, now, 0) };
                let job = Job { id: crore_core::JobId(1), spec: Arc::new(spec.clone()), live };
                let is_allowed = decide(&job, &event, 0).is_ok();
                assert_eq!(action.states().contains(&state), is_allowed, "{action:?} {state:?}");
            }
        }
    }
}
