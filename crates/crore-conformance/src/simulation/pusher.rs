//! The callers that push.

use std::sync::Arc;

use crore_core::job::{Keep, Lapse, Needs, Reports, Retain, When};
use crore_core::limit::LimitKey;
use crore_core::push::{After, AfterRef, GroupRef, NewGroup};
use crore_core::retry::{Backoff, Retry};
use crore_core::unique::{Hold, Unique};
use crore_core::{Batch, Encoding, NewJob, Payload, Span, Spec};
use crore_store::Error;
use crore_store::jobs::Pushed;
use crore_testkit::history::op::Item;
use crore_testkit::history::{Answer, Op, answer};

use super::coverage::{Deed, Sometimes};
use super::scene::{Link, Scene, name};

const SECOND: Span = Span::from_secs(1);

/// Pushes a batch.
pub(super) async fn push(link: Link) {
    let batch = batch(&mut link.scene());
    push_this(link, batch).await;
}

/// Pushes one plain job.
pub(super) async fn push_one(link: Link) {
    let spec = {
        let mut scene = link.scene();
        let mut spec = Spec::new(scene.queue(), scene.kind(), payload(&mut scene));
        spec.limits = scene.limits_of(&spec);
        spec
    };
    push_this(link, NewJob::from(spec).into()).await;
}

async fn push_this(link: Link, batch: Batch) {
    let (items, keys) = (items(&link, &batch.jobs), keys(&batch));
    begin(&link, &keys);
    let (opened, groups) = (batch.groups.clone(), batch.groups.len());
    let call = link.call(Op::Push { groups, items });
    let answer = link.push(batch).await;
    link.scene().known.keys_under_way.retain(|key| !keys.contains(key));
    match answer {
        Ok(pushes) => {
            let mut scene = link.scene();
            if !link.is_gone() {
                let open = pushes.groups.iter().zip(&opened).filter(|(_, new)| new.open);
                scene.known.groups.extend(open.map(|(id, _)| *id));
                pushes.jobs.iter().for_each(|pushed| scene.pushed(*pushed));
            }
            scene.did(Deed::Push, None);
            drop(scene);
            let items = pushes.jobs.iter().copied().map(told).collect();
            call.ok(Some(pushes.now), Answer::Pushed { groups: pushes.groups, items });
        }
        Err(error) => {
            if let Error::Full { .. } = error {
                link.scene().happened(Sometimes::PushRefusedForSpace);
            }
            call.failed(&error);
        }
    }
}

/// Keys that are under way when a crash comes, and then pushed again, are where duplicates are made.
fn begin(link: &Link, keys: &[Arc<str>]) {
    let mut scene = link.scene();
    if keys.iter().any(|key| scene.known.cut_keys.contains(key)) {
        scene.happened(Sometimes::KeyPushedAgainAfterCrash);
    }
    scene.known.keys_under_way.extend(keys.iter().cloned());
}

fn keys(batch: &Batch) -> Vec<Arc<str>> {
    batch.jobs.iter().filter_map(|job| Some(Arc::clone(&job.spec.unique.as_ref()?.key))).collect()
}

/// Items as the history has them.
pub(super) fn items(link: &Link, jobs: &[NewJob]) -> Vec<Item> {
    let mut scene = link.scene();
    jobs.iter().map(|job| Item::of(scene.next_seq(), job)).collect()
}

/// What became of an item, as the history has it.
pub(super) const fn told(pushed: Pushed) -> answer::Pushed {
    match pushed {
        Pushed::New(id) => answer::Pushed::New(id),
        Pushed::Duplicate(id) => answer::Pushed::Duplicate(id),
        Pushed::Broken(_) | Pushed::BrokenBy(_) => answer::Pushed::Broken,
    }
}

fn batch(scene: &mut Scene) -> Batch {
    let mut batch = Batch::default();
    if scene.config.jobs.groups && scene.dice.one_in(3) {
        batch.groups.push(NewGroup { open: scene.dice.one_in(3) });
    }
    for place in 0..scene.dice.from(1, scene.config.jobs.max_batch) as usize {
        let mut job = new_job(scene);
        if scene.config.jobs.groups && scene.dice.one_in(2) {
            let known = scene.dice.pick(&scene.known.groups).map(GroupRef::Id);
            job.group = if batch.groups.is_empty() { known } else { Some(GroupRef::New(0)) };
        }
        if scene.config.jobs.waits && scene.dice.one_in(3) {
            let needs = scene.dice.choose([Needs::End, Needs::Success]);
            let on =
                wait(scene, place, &batch).filter(|on| Some(*on) != job.group.map(AfterRef::Group));
            job.after.extend(on.map(|on| After { on, needs }));
        }
        batch.jobs.push(job);
    }
    batch
}

