//! Callers that claim and report, correctly and incorrectly.

use crore_core::job::{MAX_HISTORY, ReportFencing};
use crore_core::machine::{self, JobEvent, Report, RetryDirective};
use crore_core::version::{KindVersions, Version};
use crore_core::{Job, JobStats, Span, State};
use crore_store::jobs::{Claim, QueueOrder, Renew, Renewed};
use crore_store::views::Note;
use crore_testkit::history::op::{self, RecordedLease, UpkeepDecision};
use crore_testkit::history::response::{
    RecordedChange, RecordedDelivery, RecordedRenewal, RecordedReport,
};
use crore_testkit::history::{PayloadHash, RecordedOp, RecordedResponse};

use super::context::{CallerLink, SimContext, name};
use super::coverage::{CallerAction, RareSituation};
use super::events::check_event;
use super::pusher::{items, new_job, payload, recorded_push};
use super::settle::{SettleResult, maybe_yield, settle};

/// Fetches jobs.
pub(super) async fn fetch(link: CallerLink, worker: usize) {
    let (request, wait) = {
        let mut context = link.context();
        (draw_claim(&mut context, worker), draw_wait(&mut context))
    };
    let strict = request.order == QueueOrder::Strict;
    let Claim { queues, kinds, versions, n, .. } = request.clone();
    let call = link.call(RecordedOp::Fetch { queues, kinds, versions, n, strict });
    match link.fetch(request, wait).await {
        Ok((now, jobs)) => {
            if !call
                .ok(now, RecordedResponse::Fetched(jobs.iter().map(RecordedDelivery::of).collect()))
            {
                return;
            }
            jobs.iter().for_each(|job| check_event(&mut link.context(), job));
            jobs.iter().for_each(|job| hold_job(&mut link.context(), job, worker));
            for job in jobs {
                if job.spec.lease.is_none() {
                    hand_over(&link, job).await;
                }
            }
        }
        Err(error) => call.failed(&error),
    }
}

/// Runs jobs as a program that embeds the engine.
pub(super) async fn run(link: CallerLink) {
    let Some(engine) = &link.engine else { return };
    let (is_pop, queue, queues, n) = {
        let mut context = link.context();
        let n = context.rng.between(1, 5);
        (context.rng.one_in(2), context.queue(), context.queues(), n)
    };
    let what = if is_pop { format!("pop {queue}") } else { format!("work, {n} jobs") };
    link.context().trace_line(&link.caller, format_args!("{what}"));
    let ran = match is_pop {
        true => engine.pop(queue).await,
        false => engine.work(queues, n, Span::from_secs(600)).await,
    };
    match ran {
        Ok(()) => link.context().trace_line(&link.caller, format_args!("-> ran")),
        Err(error) => link.store_failed(&error),
    }
}

/// How long a caller waits; zero without an engine, which does not support waiting.
pub(super) fn draw_wait(context: &mut SimContext) -> Span {
    if !context.has_engine {
        return Span::ZERO;
    }
    let spans = [Span::from_millis(300), Span::from_secs(5), Span::from_secs(3600)];
    if context.rng.one_in(2) { Span::ZERO } else { context.rng.choose(spans) }
}

fn draw_claim(context: &mut SimContext, worker: usize) -> Claim {
    let mut queues = context.queues();
    if context.rng.one_in(3) {
        queues = vec![context.queue()];
    }
    let kinds = context.rng.one_in(5).then(|| vec![context.kind()]);
    let versions = draw_versions(context);
    let order = context.rng.choose([QueueOrder::Merged, QueueOrder::Merged, QueueOrder::Strict]);
    let n = context.rng.between(1, context.config.callers.max_claim) as usize;
    Claim { queues, kinds, versions, n, order, worker: name(&format!("w{worker}")) }
}

/// A version for some kinds.
fn draw_versions(context: &mut SimContext) -> KindVersions {
    if !context.config.jobs.versions {
        return KindVersions::default();
    }
    let mut versions = Vec::new();
    for kind in context.kinds() {
        let version = context.rng.choose([None, Some([1, 0, 0]), Some([2, 0, 0])]);
        versions.extend(version.and_then(Version::new).map(|version| (kind, version)));
    }
    versions.into_iter().collect()
}

fn hold_job(context: &mut SimContext, job: &Job, worker: usize) {
    context.learn_job(job.id);
    context.cover(CallerAction::Claim, Some(State::Ready));
    let before = context.knowledge.deliveries.insert(job.id, job.live.delivery);
    let history = &job.live.history;
    let ended = |delivery| history.iter().any(|attempt| attempt.delivery == delivery);
    if before.is_some_and(|before| !ended(before)) && history.len() < MAX_HISTORY {
        context.cover_situation(RareSituation::ForgottenClaim);
    }
    if job.spec.lease.is_some()
        && let Some(state) = context.knowledge.workers.get_mut(worker)
    {
        state.held.push(job.clone());
    }
}

