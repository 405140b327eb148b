//! Actions on jobs: cancel, retry, delete, change and replay, for one job or for all that match.

use crore::actions::{
    ActionResult, BulkMode, BulkProgress, BulkTask, JobAction, JobChanges, JobFilter,
};
use crore::replay::BulkReplay;
use crore_core::machine::Refusal;
use crore_core::{Code, Invalid, JobId, Name, SearchFilter, State};
use crore_wire::api::act as wire;
use crore_wire::api::replay::ReplayAll;
use futures_util::stream::{Stream, unfold};
use tokio::sync::mpsc;

use super::jobs::check_names;
use crate::{Api, Fault, Grant, Scope};

/// An action on all jobs that match a filter.
#[derive(Debug, Clone)]
pub struct BulkAction {
    /// Selects the jobs.
    pub filter: JobFilter,
    /// The task.
    pub task: BulkTask,
    /// Whether the action is applied, or only counted.
    pub run: BulkMode,
}

/// The progress of a [`BulkAction`].
#[derive(Debug)]
pub enum BulkStep {
    /// Intermediate progress.
    Progress(wire::Progress),
    /// The action is complete.
    Done(wire::Progress),
    /// The action failed; jobs changed before stay changed.
    Failed(Fault),
}

impl Api {
    /// Acts on a job, and returns its new state; `None`: the job was removed.
    pub async fn act_on_job(
        &self,
        grant: &Grant,
        id: JobId,
        act: &JobAction,
    ) -> Result<Option<State>, Fault> {
        check_act(grant, act)?;
        self.check_jobs(grant, &[id]).await?;
        let caller = grant.who().to_string();
        match self.engine().jobs().by(&caller).act(id.into(), act).await? {
            ActionResult::Applied(state) => Ok(state),
            ActionResult::NotFound => Err(Fault::missing(format!("job {id}"))),
            ActionResult::Refused { refusal, state } => {
                let why = why(act, refusal, state);
                Err(Fault::new(Code::Refused, format!("job {id} {why}")))
            }
        }
    }

    /// Acts on all jobs that match.
    pub async fn act_on_all(
        &self,
        grant: &Grant,
        mut bulk: BulkAction,
    ) -> Result<wire::Progress, Fault> {
        self.restrict_bulk(grant, &mut bulk)?;
        let BulkAction { filter, task, run } = &bulk;
        let caller = grant.who().to_string();
        Ok(progress(self.engine().jobs().by(&caller).run_bulk(filter, task, *run, |_| true).await?))
    }

    /// Acts on all jobs that match, and reports progress. Dropping the stream stops the action.
    pub fn act_on_all_in_steps(
        &self,
        grant: &Grant,
        mut bulk: BulkAction,
    ) -> Result<impl Stream<Item = BulkStep> + use<>, Invalid> {
        self.restrict_bulk(grant, &mut bulk)?;
        let (sender, receiver) = mpsc::unbounded_channel();
        let (engine, caller) = (self.engine().clone(), grant.who().to_string());
        tokio::spawn(async move {
            let BulkAction { filter, task, run } = bulk;
            let step = |so_far| sender.send(BulkStep::Progress(progress(so_far))).is_ok();
            let last = match engine.jobs().by(&caller).run_bulk(&filter, &task, run, step).await {
                Ok(all) => BulkStep::Done(progress(all)),
                Err(error) => BulkStep::Failed(error.into()),
            };
            // The receiver may be gone.
            let _ = sender.send(last);
        });
        Ok(unfold(receiver, |mut receiver| async {
            let step = receiver.recv().await?;
            Some((step, receiver))
        }))
    }

    /// Restricts a bulk action to jobs that the caller may touch. Refuses a filter that tests masked fields.
    pub(super) fn restrict_bulk(
        &self,
        grant: &Grant,
        bulk: &mut BulkAction,
    ) -> Result<(), Invalid> {
        restrict(grant, bulk)?;
        self.mask().check_filter("filter.q", &bulk.filter.search)
    }
}

/// Refuses to move jobs to a queue outside the restriction.
fn check_act(grant: &Grant, act: &JobAction) -> Result<(), Invalid> {
    match act {
        JobAction::Change(JobChanges { queue: Some(queue), .. }) => grant.check_queue(queue),
        _ => Ok(()),
    }
}

/// Refuses a task that moves jobs to a queue outside the restriction, or pushes jobs without the scope `push`. The
/// caller becomes the pusher of replays.
fn check_task(grant: &Grant, task: &mut BulkTask) -> Result<(), Invalid> {
    match task {
        BulkTask::Act(act) => check_act(grant, act).map_err(|invalid| invalid.inside("change")),
        BulkTask::Replay(replay) => {
            if !grant.has(Scope::Push) {
                let why = "replays need the scope `push`";
                return Err(Invalid::new(Code::ScopeMissing, "act", why));
            }
            replay.pusher = grant.owner();
            let queue = replay.edits.queue.as_ref();
            let checked = queue.map_or(Ok(()), |queue| grant.check_queue(queue));
            checked.map_err(|invalid| invalid.inside("replay"))
        }
    }
}

