//! Follow-ups that a handler adds to the end of a job.

use std::borrow::Cow;
use std::sync::Arc;

use crore_core::handler::JobEnd;
use crore_core::machine::{
    Change, Effect, JobEvent, NextRecord, NextState, Outcome, Refusal, Report, RetryDirective,
};
use crore_core::{Invalid, Job, Name, NewJob, State};

use crate::engine::EngineInner;

impl EngineInner {
    /// Adds the handler's follow-ups to a decision, so that both are one write. If a follow-up of a successful job
    /// is invalid, the job fails instead and the handler's failure follow-ups apply. A job without a lease is done
    /// at hand-over and cannot fail: its invalid follow-ups are dropped.
    pub(crate) fn with_handler_follow_ups(
        &self,
        job: &Job,
        event: &JobEvent,
        change: Change,
        decide: impl Fn(&JobEvent) -> Result<Change, Refusal>,
    ) -> Change {
        let Some(index) = self.handlers.index_if_any() else { return change };
        let Some((kind, stored)) = index.of_job(&job.spec) else { return change };
        let Some(end) = end_of_job(job, event, &change) else { return change };
        let lookup = |kind: &Name| index.of_kind(kind).map(|(_, stored)| &*stored.handler);
        let current_job = under_current_kind(job, kind);
        let max_jobs = self.caps.batch_jobs;
        let mut jobs = stored.handler.follow_ups(
            &current_job,
            (end, &stored.follows),
            (self.now(), max_jobs),
            lookup,
        );
        match (self.check_follow_ups("next", &mut jobs, NewJob::check), end) {
            (Ok(()), _) => with_pushes(change, jobs),
            (Err(invalid), JobEnd::Done(_)) => {
                let Some(failed) = refused_report(event, &invalid) else { return change };
                let Ok(change) = decide(&failed) else { return change };
                self.with_handler_follow_ups(job, &failed, change, decide)
            }
            // The job stays dead; its error is recorded.
            (Err(_), JobEnd::Dead(_)) => change,
        }
    }
}

/// The job under its handler's current kind, so that its next run has that kind.
fn under_current_kind<'a>(job: &'a Job, kind: &Name) -> Cow<'a, Job> {
    if job.spec.kind == *kind {
        return Cow::Borrowed(job);
    }
    let mut job = job.clone();
    Arc::make_mut(&mut job.spec).kind = kind.clone();
    Cow::Owned(job)
}

/// How the change ends the job; `None`: it does not.
fn end_of_job<'a>(job: &Job, event: &'a JobEvent, change: &'a Change) -> Option<JobEnd<'a>> {
    let result = match event {
        JobEvent::Finished { report: Report { outcome: Outcome::Done { result }, .. }, .. } => {
            Some(result.as_ref())
        }
        JobEvent::Delivered(_) => Some(None),
        _ => None,
    };
    match (&change.next, result) {
        (NextRecord::Gone, Some(result)) => Some(JobEnd::Done(result)),
        (NextRecord::Gone, None) => None,
        (NextRecord::Live(next), Some(result)) if next.state == NextState::Done => {
            Some(JobEnd::Done(result))
        }
        (NextRecord::Live(next), _)
            if next.state == NextState::Dead && job.live.state != State::Dead =>
        {
            let error = next.ended.as_ref().and_then(|(_, error)| error.as_deref());
            Some(JobEnd::Dead(error.unwrap_or_default()))
        }
        _ => None,
    }
}

/// The failure reported for a job whose follow-ups were refused; `None`: it was done at hand-over and cannot fail.
fn refused_report(event: &JobEvent, invalid: &Invalid) -> Option<JobEvent> {
    let error = format!("the follow-ups cannot be pushed: {invalid}").into();
    let failed = Outcome::Failed { error, detail: None, again: RetryDirective::Never };
    match event {
        JobEvent::Finished { delivery, .. } => {
            Some(JobEvent::Finished { delivery: *delivery, report: failed.into() })
        }
        _ => None,
    }
}

/// Adds follow-ups to a change, after those of its report and before the effects on groups and dependents.
fn with_pushes(mut change: Change, mut jobs: Vec<NewJob>) -> Change {
    if jobs.is_empty() {
        return change;
    }
    let pushes = change.effects.iter_mut().find_map(|effect| match effect {
        Effect::Push(pushes) => Some(pushes),
        _ => None,
    });
    match pushes {
        Some(pushes) => pushes.append(&mut jobs),
        None => {
            let counts = |effect: &Effect| matches!(effect, Effect::Tally(_) | Effect::Settle(_));
            let at = change.effects.iter().position(counts).unwrap_or(change.effects.len());
            change.effects.insert(at, Effect::Push(jobs));
        }
    }
    change
}
