//! Callers that promote jobs, expire leases, fire ticks and prune.

use crore_core::machine::{JobEvent, decide};
use crore_core::schedule::due;
use crore_core::{Clock, Job, Span};
use crore_store::Error;
use crore_store::jobs::{Applied, StoreWrite};
use crore_store::registry::{RegistryEntry, RegistryTable, RegistryValue};
use crore_testkit::history::op::UpkeepDecision;
use crore_testkit::history::response::RecordedChange;
use crore_testkit::history::{PayloadHash, RecordedOp, RecordedResponse};

use super::context::{CallerLink, OpenCall, name};
use super::coverage::CallerAction;
use super::events;
use super::pusher::{items, payload, recorded_push};
use super::settle::maybe_yield;

/// One turn of the upkeep loops.
pub(super) async fn turn(link: CallerLink) {
    if let Some(engine) = &link.engine {
        link.context().trace_line(&link.caller, format_args!("upkeep"));
        let done = engine.upkeep_once().await;
        link.context().trace_line(&link.caller, format_args!("-> {done:?}"));
        if let Err(error) = done {
            link.store_failed(&error);
        }
        return;
    }
    let (what, n) = {
        let mut context = link.context();
        let (what, n) = (context.rng.below(10), context.rng.choose([1, 3, 100]));
        context.trace_line(&link.caller, format_args!("turn {what} of {n}"));
        (what, n)
    };
    let done = match what {
        0..4 => promote(&link, n).await,
        4..7 => expire_leases(&link, n).await,
        7 => prune(&link, n).await,
        8 => tick(&link).await,
        _ => lead(&link).await,
    };
    let done = match done {
        Ok(()) if link.context().config.jobs.events => events::turn(&link, n).await,
        done => done,
    };
    if let Err(error) = done {
        link.store_failed(&error);
    }
}

/// Promotes due jobs.
pub(super) async fn promote(link: &CallerLink, n: usize) -> Result<(), Error> {
    let promoted = link.store.promote(n).await?;
    let mut context = link.context();
    context.observe_time(promoted.now);
    context.trace_line(&link.caller, format_args!("promoted {}", promoted.count));
    if promoted.count > n {
        context.violation(format!("{} were promoted, but {n} were requested", promoted.count));
    }
    Ok(())
}

/// Ends deliveries whose lease has expired, broken jobs, and jobs past their deadline.
pub(super) async fn expire_leases(link: &CallerLink, n: usize) -> Result<(), Error> {
    let lapses = link.store.lapsed(n).await?;
    let now = lapses.now;
    link.context().observe_time(now);
    // No response may have named these jobs: their pushes and fetches may lack one.
    let met = lapses.lapsed.iter().chain(&lapses.broken).chain(&lapses.expired);
    let met = met.chain(&lapses.timed_out);
    let met: Vec<_> = met.map(|job| (job.id, PayloadHash::of(&job.spec.payload))).collect();
    if !met.is_empty() {
        link.call(RecordedOp::List).ok(None, RecordedResponse::Listed(met));
    }
    maybe_yield(link).await;
    let lapsed = lapses.lapsed.into_iter().map(|job| (job, UpkeepDecision::Lapsed));
    let broken = lapses.broken.into_iter().map(|job| (job, UpkeepDecision::Broken));
    let expired = lapses.expired.into_iter().map(|job| (job, UpkeepDecision::Expired));
    let timed_out = lapses.timed_out.into_iter().map(|job| (job, UpkeepDecision::EventTimedOut));
    let noticed = lapsed.chain(broken).chain(expired).chain(timed_out);
    let noticed: Vec<(Job, UpkeepDecision)> = noticed.collect();
    let (mut writes, mut calls) = (Vec::new(), Vec::new());
    for (job, what) in noticed {
        let delivery = job.live.delivery;
        let (event, about) = match what {
            UpkeepDecision::Broken => (JobEvent::Broken, None),
            UpkeepDecision::Expired => (JobEvent::Expired(now), None),
            UpkeepDecision::EventTimedOut => (JobEvent::EventTimedOut(now), None),
            _ => (JobEvent::Lapsed(delivery), Some(delivery)),
        };
        let rng = link.context().rng.next_u64();
        match decide(&job, &event, rng) {
            Ok(change) => writes.push(StoreWrite::Job(change)),
            Err(refusal) => {
                link.context().violation(format!("{:?} was listed, but is {refusal:?}", job.id));
                continue;
            }
        }
        link.context().cover(CallerAction::ExpireLeases, Some(job.live.state));
        calls.push(link.call(RecordedOp::Notice { id: job.id, delivery: about, what }));
    }
    if writes.is_empty() {
        return Ok(());
    }
    answer(calls, link.store.apply(writes).await.map(crore_store::Committed::into_inner));
    Ok(())
}

fn answer(calls: Vec<OpenCall>, answers: Result<Vec<Applied>, Error>) {
    match answers {
        Ok(answers) => {
            for (call, applied) in calls.into_iter().zip(answers) {
                let changed = match applied {
                    Applied::Yes(_) => RecordedChange::Yes,
                    Applied::Stale => RecordedChange::Refused,
                };
                call.ok(None, RecordedResponse::Changed(changed));
            }
        }
        Err(error) => calls.into_iter().for_each(|call| call.failed(&error)),
    }
}

/// Prunes expired records.
pub(super) async fn prune(link: &CallerLink, n: usize) -> Result<(), Error> {
    let pruned = link.store.prune(n).await?;
    link.context()
        .trace_line(&link.caller, format_args!("pruned {} and {}", pruned.jobs, pruned.others));
    Ok(())
}

async fn lead(link: &CallerLink) -> Result<(), Error> {
    let (node, span) = {
        let mut context = link.context();
        (context.rng.between(1, 2), context.rng.choose([Span::from_secs(1), Span::from_secs(60)]))
    };
    let lead = link.store.lead(name("upkeep"), node, span).await?;
    link.context().trace_line(&link.caller, format_args!("{lead:?}"));
    Ok(())
}

/// Fires the due ticks of one schedule.
async fn tick(link: &CallerLink) -> Result<(), Error> {
    let entries = link.store.entries(RegistryTable::Schedules, None, 10).await?;
    let entry = link.context().rng.pick(&entries);
    maybe_yield(link).await;
    match entry {
        Some(RegistryEntry {
            name, value: RegistryValue::Schedule(schedule), revision, ..
        }) => {
            let now = {
                let context = link.context();
                context.clock.now().max(context.knowledge.now)
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
                    job.spec.payload = payload(&mut link.context());
                    job
                })
                .collect();
            let items = items(link, &jobs);
            let (cursor, fire) = (due.cursor, due.fire);
            let call = link.call(RecordedOp::Tick { schedule: name.clone(), cursor, fire, items });
            let write = StoreWrite::Tick { schedule: name, seen: revision, cursor, push: jobs };
            match link.store.apply(vec![write]).await.map(crore_store::Committed::into_inner) {
                Ok(answers) => {
                    let mut context = link.context();
                    context.cover(CallerAction::Tick, None);
                    let pushed = answers.into_iter().next().and_then(|applied| match applied {
                        Applied::Yes(pushed) => Some(pushed),
                        Applied::Stale => None,
                    });
                    pushed.iter().flatten().for_each(|pushed| context.pushed(*pushed));
                    drop(context);
                    let response =
                        pushed.map(|pushed| pushed.into_iter().map(recorded_push).collect());
                    call.ok(None, RecordedResponse::Ticked(response));
                }
                Err(error) => call.failed(&error),
            }
            Ok(())
        }
        _ => Ok(()),
    }
}
