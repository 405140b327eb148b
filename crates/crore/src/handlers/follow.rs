//! What follows the end of a job that has a handler.

use std::borrow::Cow;
use std::sync::Arc;

use crore_core::handler::End;
use crore_core::machine::{
    Again, Change, Effect, Event, Next, NextState, Outcome, Refusal, Report,
};
use crore_core::{Invalid, Job, Name, NewJob, State};

use crate::engine::Inner;

impl Inner {
    /// A decision, and what the handler of the job's kind says is to follow, in the same write. What
    /// follows and cannot be pushed is a failure of the job: nothing is dropped in silence, unless the job was done
    /// when it was handed over, and cannot fail any more.
    pub(crate) fn followed(
        &self,
        job: &Job,
        event: &Event,
        change: Change,
        decide: impl Fn(&Event) -> Result<Change, Refusal>,
    ) -> Change {
        let Some(book) = self.handlers.any() else { return change };
        let Some((kind, known)) = book.of_job(&job.spec) else { return change };
        let Some(end) = end(job, event, &change) else { return change };
        let lookup = |kind: &Name| book.of_kind(kind).map(|(_, known)| &*known.handler);
        let called = called(job, kind);
        let most = self.caps.batch_jobs;
        let mut jobs =
            known.handler.follow_ups(&called, (end, &known.follows), (self.now(), most), lookup);
        match (self.check_follow_ups("next", &mut jobs, NewJob::check), end) {
            (Ok(()), _) => joined(change, jobs),
            (Err(invalid), End::Done(_)) => {
                let Some(failed) = refused(event, &invalid) else { return change };
                let Ok(change) = decide(&failed) else { return change };
                self.followed(job, &failed, change, decide)
            }
            // A job that is dead stays so, and has said why.
            (Err(_), End::Dead(_)) => change,
        }
    }
}

/// A job under the name that its handler has now, so that its next run is one of that name.
fn called<'a>(job: &'a Job, kind: &Name) -> Cow<'a, Job> {
    if job.spec.kind == *kind {
        return Cow::Borrowed(job);
    }
    let mut job = job.clone();
    Arc::make_mut(&mut job.spec).kind = kind.clone();
    Cow::Owned(job)
}

/// How a job ends by a change; `None`: it does not.
fn end<'a>(job: &Job, event: &'a Event, change: &'a Change) -> Option<End<'a>> {
    let result = match event {
        Event::Finished { report: Report { outcome: Outcome::Done { result }, .. }, .. } => {
            Some(result.as_ref())
        }
        Event::HandedOver(_) => Some(None),
        _ => None,
    };
    match (&change.next, result) {
        (Next::Gone, Some(result)) => Some(End::Done(result)),
        (Next::Gone, None) => None,
        (Next::Live(next), Some(result)) if next.state == NextState::Done => {
            Some(End::Done(result))
        }
        (Next::Live(next), _) if next.state == NextState::Dead && job.live.state != State::Dead => {
            let error = next.ended.as_ref().and_then(|(_, error)| error.as_deref());
            Some(End::Dead(error.unwrap_or_default()))
        }
        _ => None,
    }
}

/// The report of a job whose follow-ups were refused; `None`: it was done when it was handed over, and cannot fail.
fn refused(event: &Event, invalid: &Invalid) -> Option<Event> {
    let error = format!("what it gave cannot be passed on: {invalid}").into();
    let failed = Outcome::Failed { error, detail: None, again: Again::Never };
    match event {
        Event::Finished { delivery, .. } => {
            Some(Event::Finished { delivery: *delivery, report: failed.into() })
        }
        _ => None,
    }
}

/// Adds follow-ups to a change: after those that its report brings, and before its group counts.
fn joined(mut change: Change, mut jobs: Vec<NewJob>) -> Change {
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
