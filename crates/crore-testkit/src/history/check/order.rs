//! **I8, order is (priority, due, id).** A fetch does not deliver a job while it skips another that comes
//! first, is of a requested queue and kind, and was certainly ready throughout; and the jobs it delivers are
//! in order. Several queues are merged into one order, or served queue by queue if requested. A job that requires a
//! version is delivered only to a fetch that names such a version of its kind.
//!
//! A job is *certainly ready* from the response to its push (due now, without limits, dependencies or deadline), or
//! from the response to a report that handed it back, until the beginning of anything that may have taken or
//! changed it: a fetch that received it, any admin action, or a fetch with an unknown result. An unknown
//! fetch counts only if, before the job was seen again, a crash may have lost its claim, enough time passed
//! for its lease to lapse or its run to time out, or its caller was seen to leave. A job is not certainly
//! ready while its queue may have been paused. When a job that is due later, retried or limited becomes ready
//! is unknown; its deliveries are counted as not checked.

use std::collections::BTreeMap;

use crore_core::version::VersionRequirement;
use crore_core::{JobId, Name, Time};

use super::facts::definitions::DefinitionTable;
use super::facts::{
    DeliveryGrant, EffectCertainty, HistoryFacts, HistoryMoment, JobFacts, PushOrigin, PushSource,
    RecordedCall, ReportCall, nanos,
};
use super::report::{Counters, Findings};
use crate::history::op::{DefinitionContent, DueTime, RecordedItem, RecordedOutcome};
use crate::history::response::RecordedDelivery;
use crate::history::{RecordedOp, RecordedResponse};

type ReadyOrder = (i32, Time, JobId);

/// An interval in which a job was certainly ready.
struct ReadyInterval<'h> {
    queue: &'h Name,
    kind: &'h Name,
    version: Option<&'h VersionRequirement>,
    key: ReadyOrder,
    from: u64,
    until: u64,
}

/// The ready jobs of a queue, each with the interval in which it is ready.
type ReadyByOrder<'a, 'h> = BTreeMap<ReadyOrder, &'a ReadyInterval<'h>>;

pub(super) fn check(facts: &HistoryFacts<'_>, findings: &mut Findings, counters: &mut Counters) {
    check_versions(facts, findings);
    let waits = ready_intervals(facts, counters);
    if !facts.rules.ordered {
        return;
    }
    let mut steps: Vec<(u64, OrderEvent<'_, '_>)> = Vec::new();
    for wait in &waits {
        steps.push((wait.from, OrderEvent::Ready(wait)));
        steps.push((wait.until, OrderEvent::Over(wait)));
    }
    for call in &facts.calls {
        if let Some((RecordedResponse::Fetched(granted), at)) = call.response() {
            steps.push((at.i, OrderEvent::Fetched(call, granted)));
        }
    }
    steps.sort_by_key(|(at, step)| (*at, matches!(step, OrderEvent::Fetched(..))));
    let mut queues: BTreeMap<&Name, ReadyByOrder<'_, '_>> = BTreeMap::new();
    for (_, step) in steps {
        match step {
            OrderEvent::Ready(wait) => {
                queues.entry(wait.queue).or_default().insert(wait.key, wait);
            }
            OrderEvent::Over(wait) => {
                queues.entry(wait.queue).or_default().remove(&wait.key);
            }
            OrderEvent::Fetched(call, granted) => {
                check_passed_over(facts, call, granted, &queues, findings);
            }
        }
    }
}

