//! Admin callers: read, cancel, retry, delete, edit, take results and define.

use std::sync::Arc;

use crore_core::job::DueTime;
use crore_core::limit::{JobField, Limit, Matcher, Rate};
use crore_core::machine::{JobEdit, JobEvent};
use crore_core::schedule::{Missed, Timing};
use crore_core::{Clock, Job, JobId, Name, Span};
use crore_store::Error;
use crore_store::jobs::StoreWrite;
use crore_store::registry::{
    Define, DefineAction, Defined, QueueSettings, RegistryTable, RegistryValue, Schedule,
};
use crore_testkit::history::op::{self, AdminAction, DefinitionContent};
use crore_testkit::history::response::RecordedJob;
use crore_testkit::history::{PayloadHash, RecordedOp, RecordedResponse};

use super::config::Generation;
use super::context::{CallerLink, OpenCall, SimContext, name};
use super::coverage::CallerAction;
use super::pusher::new_job;
use super::settle::{SettleResult, maybe_yield, settle};
use super::worker::{changed, draw_wait};

/// Performs one random admin operation.
pub(super) async fn act(link: CallerLink) {
    let (draw, job) = {
        let mut context = link.context();
        (context.rng.below(12), context.some_job())
    };
    let features = link.context().config.admin.clone();
    match (draw, job) {
        (0..3, Some(id)) => get_job(&link, id).await,
        (3, Some(id)) if features.cancel => change(&link, id, AdminAction::Cancel).await,
        (4, Some(id)) if features.retry => change(&link, id, AdminAction::Retry).await,
        (5, Some(id)) if features.delete => change(&link, id, AdminAction::Delete).await,
        (6, Some(id)) if features.edit => {
            let edit_action = edit(&mut link.context());
            change(&link, id, edit_action).await;
        }
        (7..9, Some(id)) => {
            let (id, times) = pick_result(&mut link.context(), id);
            for _ in 0..times {
                take(&link, id).await;
            }
        }
        (9, _) => seal(&link).await,
        (10, _) => define_something(&link).await,
        (_, _) if features.programs && link.engine.is_some() => act_on_all(&link).await,
        _ => count(&link).await,
    }
}

/// Performs an admin action on many jobs.
async fn act_on_all(link: &CallerLink) {
    let Some(engine) = &link.engine else { return };
    let (queue, action) = {
        let mut context = link.context();
        let features = context.config.admin.clone();
        let priority = Some(context.rng.choose([-5, 0, 5]));
        let edit = AdminAction::Edit { queue: None, priority, due: None, limits: None };
        let actions = [
            (AdminAction::Cancel, features.cancel),
            (AdminAction::Retry, features.retry),
            (AdminAction::Delete, features.delete),
            (edit, features.edit),
        ];
        let actions: Vec<AdminAction> =
            actions.into_iter().filter_map(|(w, may)| may.then_some(w)).collect();
        (context.rng.one_in(2).then(|| context.queue()), context.rng.pick(&actions))
    };
    let Some(action) = action else { return };
    link.context().trace_line(&link.caller, format_args!("of all of {queue:?}: {action:?}"));
    match engine.admin_all(queue, action).await {
        Ok(()) => link.context().trace_line(&link.caller, format_args!("-> done")),
        Err(error) => link.store_failed(&error),
    }
}

async fn get(link: &CallerLink, id: JobId) -> Result<Option<Job>, Error> {
    Ok(link.store.get(vec![id.into()]).await?.pop().flatten())
}

async fn get_job(link: &CallerLink, id: JobId) {
    let call = link.call(RecordedOp::Get { id });
    match get(link, id).await {
        Ok(job) => {
            let mut context = link.context();
            context.cover(CallerAction::Get, job.as_ref().map(|job| job.live.state));
            // The store omits a result that is expired by its own time, which may be behind a clock that
            // jumped back. Comparing with the clock here may only hide more results.
            let now = context.clock.now();
            drop(context);
            call.ok(None, RecordedResponse::Job(job.as_ref().map(|job| RecordedJob::of(job, now))));
        }
        Err(error) => call.failed(&error),
    }
}

