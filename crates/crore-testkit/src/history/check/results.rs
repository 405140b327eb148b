//! **I12, results are kept for their time.** For a report that was accepted and gave a result (or, if
//! the job died of it, details of a failure), in the same life of the job:
//!
//! - kept for a span: a look or a taking that is asked for after the answer and answered within the
//!   span from the beginning of the report shows it, unless the job may rightly be gone or the result
//!   may have been taken;
//! - after its span, some tolerance and all jumps back, for which the store's clock may have stood
//!   still, it is not shown;
//! - kept once: no two takings get it;
//! - not kept: it is never shown.

use crore_core::State;
use crore_core::job::Keep;

use super::facts::{Ending, Facts, Filed, Job, Moment, Took, nanos};
use super::report::Findings;
use crate::history::Hash;

pub(super) fn check(facts: &Facts<'_>, findings: &mut Findings) {
    for (job, source) in facts.sourced() {
        for filed in &job.reports {
            let (Some(accepted), Some(result)) = (filed.accepted(), filed.result()) else {
                continue;
            };
            let keeps = matches!(facts.ending(job, filed), Ending::As(State::Done | State::Dead));
            if !keeps {
                continue;
            }
            let ended = Ended { filed, accepted, result, keep: source.item.keep };
            shown(facts, job, &ended, findings);
        }
        if matches!(source.item.keep, Keep::Once(_)) {
            taken_once(facts, job, findings);
        }
    }
}

struct Ended<'a, 'h> {
    filed: &'a Filed<'h>,
    accepted: Moment,
    result: Hash,
    keep: Keep,
}

fn shown<'h>(facts: &Facts<'h>, job: &Job<'h>, ended: &Ended<'_, 'h>, findings: &mut Findings) {
    let looks = job
        .looks
        .iter()
        .map(|look| (look.begun, look.ended, look.job.and_then(|shown| shown.result)));
    let answered = |taking: &super::facts::job::Taking| {
        Some((taking.begun, taking.ended.filter(|_| taking.took != Took::Perhaps)?, taking.result))
    };
    for (begun, at, result) in looks.chain(job.takings.iter().filter_map(answered)) {
        if job.revived(ended.filed.begun, at) {
            continue;
        }
        let wrong = match (ended.keep, result) {
            (Keep::Discard, Some(result)) => {
                (result == ended.result).then_some("was not to be kept")
            }
            (Keep::Discard, None) => None,
            (Keep::Once(span) | Keep::For(span), Some(result)) => {
                let kept = i128::from(nanos(span)) + i128::from(facts.rules.slack());
                let late = begun.slow - i128::from(ended.accepted.t) > kept;
                (result == ended.result && late).then_some("is shown after its time")
            }
            (Keep::Once(span) | Keep::For(span), None) => {
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
    facts: &Facts<'h>,
    job: &Job<'h>,
    ended: &Ended<'_, 'h>,
    (begun, at, span): (Moment, Moment, u64),
) -> bool {
    let passed = at.fast.saturating_sub(ended.filed.begun.fast);
    let taken = job.takings.iter().any(|taking| {
        taking.begun.i != begun.i && taking.took != Took::No && taking.begun.is_before(&at)
    });
    ended.accepted.is_before(&begun)
        && passed.saturating_add(facts.rules.slack()) < span
        && !taken
        && facts.holds(ended.accepted, at)
        && !facts.may_be_gone(job, at)
}

fn taken_once(facts: &Facts<'_>, job: &Job<'_>, findings: &mut Findings) {
    let got: Vec<_> = job.takings.iter().filter(|taking| taking.result.is_some()).collect();
    for pair in got.windows(2) {
        let [first, second] = pair else { continue };
        let (Some(at), Some(then)) = (first.ended, second.ended) else { continue };
        // Taking is only as durable as any other write.
        if !job.revived(first.begun, then) && facts.holds(at, then) {
            let message = format!("its result was taken at {} and again at {}", at.i, then.i);
            findings.add(12, job.id, &[at.i, then.i], message);
        }
    }
}
