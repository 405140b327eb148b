//! How reports end a job, as far as callers can know.

use crore_core::State;
use crore_core::job::{JobRetention, Lapse, ReportFencing};

use super::call::{EffectCertainty, HistoryMoment};
use super::job::{DeliveryGrant, JobFacts, ReportCall};
use super::{HistoryFacts, nanos};
use crate::history::check::leases::was_held;
use crate::history::op::{AdminAction, RecordedOutcome, RecordedRetry, UpkeepDecision};

/// Effect of an accepted report on its job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReportEffect {
    /// It ended in this state.
    EndedAs(State),
    /// It ended, dead or cancelled.
    DeadOrCancelled,
    /// It continues.
    Continues,
    /// Unknown.
    Unknown,
}

impl ReportEffect {
    pub(crate) const fn is_end(self) -> bool {
        matches!(self, Self::EndedAs(_) | Self::DeadOrCancelled)
    }
}

impl<'h> HistoryFacts<'h> {
    /// Whether a report of any delivery counts.
    pub(crate) fn any_delivery(&self, job: &JobFacts<'h>) -> bool {
        self.sources.of(job.id).is_some_and(|source| source.item.reports == ReportFencing::Any)
    }

    /// The effect of a report on its job, if it is accepted.
    pub(crate) fn ending(&self, job: &JobFacts<'h>, report: &ReportCall<'h>) -> ReportEffect {
        match report.outcome {
            RecordedOutcome::Done { .. } => return ReportEffect::EndedAs(State::Done),
            RecordedOutcome::Cancel => return ReportEffect::EndedAs(State::Cancelled),
            RecordedOutcome::Failed { .. }
            | RecordedOutcome::Snooze(_)
            | RecordedOutcome::Interrupted => {}
        }
        let stop = self.stop_asked(job, report);
        match (stop, self.is_last_failure(job, report)) {
            (EffectCertainty::Yes, _) => ReportEffect::EndedAs(State::Cancelled),
            (EffectCertainty::No, Some(true)) => ReportEffect::EndedAs(State::Dead),
            (EffectCertainty::No, Some(false)) => ReportEffect::Continues,
            (EffectCertainty::Perhaps, Some(true)) => ReportEffect::DeadOrCancelled,
            (EffectCertainty::Perhaps, Some(false))
            | (EffectCertainty::No | EffectCertainty::Perhaps, None) => ReportEffect::Unknown,
        }
    }

    /// Whether the job was asked to stop before one of its reports was decided.
    fn stop_asked(&self, job: &JobFacts<'h>, report: &ReportCall<'h>) -> EffectCertainty {
        let mut stop = EffectCertainty::No;
        for admin_call in
            job.admin_calls.iter().filter(|admin_call| *admin_call.action == AdminAction::Cancel)
        {
            let until = report.ended.unwrap_or(self.end);
            if admin_call.effect == EffectCertainty::No || !admin_call.begun.is_before(&until) {
                continue;
            }
            let sure = admin_call.asked
                && admin_call.ended.is_some_and(|ended| {
                    ended.is_before(&report.begun) && self.write_still_holds(ended, until)
                })
                && !job.may_be_revived(admin_call.begun, until);
            stop = if sure { EffectCertainty::Yes } else { EffectCertainty::Perhaps };
        }
        stop
    }

    fn is_last_failure(&self, job: &JobFacts<'h>, report: &ReportCall<'h>) -> Option<bool> {
        let RecordedOutcome::Failed { again, .. } = report.outcome else { return Some(false) };
        if *again == RecordedRetry::Never {
            return Some(true);
        }
        let retry = &self.sources.of(job.id)?.item.retry;
        let grant = job.grant(report.delivery?)?;
        if self.any_delivery(job) {
            return self.is_last_of_any(job, report);
        }
        Some(retry.is_last(grant.granted.attempt))
    }

    /// Whether a failure is the last of a job that accepts reports of any delivery. The failure counts
    /// against the running attempt, which is that of the newest delivery: higher than that of the reporting
    /// delivery, or lower if an operator retried the job in between. `None` if the newest delivery, or whether it
    /// held the job, is uncertain and it matters.
    fn is_last_of_any(&self, job: &JobFacts<'h>, report: &ReportCall<'h>) -> Option<bool> {
        let source = self.sources.of(job.id)?;
        let until = report.ended.unwrap_or(self.end);
        let certain = job.grants.iter().rev().find(|grant| {
            grant.ended.is_before(&report.begun) && self.claim_still_holds(grant.ended, until)
        })?;
        if job.may_be_revived(certain.begun, until) {
            return None;
        }
        let newer = job.grants.iter().filter(|grant| {
            grant.delivery() >= certain.delivery() && grant.begun.is_before(&until)
        });
        let mut lasts = newer.map(|grant| source.item.retry.is_last(grant.granted.attempt));
        let last = lasts.next()?;
        if last && !was_held(self, job, report) {
            return None;
        }
        let unseen = self.unseen_fetch(&certain.granted.queue, certain.ended);
        let is_certain = last || unseen.is_none_or(|unseen| until.is_before(&unseen));
        (is_certain && lasts.all(|other| other == last)).then_some(last)
    }