/// Performs an admin action: decides it and writes the decision.
pub(super) async fn change(link: &CallerLink, id: JobId, admin_action: AdminAction) {
    let caller_action = match &admin_action {
        AdminAction::Cancel => CallerAction::Cancel,
        AdminAction::Retry => CallerAction::Retry,
        AdminAction::Delete => CallerAction::Delete,
        AdminAction::Edit { .. } => CallerAction::Edit,
    };
    let call = link.call(RecordedOp::Admin { id, want: admin_action.clone() });
    let verdict = match &link.engine {
        Some(engine) => {
            let before = link.peek(id);
            engine.admin(id, admin_action).await.map(|fate| SettleResult::of(fate, before))
        }
        None => decide_and_write(link, id, &admin_action).await,
    };
    answer(link, call, caller_action, verdict);
}

async fn decide_and_write(
    link: &CallerLink,
    id: JobId,
    action: &AdminAction,
) -> Result<SettleResult, Error> {
    match event(link, id, action).await {
        Ok(Some((job, event))) => settle(link, id, job, &event).await,
        Ok(None) => Ok(SettleResult::Unknown),
        Err(error) => Err(error),
    }
}

fn answer(
    link: &CallerLink,
    call: OpenCall,
    action: CallerAction,
    verdict: Result<SettleResult, Error>,
) {
    match verdict {
        Ok(verdict) => {
            let state = match &verdict {
                SettleResult::Applied { before: state, .. } | SettleResult::Refused(state) => {
                    *state
                }
                SettleResult::Unknown => None,
            };
            link.context().cover(action, state);
            call.ok(None, RecordedResponse::Changed(changed(&verdict)));
        }
        Err(error) => call.failed(&error),
    }
}

/// The event of an admin action. An edit changes the current spec of the job.
async fn event(
    link: &CallerLink,
    id: JobId,
    action: &AdminAction,
) -> Result<Option<(Option<Job>, JobEvent)>, Error> {
    Ok(match action {
        AdminAction::Cancel => Some((None, JobEvent::Cancel)),
        AdminAction::Retry => Some((None, JobEvent::Retry)),
        AdminAction::Delete => Some((None, JobEvent::Delete)),
        AdminAction::Edit { queue, priority, due, limits } => get(link, id).await?.map(|job| {
            let mut spec = (*job.spec).clone();
            spec.queue = queue.clone().unwrap_or(spec.queue);
            spec.priority = priority.unwrap_or(spec.priority);
            if let Some(limits) = limits {
                (spec.limits, spec.costs) = (limits.clone(), None);
            }
            let edit = JobEdit { spec: Some(Arc::new(spec)), due: *due };
            (Some(job), JobEvent::Edit(edit))
        }),
    })
}

fn edit(context: &mut SimContext) -> AdminAction {
    let queue = context.rng.one_in(2).then(|| context.queue());
    let priority = context.rng.one_in(2).then(|| context.rng.choose([-5, 0, 5]));
    let due_times = [DueTime::Now, DueTime::After(Span::from_secs(3)), DueTime::Keep];
    let due = context.rng.one_in(2).then(|| context.rng.choose(due_times));
    let mut limits = context.rng.one_in(4).then(Vec::new);
    if context.has_engine {
        // An engine recomputes the limit keys of the job, which may change.
        limits = queue.is_some().then(Vec::new);
    }
    AdminAction::Edit { queue, priority, due, limits }
}

/// The job whose result is read, and how often: mostly a reported one, perhaps twice in a row.
fn pick_result(context: &mut SimContext, otherwise: JobId) -> (JobId, usize) {
    if context.config.generation == Generation::First {
        return (otherwise, 1);
    }
    let index = context.rng.index(context.knowledge.workers.len());
    let reported = context.knowledge.workers.get(index).map(|state| &state.reported);
    let newest = reported.into_iter().flatten().rev().take(6).map(|job| job.id);
    let newest: Vec<JobId> = newest.collect();
    let picked = if context.rng.one_in(3) { None } else { context.rng.pick(&newest) };
    (picked.unwrap_or(otherwise), context.rng.choose([1, 2]))
}

