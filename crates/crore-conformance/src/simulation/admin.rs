//! The callers that look, cancel, retry, delete, edit, take and define.

use std::sync::Arc;

use crore_core::job::When;
use crore_core::limit::{Limit, Matcher, Rate};
use crore_core::machine::{Edit, Event};
use crore_core::schedule::{Missed, Timing};
use crore_core::{Clock, Job, JobId, Name, Span};
use crore_store::Error;
use crore_store::jobs::Write;
use crore_store::registry::{Define, Defined, Definition, QueueSettings, Schedule, Table, Value};
use crore_testkit::history::answer::Look;
use crore_testkit::history::op::{self, Meaning, Want};
use crore_testkit::history::{Answer, Hash, Op};

use super::config::Generation;
use super::coverage::Deed;
use super::pusher::new_job;
use super::scene::{Call, Link, Scene, name};
use super::settle::{Verdict, breath, settle};
use super::worker::{changed, patience};

/// Does something that people do.
pub(super) async fn act(link: Link) {
    let (what, job) = {
        let mut scene = link.scene();
        (scene.dice.below(12), scene.some_job())
    };
    let hands = link.scene().config.hands.clone();
    match (what, job) {
        (0..3, Some(id)) => look(&link, id).await,
        (3, Some(id)) if hands.cancel => change(&link, id, Want::Cancel).await,
        (4, Some(id)) if hands.retry => change(&link, id, Want::Retry).await,
        (5, Some(id)) if hands.delete => change(&link, id, Want::Delete).await,
        (6, Some(id)) if hands.edit => {
            let want = edit(&mut link.scene());
            change(&link, id, want).await;
        }
        (7..9, Some(id)) => {
            let (id, times) = whose_result(&mut link.scene(), id);
            for _ in 0..times {
                take(&link, id).await;
            }
        }
        (9, _) => seal(&link).await,
        (10, _) => define_something(&link).await,
        (_, _) if hands.programs && link.front.is_some() => sweep(&link).await,
        _ => count(&link).await,
    }
}

/// Wants something of many jobs.
async fn sweep(link: &Link) {
    let Some(front) = &link.front else { return };
    let (queue, want) = {
        let mut scene = link.scene();
        let hands = scene.config.hands.clone();
        let priority = Some(scene.dice.choose([-5, 0, 5]));
        let edit = Want::Edit { queue: None, priority, due: None, limits: None };
        let wants = [
            (Want::Cancel, hands.cancel),
            (Want::Retry, hands.retry),
            (Want::Delete, hands.delete),
            (edit, hands.edit),
        ];
        let wants: Vec<Want> = wants.into_iter().filter_map(|(w, may)| may.then_some(w)).collect();
        (scene.dice.one_in(2).then(|| scene.queue()), scene.dice.pick(&wants))
    };
    let Some(want) = want else { return };
    link.scene().say(&link.who, format_args!("of all of {queue:?}: {want:?}"));
    match front.want_of_all(queue, want).await {
        Ok(()) => link.scene().say(&link.who, format_args!("-> done")),
        Err(error) => link.could_not(&error),
    }
}

async fn get(link: &Link, id: JobId) -> Result<Option<Job>, Error> {
    Ok(link.store.get(vec![id.into()]).await?.pop().flatten())
}

async fn look(link: &Link, id: JobId) {
    let call = link.call(Op::Get { id });
    match get(link, id).await {
        Ok(job) => {
            let mut scene = link.scene();
            scene.did(Deed::Get, job.as_ref().map(|job| job.live.state));
            // The store leaves out a result that is over by its own time, which may be behind a clock
            // that has been put back. A look at the clock may add to that, and nothing else.
            let now = scene.clock.now();
            drop(scene);
            call.ok(None, Answer::Job(job.as_ref().map(|job| Look::of(job, now))));
        }
        Err(error) => call.failed(&error),
    }
}

