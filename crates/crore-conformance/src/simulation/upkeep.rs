//! The callers that promote, rescue, fire ticks and prune.

use crore_core::machine::{Event, decide};
use crore_core::schedule::due;
use crore_core::{Clock, Job, Span};
use crore_store::Error;
use crore_store::jobs::{Applied, Write};
use crore_store::registry::{Entry, Table, Value};
use crore_testkit::history::answer::Changed;
use crore_testkit::history::op::Noticed;
use crore_testkit::history::{Answer, Hash, Op};

use super::coverage::Deed;
use super::pusher::{items, payload, told};
use super::scene::{Call, Link, name};
use super::settle::breath;

/// One turn of the upkeep loops.
pub(super) async fn turn(link: Link) {
    if let Some(front) = &link.front {
        link.scene().say(&link.who, format_args!("upkeep"));
        let done = front.upkeep_once().await;
        link.scene().say(&link.who, format_args!("-> {done:?}"));
        if let Err(error) = done {
            link.could_not(&error);
        }
        return;
    }
    let (what, n) = {
        let mut scene = link.scene();
        let (what, n) = (scene.dice.below(10), scene.dice.choose([1, 3, 100]));
        scene.say(&link.who, format_args!("turn {what} of {n}"));
        (what, n)
    };
    let done = match what {
        0..4 => promote(&link, n).await,
        4..7 => rescue(&link, n).await,
        7 => prune(&link, n).await,
        8 => tick(&link).await,
        _ => lead(&link).await,
    };
    if let Err(error) = done {
        link.could_not(&error);
    }
}

/// Makes ready what is due.
pub(super) async fn promote(link: &Link, n: usize) -> Result<(), Error> {
    let promoted = link.store.promote(n).await?;
    let mut scene = link.scene();
    scene.hear(promoted.now);
    scene.say(&link.who, format_args!("promoted {}", promoted.count));
    if promoted.count > n {
        scene.wrong(format!("{} were promoted, {n} were asked for", promoted.count));
    }
    Ok(())
}

/// Takes lapsed leases away, and cancels what is broken.
pub(super) async fn rescue(link: &Link, n: usize) -> Result<(), Error> {
    let lapses = link.store.lapsed(n).await?;
    let told = lapses.now;
    link.scene().hear(told);
    // Nobody may have heard of those: their pushes and fetches may have been left unanswered.
    let met = lapses.lapsed.iter().chain(&lapses.broken);
    let met: Vec<_> = met.map(|job| (job.id, Hash::of(&job.spec.payload))).collect();
    if !met.is_empty() {
        link.call(Op::List).ok(None, Answer::Listed(met));
    }
    breath(link).await;
    let lapsed = lapses.lapsed.into_iter().map(|job| (job, Noticed::Lapsed));
    let broken = lapses.broken.into_iter().map(|job| (job, Noticed::Broken));
    let noticed: Vec<(Job, Noticed)> = lapsed.chain(broken).collect();
    let (mut writes, mut calls) = (Vec::new(), Vec::new());
    for (job, what) in noticed {
        let delivery = job.live.delivery;
        let (event, about) = match what {
            Noticed::Broken => (Event::Broken, None),
            _ => (Event::Lapsed(delivery), Some(delivery)),
        };
        let dice = link.scene().dice.roll();
        match decide(&job, &event, dice) {
            Ok(change) => writes.push(Write::Job(change)),
            Err(refusal) => {
                link.scene().wrong(format!("{:?} was reported, and is {refusal:?}", job.id));
                continue;
            }
        }
        link.scene().did(Deed::Rescue, Some(job.live.state));
        calls.push(link.call(Op::Notice { id: job.id, delivery: about, what }));
    }
    if writes.is_empty() {
        return Ok(());
    }
    answer(calls, link.store.apply(writes).await.map(crore_store::Committed::into_inner));
    Ok(())
}

fn answer(calls: Vec<Call>, answers: Result<Vec<Applied>, Error>) {
    match answers {
        Ok(answers) => {
            for (call, applied) in calls.into_iter().zip(answers) {
                let changed = match applied {
                    Applied::Yes(_) => Changed::Yes,
                    Applied::Stale => Changed::Refused,
                };
                call.ok(None, Answer::Changed(changed));
            }
        }
        Err(error) => calls.into_iter().for_each(|call| call.failed(&error)),
    }
}

/// Removes what was kept long enough.
pub(super) async fn prune(link: &Link, n: usize) -> Result<(), Error> {
    let pruned = link.store.prune(n).await?;
    link.scene().say(&link.who, format_args!("pruned {} and {}", pruned.jobs, pruned.others));
    Ok(())
}

async fn lead(link: &Link) -> Result<(), Error> {
    let (node, span) = {
        let mut scene = link.scene();
        (scene.dice.from(1, 2), scene.dice.choose([Span::from_secs(1), Span::from_secs(60)]))
    };
    let lead = link.store.lead(name("upkeep"), node, span).await?;
    link.scene().say(&link.who, format_args!("{lead:?}"));
    Ok(())
}

/// Fires what is due of one schedule.
async fn tick(link: &Link) -> Result<(), Error> {
    let entries = link.store.entries(Table::Schedules, None, 10).await?;
    let entry = link.scene().dice.pick(&entries);
    breath(link).await;
    match entry {
        Some(Entry { name, value: Value::Schedule(schedule), revision, .. }) => {
            let now = {
                let scene = link.scene();
                scene.clock.now().max(scene.known.now)
            };
            let due = due(&schedule.timing, schedule.missed, schedule.cursor, now, 5);
            if schedule.paused || due.cursor == schedule.cursor {
                return Ok(());
            }
            let jobs: Vec<_> = due
                .fire
                .iter()
                .map(|_| {
                    let mut job = schedule.job.clone();
                    job.spec.payload = payload(&mut link.scene());
                    job
                })
                .collect();
            let items = items(link, &jobs);
            let (cursor, fire) = (due.cursor, due.fire);
            let call = link.call(Op::Tick { schedule: name.clone(), cursor, fire, items });
            let write = Write::Tick { schedule: name, seen: revision, cursor, push: jobs };
            match link.store.apply(vec![write]).await.map(crore_store::Committed::into_inner) {
                Ok(answers) => {
                    let mut scene = link.scene();
                    scene.did(Deed::Tick, None);
                    let pushed = answers.into_iter().next().and_then(|applied| match applied {
                        Applied::Yes(pushed) => Some(pushed),
                        Applied::Stale => None,
                    });
                    pushed.iter().flatten().for_each(|pushed| scene.pushed(*pushed));
                    drop(scene);
                    let told = pushed.map(|pushed| pushed.into_iter().map(told).collect());
                    call.ok(None, Answer::Ticked(told));
                }
                Err(error) => call.failed(&error),
            }
            Ok(())
        }
        _ => Ok(()),
    }
}