/// Restricts a bulk action to jobs that the caller may touch. One that names a queue or kind outside is refused.
fn restrict(grant: &Grant, bulk: &mut BulkAction) -> Result<(), Invalid> {
    let JobFilter { queue, kind, search, within, .. } = &mut bulk.filter;
    check_names(grant, search)
        .map_err(|invalid| Invalid { field: "filter.q".to_owned(), ..invalid })?;
    let queue = queue.as_ref().map_or(Ok(()), |queue| grant.check_queue(queue));
    let kind = kind.as_ref().map_or(Ok(()), |kind| grant.check_kind(kind));
    queue.and(kind).map_err(|invalid| invalid.inside("filter"))?;
    check_task(grant, &mut bulk.task)?;
    *within = grant.only().cloned();
    Ok(())
}

/// Why a job does not allow an action: its state, and the states that do.
fn why(act: &JobAction, refusal: Refusal, state: Option<State>) -> String {
    let Some(state) = state.filter(|_| refusal != Refusal::Stale) else {
        return "was changed by another call; retry".to_owned();
    };
    if refusal == Refusal::Nothing {
        return format!("is {} and has already been asked to stop", state.word());
    }
    let verb = match act {
        JobAction::Cancel => "cancelled",
        JobAction::Retry => "retried",
        JobAction::Delete => "deleted",
        JobAction::Change(_) => "changed",
    };
    let states: Vec<_> = act.states().iter().map(|state| state.word()).collect();
    let (last, others) =
        states.split_last().map_or(("", &[][..]), |(last, others)| (*last, others));
    let now = state.word();
    format!("is {now} and cannot be {verb}; only {} and {last} jobs can", others.join(", "))
}

const fn progress(progress: BulkProgress) -> wire::Progress {
    wire::Progress { seen: progress.examined, matched: progress.matched, done: progress.done }
}

/// Reads the change of a job.
pub fn change(change: &wire::Change) -> Result<JobAction, Invalid> {
    let other =
        JobChanges { queue: change.queue()?, priority: change.priority, due: change.due()? };
    Ok(JobAction::Change(other))
}

impl TryFrom<&wire::ActOnAll> for BulkAction {
    type Error = Invalid;

    fn try_from(request: &wire::ActOnAll) -> Result<Self, Invalid> {
        let run = if request.dry_run { BulkMode::DryRun } else { BulkMode::Apply };
        Ok(Self { filter: filter(&request.filter)?, task: task(request)?, run })
    }
}

fn task(request: &wire::ActOnAll) -> Result<BulkTask, Invalid> {
    let malformed = |field: &str, why: &str| Err(Invalid::new(Code::Malformed, field, why));
    if request.replay.is_some() && request.act != wire::Verb::Replay {
        return malformed("replay", "is not allowed for this action");
    }
    if request.change.is_some() && request.act != wire::Verb::Change {
        return malformed("change", "is not allowed for this action");
    }
    let action = match (request.act, &request.change) {
        (wire::Verb::Change, Some(other)) => {
            change(other).map_err(|invalid| invalid.inside("change"))?
        }
        (wire::Verb::Change, None) => return malformed("change", "is required for this action"),
        (wire::Verb::Cancel, _) => JobAction::Cancel,
        (wire::Verb::Retry, _) => JobAction::Retry,
        (wire::Verb::Delete, _) => JobAction::Delete,
        (wire::Verb::Replay, _) => {
            let edits = request.replay.as_ref().map(ReplayAll::read).transpose();
            let edits = edits.map_err(|invalid| invalid.inside("replay"))?.unwrap_or_default();
            return Ok(BulkTask::Replay(Box::new(BulkReplay { edits, pusher: None })));
        }
    };
    Ok(BulkTask::Act(action))
}

/// Reads a filter. An empty one is refused unless `all` is set, because it is likely a mistake.
fn filter(filter: &wire::Filter) -> Result<JobFilter, Invalid> {
    let name = |field: &str, text: &Option<String>| {
        text.as_deref().map(|text| Name::new(field, text)).transpose()
    };
    let read = JobFilter {
        states: filter.states.iter().map(|state| (*state).into()).collect(),
        queue: name("filter.queue", &filter.queue)?,
        kind: name("filter.kind", &filter.kind)?,
        labels: filter.labels.0.clone().into_iter().collect(),
        pushed_before: filter.pushed_before.map(|moment| moment.0),
        search: SearchFilter::parse("filter.q", filter.q.as_deref().unwrap_or_default())?,
        within: None,
    };
    match (read == JobFilter::default(), filter.all) {
        (true, false) => {
            let why = "is empty; to select all jobs, set `\"all\": true`";
            Err(Invalid::new(Code::Malformed, "filter", why))
        }
        (false, true) => {
            let why = "cannot be combined with other conditions";
            Err(Invalid::new(Code::Malformed, "filter.all", why))
        }
        _ => Ok(read),
    }
}