enum OrderEvent<'a, 'h> {
    Ready(&'a ReadyInterval<'h>),
    Over(&'a ReadyInterval<'h>),
    Fetched(&'a RecordedCall<'h>, &'h [RecordedDelivery]),
}

const fn key(granted: &RecordedDelivery) -> ReadyOrder {
    (granted.priority, granted.due, granted.id)
}

fn check_passed_over<'h>(
    facts: &HistoryFacts<'h>,
    call: &RecordedCall<'h>,
    granted: &'h [RecordedDelivery],
    queues: &BTreeMap<&'h Name, ReadyByOrder<'_, 'h>>,
    findings: &mut Findings,
) {
    let RecordedOp::Fetch { queues: requested, kinds, versions, strict, .. } = call.op else {
        return;
    };
    let Some(ended) = call.ended() else { return };
    let rank =
        |queue: &Name| if *strict { requested.iter().position(|q| q == queue) } else { None };
    let position = |granted: &RecordedDelivery| (rank(&granted.queue), key(granted));
    for pair in granted.windows(2) {
        let [first, second] = pair else { continue };
        if position(first) > position(second) {
            let message = format!("handed out at {} after job {}", ended.i, first.id);
            findings.add(8, second.id, &[ended.i], message);
        }
    }
    let Some(last) = granted.iter().map(position).max() else { return };
    for queue in requested {
        let Some(ready) = queues.get(queue) else { continue };
        if may_be_paused(facts, queue, call.begun, ended) {
            continue;
        }
        let is_requested = |wait: &ReadyInterval<'_>| {
            kinds.as_ref().is_none_or(|kinds| kinds.contains(wait.kind))
                && versions.satisfy(wait.kind, wait.version)
        };
        let first = ready.iter().find(|(_, wait)| wait.from < call.begun.i && is_requested(wait));
        if let Some((key, ReadyInterval { from: since, .. })) = first
            && (rank(queue), *key) < last
        {
            let passed = last.1.2;
            let message =
                format!("ready since {since} as {key:?}, but {} handed out job {passed}", ended.i);
            findings.add(8, key.2, &[*since, call.begun.i, ended.i], message);
        }
    }
}

fn may_be_paused(
    facts: &HistoryFacts<'_>,
    queue: &Name,
    from: HistoryMoment,
    to: HistoryMoment,
) -> bool {
    let found = facts.definitions.in_force(DefinitionTable::Queues, queue, from, to);
    found.iter().flatten().any(
        |(_, defined)| matches!(defined.to, DefinitionContent::Queue(settings) if settings.paused),
    )
}

fn ready_intervals<'h>(
    facts: &HistoryFacts<'h>,
    counters: &mut Counters,
) -> Vec<ReadyInterval<'h>> {
    let mut all = Vec::new();
    for (job, source) in facts.sourced() {
        let mut known = 0;
        if let Some(wait) = ready_after_push(facts, job, source) {
            known += usize::from(!job.grants.is_empty());
            all.push(wait);
        }
        for (n, grant) in job.grants.iter().enumerate() {
            if let Some(wait) = ready_after_hand_back(facts, job, source, (n, grant)) {
                known += usize::from(n + 1 < job.grants.len());
                all.push(wait);
            }
        }
        counters.ordered += known;
        counters.unordered += job.grants.len().saturating_sub(known);
    }
    all
}

/// Whether a job is ready once it is pushed and due. A job with a deadline may expire at any time, and the follow-up
/// of a missed deadline is pushed at an unknown time.
fn is_plain(source: &PushSource<'_>) -> bool {
    let item = source.item;
    let is_pushed_later = matches!(source.origin, PushOrigin::Expiry(_));
    let is_held = !item.after.is_empty() || item.waits_for_event;
    item.limits.is_empty() && !is_held && item.deadline.is_none() && !is_pushed_later
}

fn ready_after_push<'h>(
    facts: &HistoryFacts<'h>,
    job: &JobFacts<'h>,
    source: &PushSource<'h>,
) -> Option<ReadyInterval<'h>> {
    if !is_plain(source) || source.item.due != DueTime::Now {
        return None;
    }
    let from = facts.created_by(source)?;
    let due = match (facts.calls[source.call].now(), job.grants.first(), job.stored) {
        (Some(now), ..) => now,
        (None, Some(grant), _) => grant.granted.due,
        // Unknown: compare it only with less urgent jobs.
        (None, None, stored) => stored.map_or(Time::MAX, |stored| stored.due),
    };
    let until = ready_until(facts, (job, source), (source.begun, from), job.grants.first());
    let (item, key) = (source.item, (source.item.priority, due, job.id));
    ready_interval(item, key, (from.i, until))
}