/// A job without a lease is done on delivery.
async fn hand_over(link: &CallerLink, job: Job) {
    let (id, delivery) = (job.id, job.live.delivery);
    let call = link.call(RecordedOp::Notice {
        id,
        delivery: Some(delivery),
        what: UpkeepDecision::HandedOver,
    });
    match settle(link, id, Some(job), &JobEvent::Delivered(delivery)).await {
        Ok(verdict) => drop(call.ok(None, RecordedResponse::Changed(changed(&verdict)))),
        Err(error) => call.failed(&error),
    }
}

/// The result of an event in the format of the history.
pub(super) fn changed(verdict: &SettleResult) -> RecordedChange {
    match verdict {
        SettleResult::Applied { asked: true, .. } => RecordedChange::Asked,
        SettleResult::Applied { .. } => RecordedChange::Yes,
        SettleResult::Refused(_) => RecordedChange::Refused,
        SettleResult::Unknown => RecordedChange::Unknown,
    }
}

/// Reports a job, based on the version that the worker fetched.
pub(super) async fn report(link: CallerLink, job: Job) {
    let report = draw(&mut link.context());
    let anonymous = job.spec.reports == ReportFencing::Any && link.context().rng.one_in(3);
    let delivery = (!anonymous).then_some(job.live.delivery);
    let call = link.call(RecordedOp::Report {
        id: job.id,
        delivery,
        outcome: outcome(&report.outcome),
        on_done: items(&link, &report.on_done),
        on_dead: items(&link, &report.on_dead),
    });
    maybe_yield(&link).await;
    let (id, lease_until) = (job.id, job.live.lease_until);
    match settle(&link, id, Some(job), &JobEvent::Finished { delivery, report }).await {
        Ok(verdict) => {
            cover_report(&mut link.context(), &verdict, lease_until);
            let response = reported(&link, verdict);
            call.ok(None, RecordedResponse::Reported(response));
        }
        Err(error) => call.failed(&error),
    }
}

fn cover_report(context: &mut SimContext, verdict: &SettleResult, lease_until: crore_core::Time) {
    match verdict {
        SettleResult::Applied { before, was_asked, .. } => {
            context.cover(CallerAction::Report, *before);
            if *was_asked {
                context.cover_situation(RareSituation::ReportedAfterCancel);
            }
            if context.knowledge.now > lease_until {
                context.cover_situation(RareSituation::ReportedAfterItsLease);
            }
        }
        SettleResult::Refused(state) => {
            context.cover(CallerAction::Report, *state);
            if *state == Some(State::Cancelled) {
                context.cover_situation(RareSituation::ReportedAfterCancel);
            }
            if context.knowledge.now > lease_until && !state.is_none_or(State::has_ended) {
                context.cover_situation(RareSituation::LapsedBeforeItsReport);
            }
        }
        SettleResult::Unknown => context.cover(CallerAction::Report, None),
    }
}

fn reported(link: &CallerLink, verdict: SettleResult) -> RecordedReport {
    match verdict {
        SettleResult::Applied { pushed, .. } => {
            if !link.is_gone() {
                pushed.iter().for_each(|pushed| link.context().pushed(*pushed));
            }
            RecordedReport::Accepted(pushed.into_iter().map(recorded_push).collect())
        }
        SettleResult::Refused(_) => RecordedReport::Stale,
        SettleResult::Unknown => RecordedReport::Unknown,
    }
}

fn draw(context: &mut SimContext) -> Report {
    let result = context.config.jobs.results.then(|| payload(context));
    let outcome = match context.rng.below(12) {
        0..6 => machine::Outcome::Done { result },
        6..10 => {
            let spans = [Span::ZERO, Span::from_millis(1), Span::from_secs(2)];
            let after = RetryDirective::After(context.rng.choose(spans));
            let again = context.rng.choose([
                RetryDirective::ByPolicy,
                RetryDirective::ByPolicy,
                after,
                RetryDirective::Never,
            ]);
            machine::Outcome::Failed { error: "it broke".into(), detail: result, again }
        }
        10 => {
            let span = context.rng.choose([None, Some(Span::ZERO), Some(Span::from_millis(200))]);
            span.map_or(machine::Outcome::Interrupted, machine::Outcome::Snooze)
        }
        _ => machine::Outcome::Cancel,
    };
    let mut report = Report::from(outcome);
    if context.config.jobs.follow_ups && context.rng.one_in(3) {
        report.on_done.push(new_job(context));
        report.on_dead.push(new_job(context));
    }
    report
}