/// Has a wish decided and written.
pub(super) async fn change(link: &Link, id: JobId, want: Want) {
    let deed = match &want {
        Want::Cancel => Deed::Cancel,
        Want::Retry => Deed::Retry,
        Want::Delete => Deed::Delete,
        Want::Edit { .. } => Deed::Edit,
    };
    let call = link.call(Op::Admin { id, want: want.clone() });
    let verdict = match &link.front {
        Some(front) => {
            let before = link.peek(id);
            front.want(id, want).await.map(|fate| Verdict::of(fate, before))
        }
        None => have_it(link, id, &want).await,
    };
    answer(link, call, deed, verdict);
}

async fn have_it(link: &Link, id: JobId, want: &Want) -> Result<Verdict, Error> {
    match event(link, id, want).await {
        Ok(Some((job, event))) => settle(link, id, job, &event).await,
        Ok(None) => Ok(Verdict::Unknown),
        Err(error) => Err(error),
    }
}

fn answer(link: &Link, call: Call, deed: Deed, verdict: Result<Verdict, Error>) {
    match verdict {
        Ok(verdict) => {
            let state = match &verdict {
                Verdict::Applied { before: state, .. } | Verdict::Refused(state) => *state,
                Verdict::Unknown => None,
            };
            link.scene().did(deed, state);
            call.ok(None, Answer::Changed(changed(&verdict)));
        }
        Err(error) => call.failed(&error),
    }
}

/// What a wish means for a job. An edit changes the spec that the job has now.
async fn event(link: &Link, id: JobId, want: &Want) -> Result<Option<(Option<Job>, Event)>, Error> {
    Ok(match want {
        Want::Cancel => Some((None, Event::Cancel)),
        Want::Retry => Some((None, Event::Retry)),
        Want::Delete => Some((None, Event::Delete)),
        Want::Edit { queue, priority, due, limits } => get(link, id).await?.map(|job| {
            let mut spec = (*job.spec).clone();
            spec.queue = queue.clone().unwrap_or(spec.queue);
            spec.priority = priority.unwrap_or(spec.priority);
            spec.limits = limits.clone().unwrap_or(spec.limits);
            let edit = Edit { spec: Some(Arc::new(spec)), due: *due };
            (Some(job), Event::Edit(edit))
        }),
    })
}

fn edit(scene: &mut Scene) -> Want {
    let queue = scene.dice.one_in(2).then(|| scene.queue());
    let priority = scene.dice.one_in(2).then(|| scene.dice.choose([-5, 0, 5]));
    let whens = [When::Now, When::After(Span::from_secs(3)), When::Keep];
    let due = scene.dice.one_in(2).then(|| scene.dice.choose(whens));
    let mut limits = scene.dice.one_in(4).then(Vec::new);
    if scene.has_front {
        // It works out anew what the job counts against, which may be something else.
        limits = queue.is_some().then(Vec::new);
    }
    Want::Edit { queue, priority, due, limits }
}

/// Whose result is asked for, and how often: mostly one that was reported, perhaps by two in a row.
fn whose_result(scene: &mut Scene, otherwise: JobId) -> (JobId, usize) {
    if scene.config.generation == Generation::First {
        return (otherwise, 1);
    }
    let place = scene.dice.place(scene.known.hands.len());
    let spoken = scene.known.hands.get(place).map(|hand| &hand.spoken);
    let newest = spoken.into_iter().flatten().rev().take(6).map(|job| job.id);
    let newest: Vec<JobId> = newest.collect();
    let picked = if scene.dice.one_in(3) { None } else { scene.dice.pick(&newest) };
    (picked.unwrap_or(otherwise), scene.dice.choose([1, 2]))
}