/// The interval after a delivery that was handed back: the job keeps its position.
fn ready_after_hand_back<'h>(
    facts: &HistoryFacts<'h>,
    job: &JobFacts<'h>,
    source: &PushSource<'h>,
    (n, grant): (usize, &DeliveryGrant<'h>),
) -> Option<ReadyInterval<'h>> {
    let back = job.reports.iter().find(|report| {
        report.delivery == Some(grant.delivery()) && *report.outcome == RecordedOutcome::Interrupted
    })?;
    let from = back.accepted().filter(|at| facts.write_still_holds(*at, facts.end))?;
    // If any delivery may report, the success of an older one also ends a waiting job.
    let is_late = |report: &ReportCall<'h>| {
        let is_open = report.ended.is_none_or(|ended| back.begun.is_before(&ended));
        facts.any_delivery(job) && (is_open || report.effect == EffectCertainty::Perhaps)
    };
    let may_end = |report: &ReportCall<'h>| {
        is_late(report) || report.delivery.is_none_or(|d| d >= grant.delivery())
    };
    let others = job.reports.iter().any(|report| {
        report.effect != EffectCertainty::No
            && report.begun.i != back.begun.i
            && may_end(report)
            && report.begun.is_before(&from)
    });
    if !is_plain(source) || others || job.admin_may_apply(source.begun, from, |_| true) {
        return None;
    }
    let until = ready_until(facts, (job, source), (back.begun, from), job.grants.get(n + 1));
    let key = (source.item.priority, grant.granted.due, job.id);
    ready_interval(source.item, key, (from.i, until))
}

fn ready_interval<'h>(
    item: &'h RecordedItem,
    key: ReadyOrder,
    (from, until): (u64, u64),
) -> Option<ReadyInterval<'h>> {
    let RecordedItem { queue, kind, worker_version, .. } = item;
    let version = worker_version.as_ref();
    (from < until).then_some(ReadyInterval { queue, kind, version, key, from, until })
}

/// No fetch gets a job whose required version it does not name.
fn check_versions(facts: &HistoryFacts<'_>, findings: &mut Findings) {
    let required = |(job, source): (&JobFacts<'_>, &PushSource<'_>)| {
        Some((job.id, (source.item.kind.clone(), source.item.worker_version?)))
    };
    let required: BTreeMap<JobId, (Name, VersionRequirement)> =
        facts.sourced().filter_map(required).collect();
    for call in facts.calls.iter().filter(|_| !required.is_empty()) {
        let (RecordedOp::Fetch { versions, .. }, Some((RecordedResponse::Fetched(granted), at))) =
            (call.op, call.response())
        else {
            continue;
        };
        for granted in granted {
            let Some((kind, version)) = required.get(&granted.id) else { continue };
            if !versions.satisfy(kind, Some(version)) {
                let message = "handed to a fetch that does not name such a version".to_owned();
                findings.add(8, granted.id, &[call.begun.i, at.i], message);
            }
        }
    }
}

/// The first event at which a job that is certainly ready since `from`, and perhaps since `begun`, may have
/// stopped being ready.
fn ready_until<'h>(
    facts: &HistoryFacts<'h>,
    (job, source): (&JobFacts<'h>, &PushSource<'h>),
    (begun, from): (HistoryMoment, HistoryMoment),
    next: Option<&DeliveryGrant<'h>>,
) -> u64 {
    let granted = next.map_or(facts.end.i, |grant| grant.begun.i);
    let admin_calls =
        job.admin_calls.iter().filter(|admin_call| admin_call.effect != EffectCertainty::No);
    let changed =
        admin_calls.map(|admin_call| admin_call.begun.i.max(from.i)).min().unwrap_or(u64::MAX);
    let reports = job.reports.iter().filter(|report| from.is_before(&report.begun));
    let reported = reports.map(|report| report.begun.i).min().unwrap_or(u64::MAX);
    let lost = if facts.job_still_exists(source, from, facts.end) { u64::MAX } else { from.i };
    // The job becomes available again when its lease ends or its run times out, whichever is first.
    let RecordedItem { lease, timeout, .. } = source.item;
    let held = lease.map_or(0, nanos).min(timeout.map_or(u64::MAX, nanos));
    let unseen = facts.unseen_fetch(&source.item.queue, begun).filter(|unseen| {
        next.is_none_or(|next| {
            next.ended.fast.saturating_sub(unseen.fast) >= held
                || facts.crash_history.crashed_between(*unseen, next.ended)
                || facts.caller_left_between(&source.item.queue, begun, next.ended)
        })
    });
    let unseen = unseen.map_or(u64::MAX, |unseen| unseen.i);
    granted.min(changed).min(reported).min(lost).min(unseen)
}
