//! How reports end a job, as far as callers can know.

use crore_core::State;
use crore_core::job::{Lapse, Reports, Retain};

use super::call::{Moment, Took};
use super::job::{Filed, Grant, Job};
use super::{Facts, nanos};
use crate::history::op::{Again, Noticed, Outcome, Want};

/// What an accepted report makes of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It has ended, like this.
    As(State),
    /// It has ended, dead or cancelled.
    Badly,
    /// It goes on.
    Open,
    /// Nobody can say.
    Unsure,
}

impl Ending {
    pub(crate) const fn is_end(self) -> bool {
        matches!(self, Self::As(_) | Self::Badly)
    }
}

impl<'h> Facts<'h> {
    /// Whether any delivery's report counts.
    pub(crate) fn any_delivery(&self, job: &Job<'h>) -> bool {
        self.sources.of(job.id).is_some_and(|source| source.item.reports == Reports::Any)
    }

    /// What a report makes of its job, if it is accepted.
    pub(crate) fn ending(&self, job: &Job<'h>, filed: &Filed<'h>) -> Ending {
        match filed.outcome {
            Outcome::Done { .. } => return Ending::As(State::Done),
            Outcome::Cancel => return Ending::As(State::Cancelled),
            Outcome::Failed { .. } | Outcome::Snooze(_) | Outcome::Interrupted => {}
        }
        let stop = self.stop_asked(job, filed);
        match (stop, self.is_last_failure(job, filed)) {
            (Took::Yes, _) => Ending::As(State::Cancelled),
            (Took::No, Some(true)) => Ending::As(State::Dead),
            (Took::No, Some(false)) => Ending::Open,
            (Took::Perhaps, Some(true)) => Ending::Badly,
            (Took::Perhaps, Some(false)) | (Took::No | Took::Perhaps, None) => Ending::Unsure,
        }
    }

    /// Whether the job was asked to stop before a report of it was decided upon.
    fn stop_asked(&self, job: &Job<'h>, filed: &Filed<'h>) -> Took {
        let mut stop = Took::No;
        for wanted in job.wants.iter().filter(|wanted| *wanted.want == Want::Cancel) {
            let until = filed.ended.unwrap_or(self.end);
            if wanted.took == Took::No || !wanted.begun.is_before(&until) {
                continue;
            }
            let sure = wanted.asked
                && wanted
                    .ended
                    .is_some_and(|ended| ended.is_before(&filed.begun) && self.holds(ended, until))
                && !job.revived(wanted.begun, until);
            stop = if sure { Took::Yes } else { Took::Perhaps };
        }
        stop
    }

    fn is_last_failure(&self, job: &Job<'h>, filed: &Filed<'h>) -> Option<bool> {
        let Outcome::Failed { again, .. } = filed.outcome else { return Some(false) };
        if *again == Again::Never {
            return Some(true);
        }
        let retry = &self.sources.of(job.id)?.item.retry;
        let grant = job.grant(filed.delivery?)?;
        if self.any_delivery(job) {
            return self.is_last_of_any(job, filed);
        }
        Some(retry.is_last(grant.granted.attempt))
    }

    /// Whether a failure is the last of a job whose reports count whatever delivery they are of. The failure counts against
    /// the attempt that runs, which is that of the newest delivery: more than that of the delivery that reports, or less if
    /// the job was revived by hand in between. `None` if it is not certain which delivery that is, and it matters.
    fn is_last_of_any(&self, job: &Job<'h>, filed: &Filed<'h>) -> Option<bool> {
        let source = self.sources.of(job.id)?;
        let until = filed.ended.unwrap_or(self.end);
        let certain = job.grants.iter().rev().find(|grant| {
            grant.ended.is_before(&filed.begun) && self.recalls(grant.ended, until)
        })?;
        if job.revived(certain.begun, until) {
            return None;
        }
        let newer = job.grants.iter().filter(|grant| {
            grant.delivery() >= certain.delivery() && grant.begun.is_before(&until)
        });
        let mut lasts = newer.map(|grant| source.item.retry.is_last(grant.granted.attempt));
        let last = lasts.next()?;
        let unseen = self.unseen_fetch(&certain.granted.queue, certain.ended);
        let is_certain = last || unseen.is_none_or(|unseen| until.is_before(&unseen));
        (is_certain && lasts.all(|other| other == last)).then_some(last)
    }