/// Something to wait for.
fn wait(scene: &mut Scene, place: usize, batch: &Batch) -> Option<AfterRef> {
    match scene.dice.below(3) {
        0 if place > 0 => Some(AfterRef::Earlier(scene.dice.place(place))),
        1 if !batch.groups.is_empty() => Some(AfterRef::Group(GroupRef::New(0))),
        _ => scene.some_job().map(AfterRef::Job),
    }
}

/// A job such as the run's configuration has them.
pub(super) fn new_job(scene: &mut Scene) -> NewJob {
    let mut spec = Spec::new(scene.queue(), scene.kind(), payload(scene));
    let jobs = scene.config.jobs.clone();
    let dice = &mut scene.dice;
    if jobs.priorities {
        spec.priority = dice.choose([0, 0, 0, 1, -1, 7, i32::MAX, i32::MIN]);
    }
    let backoff = dice.choose([
        Backoff::None,
        Backoff::Constant { every: Span::from_millis(300) },
        Backoff::Linear { step: SECOND },
    ]);
    spec.retry =
        Retry { backoff, max_attempts: Some(jobs.attempts), max_interval: None, jitter: 0 };
    spec.lease = (!jobs.fire_and_forget || !dice.one_in(3)).then_some(jobs.lease);
    spec.lapse = dice.choose([
        Lapse::Crash { quarantine: Some(3) },
        Lapse::Crash { quarantine: None },
        Lapse::Failure,
        Lapse::Again,
    ]);
    if jobs.unfenced && dice.one_in(3) {
        spec.reports = Reports::Any;
    }
    if jobs.results {
        let span = dice.choose([SECOND, SECOND.times(60), SECOND.times(3600)]);
        spec.keep = dice.choose([Keep::For(span), Keep::Once(span), Keep::Discard]);
    }
    if jobs.vanish && !dice.one_in(3) {
        spec.retain = Retain::Nothing;
    }
    if let Some(keys) = jobs.keys.filter(|_| dice.one_in(2)) {
        let hold =
            dice.choose([Hold::UntilEnd, Hold::UntilStart, Hold::UntilSuccess, Hold::Window]);
        let window = (hold == Hold::Window || dice.one_in(4))
            .then(|| dice.choose([SECOND, SECOND.times(60), SECOND.times(3600)]));
        spec.unique = Some(Unique { key: format!("u{}", dice.below(keys)).into(), hold, window });
    }
    if jobs.limits && dice.one_in(2) {
        let value = dice.choose([None, Some("a"), Some("b")]).map(Into::into);
        let limit = name(dice.choose(["l0", "l1"]));
        spec.limits.push(LimitKey { limit, value });
    }
    if scene.has_front {
        spec.limits = scene.limits_of(&spec);
        let seconds = Span::from_secs(scene.dice.from(1, 30));
        spec.timeout = scene.dice.one_in(6).then_some(seconds);
    }
    NewJob { due: due(scene), ..spec.into() }
}

fn due(scene: &mut Scene) -> When {
    if !scene.config.jobs.delays || scene.dice.one_in(2) {
        return When::Now;
    }
    let spans = [Span::from_millis(1), Span::from_millis(400), SECOND.times(5), SECOND.times(600)];
    let span = scene.dice.choose(spans);
    if scene.dice.one_in(4) { When::At(scene.known.now.after(span)) } else { When::After(span) }
}

/// A payload that no other job has: its number, and some more bytes.
pub(super) fn payload(scene: &mut Scene) -> Payload {
    let mut bytes = format!("{}:", scene.next_seq()).into_bytes();
    let most = scene.config.jobs.max_payload;
    let more = if scene.dice.one_in(4) { most } else { scene.dice.from(0, most / 4) };
    let filler = scene.dice.roll().to_le_bytes();
    bytes.extend(filler.iter().cycle().take(more as usize));
    Payload::new(Encoding::Bytes, bytes)
}