/// Reads a result, and takes it if it is for one reader.
async fn take(link: &CallerLink, id: JobId) {
    // A refusal says nothing about the result: such a call gets no recorded response.
    let call = link.call(RecordedOp::TakeResult { id });
    if let Some(engine) = &link.engine {
        let at_most = draw_wait(&mut link.context());
        let state = link.peek(id).map(|(state, _)| state);
        link.context().cover(CallerAction::Take, state);
        return match link.result(&**engine, id, at_most).await {
            Ok(result) => {
                call.ok(None, RecordedResponse::Result(result.as_ref().map(PayloadHash::of)));
            }
            Err(error) => call.failed(&error),
        };
    }
    let result = loop {
        let job = match get(link, id).await {
            Ok(job) => job,
            Err(error) => return link.store_failed(&error),
        };
        let now = link.context().clock.now();
        link.context().cover(CallerAction::Take, job.as_ref().map(|job| job.live.state));
        let Some(job) = job else { break None };
        let Some(kept) = job.result_at(now).filter(|_| job.live.state.has_ended()) else {
            break None;
        };
        let (hash, once) = (PayloadHash::of(&kept.payload), kept.once);
        if !once {
            break Some(hash);
        }
        maybe_yield(link).await;
        match take_once(link, job).await {
            Ok(true) => break Some(hash),
            Ok(false) => {}
            Err(error) => return link.store_failed(&error),
        }
    };
    call.ok(None, RecordedResponse::Result(result));
}

/// Takes the result of this version of a job; false if the version is stale.
async fn take_once(link: &CallerLink, job: Job) -> Result<bool, Error> {
    let Ok(change) = crore_core::machine::decide(&job, &JobEvent::TakeResult, 0) else {
        return Ok(false);
    };
    let applied = link.store.apply(vec![StoreWrite::Job(change)]).await?.into_inner();
    Ok(matches!(applied.first(), Some(crore_store::jobs::Applied::Yes(_))))
}

async fn seal(link: &CallerLink) {
    let group = {
        let mut context = link.context();
        let groups = context.knowledge.groups.clone();
        context.rng.pick(&groups)
    };
    let Some(group) = group else { return };
    link.context().trace_line(&link.caller, format_args!("seal {group:?}"));
    match link.seal(group).await {
        Ok(was_open) => {
            let mut context = link.context();
            context.trace_line(&link.caller, format_args!("-> was open: {was_open}"));
            context.knowledge.groups.retain(|known| *known != group);
        }
        Err(error) => link.store_failed(&error),
    }
}

async fn count(link: &CallerLink) {
    let call = link.call(RecordedOp::Counts);
    match link.store.counts(None).await {
        Ok(counts) => {
            let counts = counts.into_iter().map(counted).collect();
            call.ok(None, RecordedResponse::Counts(counts));
        }
        Err(error) => call.failed(&error),
    }
}

/// A count in the format of the history.
pub(super) fn counted(
    count: crore_store::views::JobCount,
) -> crore_testkit::history::response::RecordedCount {
    let crore_store::views::JobCount { queue, kind, state, n } = count;
    crore_testkit::history::response::RecordedCount { queue, kind, state, n }
}

async fn define_something(link: &CallerLink) {
    let definition = {
        let mut context = link.context();
        let (features, limits) = (context.config.admin.clone(), context.config.jobs.limits);
        match context.rng.below(3) {
            0 if limits => Some(limit(&mut context)),
            1 if features.settings => Some(settings(&mut context)),
            2 if features.schedules => Some(schedule(&mut context)),
            _ => None,
        }
    };
    if let Some(definition) = definition {
        define(link, definition).await;
    }
}

/// Sets or removes a definition.
pub(super) async fn define(link: &CallerLink, definition: Define) {
    if let Some(engine) = &link.engine {
        link.context().trace_line(&link.caller, format_args!("define {definition:?}"));
        match engine.define(definition).await {
            Ok(()) => link.context().cover(CallerAction::Define, None),
            Err(error) => link.store_failed(&error),
        }
        return;
    }
    let entry = op::RecordedDefinition {
        name: definition.name.clone(),
        to: recorded_content(&definition),
        expires_after: definition.expires_after,
    };
    let call = link.call(RecordedOp::Define { entries: vec![entry] });
    match link.store.define(vec![definition]).await {
        Ok(answers) => {
            link.context().cover(CallerAction::Define, None);
            let answers = answers.into_inner();
            let written = answers.iter().map(|defined| matches!(defined, Defined::Yes(_)));
            call.ok(None, RecordedResponse::Defined(written.collect()));
        }
        Err(error) => call.failed(&error),
    }
}