    /// The first moment at which the job may have ended in one of these ways, none if it cannot
    /// have: by a report, by hand, or by what only the engine saw.
    pub(crate) fn may_end(&self, job: &Job<'h>, ends: impl Fn(State) -> bool) -> Option<Moment> {
        let mut first: Option<Moment> = None;
        let mut note = |at: Moment| {
            first = Some(first.filter(|first| first.is_before(&at)).unwrap_or(at));
        };
        let source = self.sources.of(job.id);
        for filed in job.reports.iter().filter(|filed| filed.took != Took::No) {
            let may = match self.ending(job, filed) {
                Ending::As(state) => ends(state),
                Ending::Badly | Ending::Unsure => ends(State::Dead) || ends(State::Cancelled),
                Ending::Open => false,
            };
            if may {
                note(filed.begun);
            }
        }
        for wanted in job.wants.iter().filter(|wanted| wanted.took != Took::No) {
            if *wanted.want == Want::Cancel && ends(State::Cancelled) {
                note(wanted.begun);
            }
        }
        if let Some(source) = source {
            let waits = !source.item.after.is_empty();
            if waits && ends(State::Cancelled) {
                note(source.begun);
            }
            let forgets = source.item.lease.is_none();
            let dies = may_die_silently(source.item.lapse) || source.item.timeout.is_some();
            if (forgets && ends(State::Done)) || (dies && ends(State::Dead)) {
                let unseen = self.unseen_fetch(&source.item.queue, source.begun);
                let seen = job.grants.iter().map(|grant| grant.begun);
                seen.chain(unseen).for_each(&mut note);
            }
        }
        first
    }

    /// Whether a job that is not there at `at` may rightly be gone: deleted by hand, done and not
    /// to be retained, or ended for as long as its queue keeps such jobs.
    pub(crate) fn may_be_gone(&self, job: &Job<'h>, at: Moment) -> bool {
        let Some(source) = self.sources.of(job.id) else { return true };
        if job.meddled(source.begun, at, |want| *want == Want::Delete) {
            return true;
        }
        let ended = |ends: fn(State) -> bool| self.may_end(job, ends).filter(|m| m.is_before(&at));
        let done = ended(|state| state == State::Done);
        if done.is_some() && source.item.retain == Retain::Nothing {
            return true;
        }
        let keep = self.definitions.retention(&source.item.queue);
        let over = |since: Option<Moment>, span: u64, max: u64, among: u64| {
            since.is_some_and(|since| {
                at.fast.saturating_sub(since.fast) >= span.saturating_sub(self.rules.slack())
                    || among > max
            })
        };
        let cancelled = ended(|state| state == State::Cancelled);
        let dead = ended(|state| state == State::Dead);
        let among = self.jobs_of_queue(&source.item.queue);
        let moved = job.meddled(source.begun, at, |want| matches!(want, Want::Edit { .. }));
        (moved && (done.or(cancelled).or(dead)).is_some())
            || over(done, nanos(keep.keep_done), keep.max_done, among)
            || over(cancelled, nanos(keep.keep_done), keep.max_done, among)
            || over(dead, nanos(keep.keep_dead), keep.max_dead, among)
    }

    /// When the lease of a delivery ends at the earliest, in fast time, as its worker may count on
    /// it at `at`: as granted, or as renewed where the renewal is certainly known. None: it holds
    /// nothing.
    pub(crate) fn lease_end(&self, job: &Job<'h>, grant: &Grant<'h>, at: Moment) -> Option<u64> {
        let lease = grant.granted.lease?;
        let mut end = grant.begun.fast.saturating_add(nanos(lease));
        for renewal in &job.renewals {
            if renewal.delivery == grant.delivery()
                && renewal.ended.is_before(&at)
                && let Some(span) = renewal.span
                && self.recalls(renewal.ended, at)
            {
                end = end.max(renewal.begun.fast.saturating_add(nanos(span)));
            }
        }
        if let Some(timeout) = self.sources.of(job.id).and_then(|source| source.item.timeout) {
            end = end.min(grant.begun.fast.saturating_add(nanos(timeout)));
        }
        Some(end)
    }

    /// Whether the hold of a delivery may be over at `at` because its worker gave it up, was told
    /// that it is over, or ran too long.
    pub(crate) fn may_be_released(job: &Job<'h>, grant: &Grant<'h>, at: Moment) -> bool {
        let same = |delivery: Option<crore_core::Delivery>| {
            delivery.is_none_or(|delivery| delivery == grant.delivery())
        };
        let reported = job.reports.iter().any(|filed| {
            let after = filed.ended.is_none_or(|ended| grant.begun.is_before(&ended));
            (filed.took != Took::No || (filed.stale && same(filed.delivery)))
                && after
                && filed.begun.is_before(&at)
        });
        let noticed = job.notices.iter().any(|notice| {
            notice.took != Took::No
                && notice.what != Noticed::Lapsed
                && same(notice.delivery)
                && notice.begun.is_before(&at)
        });
        let refused = job.renewals.iter().any(|renewal| {
            renewal.span.is_none() && same(Some(renewal.delivery)) && renewal.begun.is_before(&at)
        });
        reported || noticed || refused
    }
}

/// Whether a job may die of lapsed leases alone.
const fn may_die_silently(lapse: Lapse) -> bool {
    !matches!(lapse, Lapse::Crash { quarantine: None })
}
