//! Callers that push.

use std::sync::Arc;

use crore_core::job::{
    DependencyCondition, DueTime, JobRetention, Lapse, ReportFencing, ResultRetention,
    StartDeadline,
};
use crore_core::limit::LimitKey;
use crore_core::push::{GroupRef, NewDependency, NewDependencyTarget, NewGroup};
use crore_core::retry::{Backoff, Retry};
use crore_core::unique::{Unique, UniqueHold};
use crore_core::version::VersionRequirement;
use crore_core::{Batch, Encoding, NewJob, Payload, Span, Spec};
use crore_store::Error;
use crore_store::jobs::Pushed;
use crore_testkit::history::op::RecordedItem;
use crore_testkit::history::{RecordedOp, RecordedResponse, response};

use super::context::{CallerLink, SimContext, name};
use super::coverage::{CallerAction, RareSituation};
use super::events::draw_wait_for;

const SECOND: Span = Span::from_secs(1);

/// Pushes a batch.
pub(super) async fn push(link: CallerLink) {
    let batch = batch(&mut link.context());
    push_this(link, batch).await;
}

/// Pushes one plain job.
pub(super) async fn push_one(link: CallerLink) {
    let spec = {
        let mut context = link.context();
        let mut spec = Spec::new(context.queue(), context.kind(), payload(&mut context));
        spec.limits = context.limits_of(&spec);
        spec
    };
    push_this(link, NewJob::from(spec).into()).await;
}

async fn push_this(link: CallerLink, batch: Batch) {
    let (items, keys) = (items(&link, &batch.jobs), keys(&batch));
    note_keys_in_flight(&link, &keys);
    let (opened, groups) = (batch.groups.clone(), batch.groups.len());
    let call = link.call(RecordedOp::Push { groups, items });
    let answer = link.push(batch).await;
    link.context().knowledge.keys_in_flight.retain(|key| !keys.contains(key));
    match answer {
        Ok(pushes) => {
            let mut context = link.context();
            if !link.is_gone() {
                let open = pushes.groups.iter().zip(&opened).filter(|(_, new)| new.open);
                context.knowledge.groups.extend(open.map(|(id, _)| *id));
                pushes.jobs.iter().for_each(|pushed| context.pushed(*pushed));
            }
            context.cover(CallerAction::Push, None);
            drop(context);
            let items = pushes.jobs.iter().copied().map(recorded_push).collect();
            call.ok(Some(pushes.now), RecordedResponse::Pushed { groups: pushes.groups, items });
        }
        Err(error) => {
            if let Error::Full { .. } = error {
                link.context().cover_situation(RareSituation::PushRefusedForSpace);
            }
            call.failed(&error);
        }
    }
}

/// Records keys in flight: a key that is pushed again after a crash is the most likely cause of a duplicate.
fn note_keys_in_flight(link: &CallerLink, keys: &[Arc<str>]) {
    let mut context = link.context();
    if keys.iter().any(|key| context.knowledge.interrupted_keys.contains(key)) {
        context.cover_situation(RareSituation::KeyPushedAgainAfterCrash);
    }
    context.knowledge.keys_in_flight.extend(keys.iter().cloned());
}

fn keys(batch: &Batch) -> Vec<Arc<str>> {
    batch.jobs.iter().filter_map(|job| Some(Arc::clone(&job.spec.unique.as_ref()?.key))).collect()
}

/// Items in the format of the history.
pub(super) fn items(link: &CallerLink, jobs: &[NewJob]) -> Vec<RecordedItem> {
    let mut context = link.context();
    jobs.iter().map(|job| RecordedItem::of(context.next_seq(), job)).collect()
}

/// The result of an item in the format of the history.
pub(super) const fn recorded_push(pushed: Pushed) -> response::RecordedPush {
    match pushed {
        Pushed::New(id) => response::RecordedPush::New(id),
        Pushed::Duplicate(id) => response::RecordedPush::Duplicate(id),
        Pushed::Broken(_) | Pushed::Sealed(_) | Pushed::BrokenBy(_) => {
            response::RecordedPush::Broken
        }
    }
}

fn batch(context: &mut SimContext) -> Batch {
    let mut batch = Batch::default();
    if context.config.jobs.groups && context.rng.one_in(3) {
        batch.groups.push(NewGroup { open: context.rng.one_in(3), maker: None });
    }
    for place in 0..context.rng.between(1, context.config.jobs.max_batch) as usize {
        let mut job = new_job(context);
        if context.config.jobs.groups && context.rng.one_in(2) {
            let known = context.rng.pick(&context.knowledge.groups).map(GroupRef::Id);
            job.group = if batch.groups.is_empty() { known } else { Some(GroupRef::New(0)) };
        }
        if context.config.jobs.dependencies && context.rng.one_in(3) {
            let needs =
                context.rng.choose([DependencyCondition::End, DependencyCondition::Success]);
            let on = draw_dependency(context, place, &batch)
                .filter(|on| Some(*on) != job.group.map(NewDependencyTarget::Group));
            job.after.extend(on.map(|on| NewDependency { on, needs }));
        }
        batch.jobs.push(job);
    }
    batch
}

/// A random dependency.
fn draw_dependency(
    context: &mut SimContext,
    place: usize,
    batch: &Batch,
) -> Option<NewDependencyTarget> {
    match context.rng.below(3) {
        0 if place > 0 => Some(NewDependencyTarget::Earlier(context.rng.index(place))),
        1 if !batch.groups.is_empty() => Some(NewDependencyTarget::Group(GroupRef::New(0))),
        _ => context.some_job().map(NewDependencyTarget::Job),
    }
}

