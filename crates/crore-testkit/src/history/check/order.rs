//! **I8, order is (priority, due, id).** A fetch does not hand out a job while it passes over another
//! that comes before it, is of a queue and a kind that were asked for, and was certainly ready all the
//! while; and what it hands out is in order. Over several queues the order is merged, or queue by queue
//! if that was asked for.
//!
//! A job is *certainly ready* from the answer to its push (due now, without limits, waiting for
//! nothing), or from the answer to a report that handed it back, until the beginning of whatever may
//! have taken or changed it: a fetch that got it, anything wanted by hand, or a fetch of which nobody
//! knows what it took; the last only if a crash may have forgotten that, enough time has passed for
//! that lease to lapse or that run to time out, or its caller was seen to leave, before the job was seen again. Not while its queue may have been paused. A job that becomes due later, is retried
//! or limited is ready when nobody can say: such deliveries are counted as not judged.

use std::collections::BTreeMap;

use crore_core::{JobId, Name, Time};

use super::facts::definitions::Table;
use super::facts::{Call, Facts, Filed, Grant, Job, Moment, Source, Took, nanos};
use super::report::{Counters, Findings};
use crate::history::answer::Granted;
use crate::history::op::{Item, Meaning, Outcome, When};
use crate::history::{Answer, Op};

type Key = (i32, Time, JobId);

/// A time in which a job was certainly ready.
struct Wait<'h> {
    queue: &'h Name,
    kind: &'h Name,
    key: Key,
    from: u64,
    until: u64,
}

/// The jobs of a queue that are ready, each with its kind and since when.
type Ready<'h> = BTreeMap<Key, (&'h Name, u64)>;

pub(super) fn check(facts: &Facts<'_>, findings: &mut Findings, counters: &mut Counters) {
    let waits = waits(facts, counters);
    if !facts.rules.ordered {
        return;
    }
    let mut steps: Vec<(u64, Step<'_, '_>)> = Vec::new();
    for wait in &waits {
        steps.push((wait.from, Step::Ready(wait)));
        steps.push((wait.until, Step::Over(wait)));
    }
    for call in &facts.calls {
        if let Some((Answer::Fetched(granted), at)) = call.answer() {
            steps.push((at.i, Step::Fetched(call, granted)));
        }
    }
    steps.sort_by_key(|(at, step)| (*at, matches!(step, Step::Fetched(..))));
    let mut queues: BTreeMap<&Name, Ready<'_>> = BTreeMap::new();
    for (_, step) in steps {
        match step {
            Step::Ready(wait) => {
                queues.entry(wait.queue).or_default().insert(wait.key, (wait.kind, wait.from));
            }
            Step::Over(wait) => {
                queues.entry(wait.queue).or_default().remove(&wait.key);
            }
            Step::Fetched(call, granted) => passed_over(facts, call, granted, &queues, findings),
        }
    }
}

enum Step<'a, 'h> {
    Ready(&'a Wait<'h>),
    Over(&'a Wait<'h>),
    Fetched(&'a Call<'h>, &'h [Granted]),
}

const fn key(granted: &Granted) -> Key {
    (granted.priority, granted.due, granted.id)
}

fn passed_over<'h>(
    facts: &Facts<'h>,
    call: &Call<'h>,
    granted: &'h [Granted],
    queues: &BTreeMap<&'h Name, Ready<'h>>,
    findings: &mut Findings,
) {
    let Op::Fetch { queues: asked, kinds, strict, .. } = call.op else { return };
    let Some(ended) = call.ended() else { return };
    let rank = |queue: &Name| if *strict { asked.iter().position(|q| q == queue) } else { None };
    let place = |granted: &Granted| (rank(&granted.queue), key(granted));
    for pair in granted.windows(2) {
        let [first, second] = pair else { continue };
        if place(first) > place(second) {
            let message = format!("handed out at {} after job {}", ended.i, first.id);
            findings.add(8, second.id, &[ended.i], message);
        }
    }
    let Some(last) = granted.iter().map(place).max() else { return };
    for queue in asked {
        let Some(ready) = queues.get(queue) else { continue };
        if may_be_paused(facts, queue, call.begun, ended) {
            continue;
        }
        let wanted = |kind: &Name| kinds.as_ref().is_none_or(|kinds| kinds.contains(kind));
        let first = ready.iter().find(|(_, (kind, from))| *from < call.begun.i && wanted(kind));
        if let Some((key, (_, since))) = first
            && (rank(queue), *key) < last
        {
            let passed = last.1.2;
            let message =
                format!("ready since {since} as {key:?}, but {} handed out job {passed}", ended.i);
            findings.add(8, key.2, &[*since, call.begun.i, ended.i], message);
        }
    }
}

fn may_be_paused(facts: &Facts<'_>, queue: &Name, from: Moment, to: Moment) -> bool {
    let found = facts.definitions.in_force(Table::Queues, queue, from, to);
    found
        .iter()
        .flatten()
        .any(|(_, defined)| matches!(defined.to, Meaning::Queue(settings) if settings.paused))
}