/// Reads a result, and takes it away if it is there for one reader.
async fn take(link: &Link, id: JobId) {
    // A refusal says nothing of the result: such a call is left without an answer.
    let call = link.call(Op::TakeResult { id });
    if let Some(front) = &link.front {
        let at_most = patience(&mut link.scene());
        let state = link.peek(id).map(|(state, _)| state);
        link.scene().did(Deed::Take, state);
        return match link.result(&**front, id, at_most).await {
            Ok(result) => drop(call.ok(None, Answer::Result(result.as_ref().map(Hash::of)))),
            Err(error) => call.failed(&error),
        };
    }
    let result = loop {
        let job = match get(link, id).await {
            Ok(job) => job,
            Err(error) => return link.could_not(&error),
        };
        let now = link.scene().clock.now();
        link.scene().did(Deed::Take, job.as_ref().map(|job| job.live.state));
        let Some(job) = job else { break None };
        let Some(kept) = job.result_at(now).filter(|_| job.live.state.has_ended()) else {
            break None;
        };
        let (hash, once) = (Hash::of(&kept.payload), kept.once);
        if !once {
            break Some(hash);
        }
        breath(link).await;
        match settle_once(link, job).await {
            Ok(true) => break Some(hash),
            Ok(false) => {}
            Err(error) => return link.could_not(&error),
        }
    };
    call.ok(None, Answer::Result(result));
}

/// Takes the result of a job as it was seen; false if it is not so any more.
async fn settle_once(link: &Link, job: Job) -> Result<bool, Error> {
    let Ok(change) = crore_core::machine::decide(&job, &Event::TakeResult, 0) else {
        return Ok(false);
    };
    let applied = link.store.apply(vec![Write::Job(change)]).await?.into_inner();
    Ok(matches!(applied.first(), Some(crore_store::jobs::Applied::Yes(_))))
}

async fn seal(link: &Link) {
    let group = {
        let mut scene = link.scene();
        let groups = scene.known.groups.clone();
        scene.dice.pick(&groups)
    };
    let Some(group) = group else { return };
    link.scene().say(&link.who, format_args!("seal {group:?}"));
    match link.seal(group).await {
        Ok(was_open) => {
            let mut scene = link.scene();
            scene.say(&link.who, format_args!("-> was open: {was_open}"));
            scene.known.groups.retain(|known| *known != group);
        }
        Err(error) => link.could_not(&error),
    }
}

async fn count(link: &Link) {
    let call = link.call(Op::Counts);
    match link.store.counts(None).await {
        Ok(counts) => {
            let counts = counts.into_iter().map(counted).collect();
            call.ok(None, Answer::Counts(counts));
        }
        Err(error) => call.failed(&error),
    }
}

/// A count, as the history has it.
pub(super) fn counted(count: crore_store::views::Count) -> crore_testkit::history::answer::Count {
    let crore_store::views::Count { queue, kind, state, n } = count;
    crore_testkit::history::answer::Count { queue, kind, state, n }
}

async fn define_something(link: &Link) {
    let definition = {
        let mut scene = link.scene();
        let (hands, limits) = (scene.config.hands.clone(), scene.config.jobs.limits);
        match scene.dice.below(3) {
            0 if limits => Some(limit(&mut scene)),
            1 if hands.settings => Some(settings(&mut scene)),
            2 if hands.schedules => Some(schedule(&mut scene)),
            _ => None,
        }
    };
    if let Some(definition) = definition {
        define(link, definition).await;
    }
}

/// Sets or removes a definition.
pub(super) async fn define(link: &Link, definition: Define) {
    if let Some(front) = &link.front {
        link.scene().say(&link.who, format_args!("define {definition:?}"));
        match front.define(definition).await {
            Ok(()) => link.scene().did(Deed::Define, None),
            Err(error) => link.could_not(&error),
        }
        return;
    }
    let entry = op::Entry {
        name: definition.name.clone(),
        to: meaning(&definition),
        expires_after: definition.expires_after,
    };
    let call = link.call(Op::Define { entries: vec![entry] });
    match link.store.define(vec![definition]).await {
        Ok(answers) => {
            link.scene().did(Deed::Define, None);
            let answers = answers.into_inner();
            let written = answers.iter().map(|defined| matches!(defined, Defined::Yes(_)));
            call.ok(None, Answer::Defined(written.collect()));
        }
        Err(error) => call.failed(&error),
    }
}