/// A random job within the run's configuration.
pub(super) fn new_job(context: &mut SimContext) -> NewJob {
    let mut spec = Spec::new(context.queue(), context.kind(), payload(context));
    let jobs = context.config.jobs.clone();
    let rng = &mut context.rng;
    if jobs.priorities {
        spec.priority = rng.choose([0, 0, 0, 1, -1, 7, i32::MAX, i32::MIN]);
    }
    if spec.priority.abs_diff(0) == 1 {
        // Without another random number, so that earlier seeds keep their runs.
        spec.labels.insert("priority".to_owned(), spec.priority.to_string());
    }
    let backoff = rng.choose([
        Backoff::None,
        Backoff::Constant { every: Span::from_millis(300) },
        Backoff::Linear { step: SECOND },
    ]);
    spec.retry =
        Retry { backoff, max_attempts: Some(jobs.attempts), max_interval: None, jitter: 0 };
    spec.lease = (!jobs.fire_and_forget || !rng.one_in(3)).then_some(jobs.lease);
    spec.lapse = rng.choose([
        Lapse::Crash { quarantine: Some(3) },
        Lapse::Crash { quarantine: None },
        Lapse::Failure,
        Lapse::Again,
    ]);
    if jobs.unfenced && rng.one_in(3) {
        spec.reports = ReportFencing::Any;
    }
    if jobs.results {
        let span = rng.choose([SECOND, SECOND.times(60), SECOND.times(3600)]);
        spec.keep = rng.choose([
            ResultRetention::For(span),
            ResultRetention::Once(span),
            ResultRetention::Discard,
        ]);
    }
    if jobs.removed_when_done && !rng.one_in(3) {
        spec.retain = JobRetention::Nothing;
    }
    if let Some(keys) = jobs.keys.filter(|_| rng.one_in(2)) {
        let hold = rng.choose([
            UniqueHold::UntilEnd,
            UniqueHold::UntilStart,
            UniqueHold::UntilSuccess,
            UniqueHold::Window,
        ]);
        let window = (hold == UniqueHold::Window || rng.one_in(4))
            .then(|| rng.choose([SECOND, SECOND.times(60), SECOND.times(3600)]));
        spec.unique =
            Some(Box::new(Unique { key: format!("u{}", rng.below(keys)).into(), hold, window }));
    }
    if jobs.limits && rng.one_in(2) {
        let value = rng.choose([None, Some("a"), Some("b")]).map(Into::into);
        let limit = name(rng.choose(["l0", "l1"]));
        spec.limits.push(LimitKey { limit, value });
        spec.costs = rng.one_in(2).then(|| [rng.between(0, 6) as u32].into());
    }
    if jobs.versions && rng.one_in(3) {
        // Version 2 satisfies all of them.
        let text = rng.choose([">=1", ">=2", "=2", ">=1 <3"]);
        let required = VersionRequirement::parse("worker_version", text).expect("a requirement");
        spec.worker_version = Some(Box::new(required));
    }
    if context.has_engine {
        (spec.limits, spec.costs) = (context.limits_of(&spec), None);
        let seconds = Span::from_secs(context.rng.between(1, 30));
        spec.timeout = context.rng.one_in(6).then_some(seconds);
    }
    spec.wait_for = draw_wait_for(context);
    let deadline = deadline(context);
    if deadline.is_some() && context.rng.one_in(2) {
        let mut next = Spec::new(context.queue(), context.kind(), payload(context));
        if context.has_engine {
            next.limits = context.limits_of(&next);
        }
        spec.on_expired = Some(Box::new(next.into()));
    }
    // The engine refuses a job that is due after its deadline.
    let is_due_now = deadline.is_some() && context.has_engine;
    let due = if is_due_now { DueTime::Now } else { due(context) };
    NewJob { due, deadline, ..spec.into() }
}

fn deadline(context: &mut SimContext) -> Option<StartDeadline> {
    if !context.config.jobs.deadlines || context.rng.one_in(2) {
        return None;
    }
    let spans = [Span::from_millis(1), Span::from_millis(400), SECOND.times(5), SECOND.times(60)];
    let span = context.rng.choose(spans);
    Some(match context.rng.below(4) {
        0 => StartDeadline::At(context.knowledge.now.after(span)),
        1 => StartDeadline::At(context.knowledge.now),
        _ => StartDeadline::Within(span),
    })
}

fn due(context: &mut SimContext) -> DueTime {
    if !context.config.jobs.delays || context.rng.one_in(2) {
        return DueTime::Now;
    }
    let spans = [Span::from_millis(1), Span::from_millis(400), SECOND.times(5), SECOND.times(600)];
    let span = context.rng.choose(spans);
    if context.rng.one_in(4) {
        DueTime::At(context.knowledge.now.after(span))
    } else {
        DueTime::After(span)
    }
}

/// A unique payload: its sequence number, and some more bytes.
pub(super) fn payload(context: &mut SimContext) -> Payload {
    let mut bytes = format!("{}:", context.next_seq()).into_bytes();
    let most = context.config.jobs.max_payload;
    let more = if context.rng.one_in(4) { most } else { context.rng.between(0, most / 4) };
    let filler = context.rng.next_u64().to_le_bytes();
    bytes.extend(filler.iter().cycle().take(more as usize));
    Payload::new(Encoding::Bytes, bytes)
}