fn waits<'h>(facts: &Facts<'h>, counters: &mut Counters) -> Vec<Wait<'h>> {
    let mut all = Vec::new();
    for (job, source) in facts.sourced() {
        let mut known = 0;
        if let Some(wait) = first_wait(facts, job, source) {
            known += usize::from(!job.grants.is_empty());
            all.push(wait);
        }
        for (n, grant) in job.grants.iter().enumerate() {
            if let Some(wait) = second_wait(facts, job, source, (n, grant)) {
                known += usize::from(n + 1 < job.grants.len());
                all.push(wait);
            }
        }
        counters.ordered += known;
        counters.unordered += job.grants.len().saturating_sub(known);
    }
    all
}

fn is_plain(source: &Source<'_>) -> bool {
    source.item.limits.is_empty() && source.item.after.is_empty()
}

fn first_wait<'h>(facts: &Facts<'h>, job: &Job<'h>, source: &Source<'h>) -> Option<Wait<'h>> {
    if !is_plain(source) || source.item.due != When::Now {
        return None;
    }
    let from = facts.made_by(source)?;
    let due = match (facts.calls[source.call].now(), job.grants.first(), job.stored) {
        (Some(now), ..) => now,
        (None, Some(grant), _) => grant.granted.due,
        // Unknown: then it is only compared with less urgent jobs.
        (None, None, stored) => stored.map_or(Time::MAX, |stored| stored.due),
    };
    let until = taken(facts, (job, source), (source.begun, from), job.grants.first());
    let (item, key) = (source.item, (source.item.priority, due, job.id));
    wait(&item.queue, &item.kind, key, (from.i, until))
}

/// The wait after a delivery that was handed back: it keeps its place.
fn second_wait<'h>(
    facts: &Facts<'h>,
    job: &Job<'h>,
    source: &Source<'h>,
    (n, grant): (usize, &Grant<'h>),
) -> Option<Wait<'h>> {
    let back = job.reports.iter().find(|filed| {
        filed.delivery == Some(grant.delivery()) && *filed.outcome == Outcome::Interrupted
    })?;
    let from = back.accepted().filter(|at| facts.holds(*at, facts.end))?;
    // Where any delivery may report, the success of an older one also ends a job that waits.
    let is_late = |filed: &Filed<'h>| {
        let is_open = filed.ended.is_none_or(|ended| back.begun.is_before(&ended));
        facts.any_delivery(job) && (is_open || filed.took == Took::Perhaps)
    };
    let may_end =
        |filed: &Filed<'h>| is_late(filed) || filed.delivery.is_none_or(|d| d >= grant.delivery());
    let others = job.reports.iter().any(|filed| {
        filed.took != Took::No
            && filed.begun.i != back.begun.i
            && may_end(filed)
            && filed.begun.is_before(&from)
    });
    if !is_plain(source) || others || job.meddled(source.begun, from, |_| true) {
        return None;
    }
    let until = taken(facts, (job, source), (back.begun, from), job.grants.get(n + 1));
    let key = (source.item.priority, grant.granted.due, job.id);
    wait(&source.item.queue, &source.item.kind, key, (from.i, until))
}

fn wait<'h>(
    queue: &'h Name,
    kind: &'h Name,
    key: Key,
    (from, until): (u64, u64),
) -> Option<Wait<'h>> {
    (from < until).then_some(Wait { queue, kind, key, from, until })
}

/// The first event at which a job that is certainly ready since `from`, and perhaps since `begun`,
/// may have stopped being so.
fn taken<'h>(
    facts: &Facts<'h>,
    (job, source): (&Job<'h>, &Source<'h>),
    (begun, from): (Moment, Moment),
    next: Option<&Grant<'h>>,
) -> u64 {
    let granted = next.map_or(facts.end.i, |grant| grant.begun.i);
    let wants = job.wants.iter().filter(|wanted| wanted.took != Took::No);
    let wanted = wants.map(|wanted| wanted.begun.i.max(from.i)).min().unwrap_or(u64::MAX);
    let reports = job.reports.iter().filter(|filed| from.is_before(&filed.begun));
    let reported = reports.map(|filed| filed.begun.i).min().unwrap_or(u64::MAX);
    let lost = if facts.keeps(source, from, facts.end) { u64::MAX } else { from.i };
    // Whichever is over first gives the job to others: its lease, or the time that a run may take.
    let Item { lease, timeout, .. } = source.item;
    let held = lease.map_or(0, nanos).min(timeout.map_or(u64::MAX, nanos));
    let unseen = facts.unseen_fetch(&source.item.queue, begun).filter(|unseen| {
        next.is_none_or(|next| {
            next.ended.fast.saturating_sub(unseen.fast) >= held
                || facts.memory.crashed_between(*unseen, next.ended)
                || facts.left_by(&source.item.queue, begun, next.ended)
        })
    });
    let unseen = unseen.map_or(u64::MAX, |unseen| unseen.i);
    granted.min(wanted).min(reported).min(lost).min(unseen)
}