fn limit(scene: &mut Scene) -> Define {
    let name = name(scene.dice.choose(["l0", "l1"]));
    if scene.dice.one_in(4) && !scene.has_front {
        return Define::remove(Table::Limits, name);
    }
    let rate = scene.dice.one_in(2).then(|| Rate {
        count: scene.dice.from(1, 5) as u32,
        every: scene.dice.choose([Span::from_millis(100), Span::from_secs(2)]),
        burst: scene.dice.from(1, 4) as u32,
    });
    let concurrency =
        (rate.is_none() || scene.dice.one_in(2)).then(|| scene.dice.from(0, 3) as u32);
    let known = scene.limits.iter().find(|(known, _)| *known == name);
    let matcher = known.map_or_else(Matcher::default, |(_, limit)| limit.matcher.clone());
    let limit = Limit { matcher, rate, concurrency, per: None };
    let mut define = Define::set(name, Value::Limit(limit));
    define.expires_after = scene.dice.one_in(6).then(|| Span::from_secs(5));
    define
}

/// The limits that a front always has, so that it is known what a job counts against: one on all
/// jobs, one on those of a queue.
pub(super) fn lasting_limits() -> Vec<(Name, Limit)> {
    [("l0", "concurrency 3"), ("l1", "where queue = \"q0\" rate 4/1s burst 2")]
        .map(|(limit, text)| (name(limit), Limit::parse(text).expect("a limit")))
        .to_vec()
}

fn settings(scene: &mut Scene) -> Define {
    let queue = scene.queue();
    if scene.dice.one_in(3) {
        return Define::remove(Table::Queues, queue);
    }
    let defaults = QueueSettings::default();
    let settings = QueueSettings {
        paused: scene.dice.one_in(3),
        keep_done: scene.dice.choose([Span::from_secs(60), defaults.keep_done]),
        max_done: scene.dice.choose([0, 3, defaults.max_done]),
        keep_dead: scene.dice.choose([Span::from_secs(600), defaults.keep_dead]),
        max_dead: scene.dice.choose([2, defaults.max_dead]),
    };
    let mut define = Define::set(queue, Value::Queue(settings));
    define.expires_after = scene.dice.one_in(6).then(|| Span::from_secs(5));
    define
}
fn schedule(scene: &mut Scene) -> Define {
    let name = name(scene.dice.choose(["s0", "s1"]));
    if scene.dice.one_in(4) {
        return Define::remove(Table::Schedules, name);
    }
    let text = scene.dice.choose(["every 1s", "every 90s", "cron * * * * *"]);
    let timing = Timing::parse("timing", text).expect("a schedule");
    let missed = scene.dice.choose([Missed::Skip, Missed::Once, Missed::All]);
    let mut job = new_job(scene);
    (job.spec.unique, job.due) = (None, When::Now);
    let cursor = scene.clock.now().max(scene.known.now);
    let paused = scene.dice.one_in(6);
    let schedule = Schedule { timing, missed, job, cursor, paused };
    Define::set(name, Value::Schedule(Box::new(schedule)))
}

/// What a definition means, as the history has it.
pub fn meaning(define: &Define) -> Meaning {
    match &define.to {
        Definition::Remove(Table::Limits) => Meaning::NoLimit,
        Definition::Remove(Table::Queues) => Meaning::NoQueue,
        Definition::Remove(Table::Schedules) => Meaning::NoSchedule,
        Definition::Remove(_) => Meaning::Other,
        Definition::Set(Value::Limit(limit)) => Meaning::Limit {
            concurrency: limit.concurrency,
            rate: limit.rate.map(|rate| op::Rate {
                count: rate.count,
                every: rate.every,
                burst: rate.burst,
            }),
        },
        Definition::Set(Value::Queue(settings)) => Meaning::Queue(op::Queue {
            paused: settings.paused,
            keep_done: settings.keep_done,
            max_done: settings.max_done,
            keep_dead: settings.keep_dead,
            max_dead: settings.max_dead,
        }),
        Definition::Set(Value::Schedule(schedule)) => Meaning::Schedule {
            timing: schedule.timing.clone(),
            missed: schedule.missed,
            cursor: schedule.cursor,
            paused: schedule.paused,
        },
        Definition::Set(_) => Meaning::Other,
    }
}