fn outcome(outcome: &machine::Outcome) -> op::RecordedOutcome {
    match outcome {
        machine::Outcome::Done { result } => {
            op::RecordedOutcome::Done { result: result.as_ref().map(PayloadHash::of) }
        }
        machine::Outcome::Failed { detail, again, .. } => op::RecordedOutcome::Failed {
            again: match again {
                RetryDirective::ByPolicy => op::RecordedRetry::ByPolicy,
                RetryDirective::After(span) => op::RecordedRetry::After(*span),
                RetryDirective::Never => op::RecordedRetry::Never,
            },
            detail: detail.as_ref().map(PayloadHash::of),
        },
        machine::Outcome::Snooze(span) => op::RecordedOutcome::Snooze(*span),
        machine::Outcome::Cancel => op::RecordedOutcome::Cancel,
        machine::Outcome::Interrupted | machine::Outcome::Exhausted { .. } => {
            op::RecordedOutcome::Interrupted
        }
    }
}

/// Renews leases.
pub(super) async fn renew(link: CallerLink, jobs: Vec<Job>) {
    let span = {
        let mut context = link.context();
        let lease = context.config.jobs.lease;
        context.rng.choose([None, Some(lease), Some(lease.times(2)), Some(Span::from_millis(10))])
    };
    let leases: Vec<Renew> =
        jobs.iter().map(|job| Renew { id: job.id, delivery: job.live.delivery, span }).collect();
    let asked =
        leases.iter().map(|l| RecordedLease { id: l.id, delivery: l.delivery, span: l.span });
    let call = link.call(RecordedOp::Renew { leases: asked.collect() });
    match link.renew(leases).await {
        Ok(renewed) => {
            let renewals = renewed.iter().zip(&jobs).map(|(renewed, job)| match renewed {
                Renewed::Until { stop, .. } => {
                    let span = span.or(job.spec.lease).unwrap_or_default();
                    RecordedRenewal::For { span, stop: *stop }
                }
                Renewed::Stale => RecordedRenewal::Stale,
            });
            let renewals = renewals.collect();
            let state = renewed.first().map(|renewed| match renewed {
                Renewed::Until { .. } => State::Running,
                Renewed::Stale => State::Ready,
            });
            link.context().cover(CallerAction::Renew, state);
            call.ok(None, RecordedResponse::Renewed(renewals));
        }
        Err(error) => call.failed(&error),
    }
}

/// Writes notes.
pub(super) async fn note(link: CallerLink, job: Job) {
    let (id, delivery) = (job.id, job.live.delivery);
    let seq = link.context().next_seq();
    let mut stats = JobStats::default();
    stats.run.record(Span::from_millis(seq), 1);
    let notes = vec![
        Note::Progress { id, delivery, percent: (seq % 100) as u8, text: "half".into() },
        Note::Line { id, delivery, text: format!("line {seq}").into() },
        Note::Stat { series: name("runs"), n: 1 },
        Note::Jobs {
            series: Some((job.spec.queue.clone(), job.spec.kind.clone())),
            stats: Box::new(stats),
        },
    ];
    match link.store.note(notes).await {
        Ok(kept) => link.context().cover(CallerAction::Note, (kept > 2).then_some(State::Running)),
        Err(error) => link.store_failed(&error),
    }
}

/// Waits up to an hour for one job of any queue, and holds it.
pub(super) async fn fetch_waiting(link: CallerLink) {
    let (queues, n, order) = (link.context().queues(), 1, QueueOrder::Merged);
    let call = link.call(RecordedOp::Fetch {
        queues: queues.clone(),
        kinds: None,
        versions: KindVersions::default(),
        n,
        strict: false,
    });
    let versions = KindVersions::default();
    let request = Claim { queues, kinds: None, versions, n, order, worker: name("w0") };
    match link.fetch(request, Span::from_secs(3600)).await {
        Ok((now, jobs)) => {
            call.ok(
                now,
                RecordedResponse::Fetched(jobs.iter().map(RecordedDelivery::of).collect()),
            );
            jobs.iter().for_each(|job| hold_job(&mut link.context(), job, 0));
        }
        Err(error) => call.failed(&error),
    }
}

/// Reports all jobs that the first worker holds.
pub(super) async fn report_all(link: CallerLink) {
    let held =
        link.context().knowledge.workers.first_mut().map(|state| std::mem::take(&mut state.held));
    for job in held.into_iter().flatten() {
        report(link.clone(), job).await;
    }
}