fn limit(context: &mut SimContext) -> Define {
    let name = name(context.rng.choose(["l0", "l1"]));
    if context.rng.one_in(4) && !context.has_engine {
        return Define::remove(RegistryTable::Limits, name);
    }
    let rate = context.rng.one_in(2).then(|| Rate {
        count: context.rng.between(1, 5) as u32,
        every: context.rng.choose([Span::from_millis(100), Span::from_secs(2)]),
        burst: context.rng.between(1, 4) as u32,
    });
    let concurrency =
        (rate.is_none() || context.rng.one_in(2)).then(|| context.rng.between(0, 3) as u32);
    let known = context.limits.iter().find(|(known, _)| *known == name);
    let matcher = known.map_or_else(Matcher::default, |(_, limit)| limit.matcher.clone());
    // An engine would compute the costs of its jobs from their payloads.
    let has_cost = rate.is_some() && !context.has_engine && context.rng.one_in(2);
    let cost = has_cost.then(|| JobField::parse("payload.n").expect("a field"));
    let limit = Limit { matcher, rate, cost, concurrency, per: None };
    let mut define = Define::set(name, RegistryValue::Limit(limit));
    define.expires_after = context.rng.one_in(6).then(|| Span::from_secs(5));
    define
}

/// The limits that an engine always has, so that the limit keys of a job are known: one on all jobs, one on
/// those of a queue.
pub(super) fn permanent_limits() -> Vec<(Name, Limit)> {
    [("l0", "concurrency 3"), ("l1", "where queue = \"q0\" rate 4/1s burst 2")]
        .map(|(limit, text)| (name(limit), Limit::parse(text).expect("a limit")))
        .to_vec()
}

fn settings(context: &mut SimContext) -> Define {
    let queue = context.queue();
    if context.rng.one_in(3) {
        return Define::remove(RegistryTable::Queues, queue);
    }
    let defaults = QueueSettings::default();
    let settings = QueueSettings {
        fair: None,
        index: None,
        paused: context.rng.one_in(3),
        keep_done: context.rng.choose([Span::from_secs(60), defaults.keep_done]),
        max_done: context.rng.choose([0, 3, defaults.max_done]),
        keep_dead: context.rng.choose([Span::from_secs(600), defaults.keep_dead]),
        max_dead: context.rng.choose([2, defaults.max_dead]),
    };
    let mut define = Define::set(queue, RegistryValue::Queue(settings));
    define.expires_after = context.rng.one_in(6).then(|| Span::from_secs(5));
    define
}
fn schedule(context: &mut SimContext) -> Define {
    let name = name(context.rng.choose(["s0", "s1"]));
    if context.rng.one_in(4) {
        return Define::remove(RegistryTable::Schedules, name);
    }
    let text = context.rng.choose(["every 1s", "every 90s", "cron * * * * *"]);
    let timing = Timing::parse("timing", text).expect("a schedule");
    let missed = context.rng.choose([Missed::Skip, Missed::Once, Missed::All]);
    let mut job = new_job(context);
    (job.spec.unique, job.due) = (None, DueTime::Now);
    // The follow-ups of all ticks would have the same payload, by which the checker knows them.
    (job.deadline, job.spec.on_expired) = (None, None);
    let cursor = context.clock.now().max(context.knowledge.now);
    let paused = context.rng.one_in(6);
    let schedule = Schedule { timing, missed, job, cursor, paused };
    Define::set(name, RegistryValue::Schedule(Box::new(schedule)))
}

/// A definition in the format of the history.
pub fn recorded_content(define: &Define) -> DefinitionContent {
    match &define.action {
        DefineAction::Remove(RegistryTable::Limits) => DefinitionContent::NoLimit,
        DefineAction::Remove(RegistryTable::Queues) => DefinitionContent::NoQueue,
        DefineAction::Remove(RegistryTable::Schedules) => DefinitionContent::NoSchedule,
        DefineAction::Remove(_) => DefinitionContent::Other,
        DefineAction::Set(RegistryValue::Limit(limit)) => DefinitionContent::Limit {
            concurrency: limit.concurrency,
            rate: limit.rate.map(|rate| op::RecordedRate {
                count: rate.count,
                every: rate.every,
                burst: rate.burst,
                counts_costs: limit.cost.is_some(),
            }),
        },
        DefineAction::Set(RegistryValue::Queue(settings)) => {
            DefinitionContent::Queue(op::RecordedQueueSettings {
                paused: settings.paused,
                keep_done: settings.keep_done,
                max_done: settings.max_done,
                keep_dead: settings.keep_dead,
                max_dead: settings.max_dead,
            })
        }
        DefineAction::Set(RegistryValue::Schedule(schedule)) => DefinitionContent::Schedule {
            timing: schedule.timing.clone(),
            missed: schedule.missed,
            cursor: schedule.cursor,
            paused: schedule.paused,
        },
        DefineAction::Set(_) => DefinitionContent::Other,
    }
}