    /// The first moment at which the job may have ended in one of these states, `None` if it cannot have: by
    /// a report, an admin action, or an upkeep decision.
    pub(crate) fn may_end(
        &self,
        job: &JobFacts<'h>,
        ends: impl Fn(State) -> bool,
    ) -> Option<HistoryMoment> {
        let mut first: Option<HistoryMoment> = None;
        let mut note = |at: HistoryMoment| {
            first = Some(first.filter(|first| first.is_before(&at)).unwrap_or(at));
        };
        let source = self.sources.of(job.id);
        for report in job.reports.iter().filter(|report| report.effect != EffectCertainty::No) {
            let may = match self.ending(job, report) {
                ReportEffect::EndedAs(state) => ends(state),
                ReportEffect::DeadOrCancelled | ReportEffect::Unknown => {
                    ends(State::Dead) || ends(State::Cancelled)
                }
                ReportEffect::Continues => false,
            };
            if may {
                note(report.begun);
            }
        }
        for admin_call in
            job.admin_calls.iter().filter(|admin_call| admin_call.effect != EffectCertainty::No)
        {
            if *admin_call.action == AdminAction::Cancel && ends(State::Cancelled) {
                note(admin_call.begun);
            }
        }
        if let Some(source) = source {
            let may_be_cancelled = !source.item.after.is_empty()
                || source.item.deadline.is_some()
                || source.item.waits_for_event;
            if may_be_cancelled && ends(State::Cancelled) {
                note(source.begun);
            }
            let forgets = source.item.lease.is_none();
            if source.item.waits_for_event && ends(State::Dead) {
                note(source.begun);
            }
            let dies = may_die_silently(source.item.lapse) || source.item.timeout.is_some();
            if (forgets && ends(State::Done)) || (dies && ends(State::Dead)) {
                let unseen = self.unseen_fetch(&source.item.queue, source.begun);
                let seen = job.grants.iter().map(|grant| grant.begun);
                seen.chain(unseen).for_each(&mut note);
            }
        }
        first
    }

    /// Whether a job that is missing at `at` may legitimately be gone: deleted by an operator, done and not
    /// retained, or ended for longer than its queue keeps such jobs.
    pub(crate) fn may_be_gone(&self, job: &JobFacts<'h>, at: HistoryMoment) -> bool {
        let Some(source) = self.sources.of(job.id) else { return true };
        if job.admin_may_apply(source.begun, at, |want| *want == AdminAction::Delete) {
            return true;
        }
        let ended = |ends: fn(State) -> bool| self.may_end(job, ends).filter(|m| m.is_before(&at));
        let done = ended(|state| state == State::Done);
        if done.is_some() && source.item.retain == JobRetention::Nothing {
            return true;
        }
        let keep = self.definitions.retention(&source.item.queue);
        let over = |since: Option<HistoryMoment>, span: u64, max: u64, among: u64| {
            since.is_some_and(|since| {
                at.fast.saturating_sub(since.fast) >= span.saturating_sub(self.rules.slack())
                    || among > max
            })
        };
        let cancelled = ended(|state| state == State::Cancelled);
        let dead = ended(|state| state == State::Dead);
        let among = self.jobs_of_queue(&source.item.queue);
        let moved =
            job.admin_may_apply(source.begun, at, |want| matches!(want, AdminAction::Edit { .. }));
        (moved && (done.or(cancelled).or(dead)).is_some())
            || over(done, nanos(keep.keep_done), keep.max_done, among)
            || over(cancelled, nanos(keep.keep_done), keep.max_done, among)
            || over(dead, nanos(keep.keep_dead), keep.max_dead, among)
    }

    /// The earliest end of a delivery's lease, in fast time, on which its worker may rely at `at`: as
    /// granted, or as renewed where the renewal certainly still holds. `None`: no lease.
    pub(crate) fn lease_end(
        &self,
        job: &JobFacts<'h>,
        grant: &DeliveryGrant<'h>,
        at: HistoryMoment,
    ) -> Option<u64> {
        let lease = grant.granted.lease?;
        let mut end = grant.begun.fast.saturating_add(nanos(lease));
        for renewal in &job.renewals {
            if renewal.delivery == grant.delivery()
                && renewal.ended.is_before(&at)
                && let Some(span) = renewal.span
                && self.claim_still_holds(renewal.ended, at)
            {
                end = end.max(renewal.begun.fast.saturating_add(nanos(span)));
            }
        }
        if let Some(timeout) = self.sources.of(job.id).and_then(|source| source.item.timeout) {
            end = end.min(grant.begun.fast.saturating_add(nanos(timeout)));
        }
        Some(end)
    }

    /// Whether a delivery may have lost its job by `at` because its worker reported it, received a response
    /// that it is stale, or ran too long.
    pub(crate) fn may_be_released(
        job: &JobFacts<'h>,
        grant: &DeliveryGrant<'h>,
        at: HistoryMoment,
    ) -> bool {
        let same = |delivery: Option<crore_core::Delivery>| {
            delivery.is_none_or(|delivery| delivery == grant.delivery())
        };
        let reported = job.reports.iter().any(|report| {
            let after = report.ended.is_none_or(|ended| grant.begun.is_before(&ended));
            (report.effect != EffectCertainty::No || (report.stale && same(report.delivery)))
                && after
                && report.begun.is_before(&at)
        });
        let noticed = job.upkeep_calls.iter().any(|notice| {
            notice.effect != EffectCertainty::No
                && notice.what != UpkeepDecision::Lapsed
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
