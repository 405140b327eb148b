//! **I12, results are kept for their time.** For an accepted report with a result (or, if the job died of it,
//! failure details), until the job is retried by an operator:
//!
//! - kept for a span: a get or take requested after the response, and answered within the span from the
//!   beginning of the report, shows it, unless the job may legitimately be gone or the result may have been
//!   taken;
//! - after its span plus the tolerance plus all backward jumps (during which the store's clock may have stood
//!   still) it is not shown;
//! - kept once: no two takes receive it;
//! - not kept: it is never shown.

use crore_core::State;
use crore_core::job::ResultRetention;

use super::facts::{
    EffectCertainty, HistoryFacts, HistoryMoment, JobFacts, ReportCall, ReportEffect, nanos,
};
use super::report::Findings;
use crate::history::PayloadHash;

pub(super) fn check(facts: &HistoryFacts<'_>, findings: &mut Findings) {
    for (job, source) in facts.sourced() {
        for report in &job.reports {
            let (Some(accepted), Some(result)) = (report.accepted(), report.result()) else {
                continue;
            };
            let keeps = matches!(
                facts.ending(job, report),
                ReportEffect::EndedAs(State::Done | State::Dead)
            );
            if !keeps {
                continue;
            }
            let ended = AcceptedResult { report, accepted, result, keep: source.item.keep };
            check_visibility(facts, job, &ended, findings);
        }
        if matches!(source.item.keep, ResultRetention::Once(_)) {
            check_taken_once(facts, job, findings);
        }
    }
}

struct AcceptedResult<'a, 'h> {
    report: &'a ReportCall<'h>,
    accepted: HistoryMoment,
    result: PayloadHash,
    keep: ResultRetention,
}

fn check_visibility<'h>(
    facts: &HistoryFacts<'h>,
    job: &JobFacts<'h>,
    ended: &AcceptedResult<'_, 'h>,
    findings: &mut Findings,
) {
    let looks = job
        .gets
        .iter()
        .map(|look| (look.begun, look.ended, look.job.and_then(|shown| shown.result)));
    let answered = |taking: &super::facts::job::TakeResultCall| {
        Some((
            taking.begun,
            taking.ended.filter(|_| taking.effect != EffectCertainty::Perhaps)?,
            taking.result,
        ))
    };
    for (begun, at, result) in looks.chain(job.takes.iter().filter_map(answered)) {
        if job.may_be_revived(ended.report.begun, at) {
            continue;
        }
        let wrong = match (ended.keep, result) {
            (ResultRetention::Discard, Some(result)) => {
                (result == ended.result).then_some("was not to be kept")
            }
            (ResultRetention::Discard, None) => None,
            (ResultRetention::Once(span) | ResultRetention::For(span), Some(result)) => {
                let kept = i128::from(nanos(span)) + i128::from(facts.rules.slack());
                let late = begun.slow - i128::from(ended.accepted.t) > kept;
                (result == ended.result && late).then_some("is shown after its time")
            }
            (ResultRetention::Once(span) | ResultRetention::For(span), None) => {
                is_missing(facts, job, ended, (begun, at, nanos(span))).then_some("is not shown")
            }
        };
        if let Some(wrong) = wrong {
            let message =
                format!("its result, accepted at {}, {wrong} at {}", ended.accepted.i, at.i);
            findings.add(12, job.id, &[ended.accepted.i, begun.i, at.i], message);
        }
    }
}

fn is_missing<'h>(
    facts: &HistoryFacts<'h>,
    job: &JobFacts<'h>,
    ended: &AcceptedResult<'_, 'h>,
    (begun, at, span): (HistoryMoment, HistoryMoment, u64),
) -> bool {
    let passed = at.fast.saturating_sub(ended.report.begun.fast);
    let taken = job.takes.iter().any(|taking| {
        taking.begun.i != begun.i
            && taking.effect != EffectCertainty::No
            && taking.begun.is_before(&at)
    });
    ended.accepted.is_before(&begun)
        && passed.saturating_add(facts.rules.slack()) < span
        && !taken
        && facts.write_still_holds(ended.accepted, at)
        && !facts.may_be_gone(job, at)
}

fn check_taken_once(facts: &HistoryFacts<'_>, job: &JobFacts<'_>, findings: &mut Findings) {
    let got: Vec<_> = job.takes.iter().filter(|taking| taking.result.is_some()).collect();
    for pair in got.windows(2) {
        let [first, second] = pair else { continue };
        let (Some(at), Some(then)) = (first.ended, second.ended) else { continue };
        // Taking a result is only as durable as any other write.
        if !job.may_be_revived(first.begun, then) && facts.write_still_holds(at, then) {
            let message = format!("its result was taken at {} and again at {}", at.i, then.i);
            findings.add(12, job.id, &[at.i, then.i], message);
        }
    }
}
