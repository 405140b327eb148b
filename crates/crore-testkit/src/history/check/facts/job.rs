//! Facts about one job.

use crore_core::{Delivery, JobId, Span, Time};

use super::call::{EffectCertainty, HistoryMoment};
use crate::history::PayloadHash;
use crate::history::node::DumpedJob;
use crate::history::op::{AdminAction, RecordedOutcome, UpkeepDecision};
use crate::history::response::{RecordedDelivery, RecordedJob};

/// One delivery.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeliveryGrant<'h> {
    pub(crate) granted: &'h RecordedDelivery,
    pub(crate) begun: HistoryMoment,
    pub(crate) ended: HistoryMoment,
    /// The store's time in the response.
    pub(crate) now: Option<Time>,
}

impl DeliveryGrant<'_> {
    pub(crate) const fn delivery(&self) -> Delivery {
        self.granted.delivery
    }
}

/// A report.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReportCall<'h> {
    pub(crate) begun: HistoryMoment,
    pub(crate) ended: Option<HistoryMoment>,
    pub(crate) effect: EffectCertainty,
    pub(crate) delivery: Option<Delivery>,
    pub(crate) outcome: &'h RecordedOutcome,
    /// Whether the response said that the report does not count.
    pub(crate) stale: bool,
}

impl ReportCall<'_> {
    /// When it was accepted, if it was.
    pub(crate) fn accepted(&self) -> Option<HistoryMoment> {
        self.ended.filter(|_| self.effect == EffectCertainty::Yes)
    }

    /// The result of the job, if this report ends it.
    pub(crate) const fn result(&self) -> Option<PayloadHash> {
        match self.outcome {
            RecordedOutcome::Done { result } => *result,
            RecordedOutcome::Failed { detail, .. } => *detail,
            RecordedOutcome::Snooze(_) | RecordedOutcome::Cancel | RecordedOutcome::Interrupted => {
                None
            }
        }
    }
}

/// An admin action.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AdminCall<'h> {
    pub(crate) begun: HistoryMoment,
    pub(crate) ended: Option<HistoryMoment>,
    pub(crate) effect: EffectCertainty,
    pub(crate) action: &'h AdminAction,
    /// Whether the job was running, and was only asked to stop.
    pub(crate) asked: bool,
}

/// An upkeep decision of the engine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UpkeepCall {
    pub(crate) begun: HistoryMoment,
    pub(crate) effect: EffectCertainty,
    pub(crate) delivery: Option<Delivery>,
    pub(crate) what: UpkeepDecision,
}

/// A renewal of one lease that was answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RenewCall {
    pub(crate) begun: HistoryMoment,
    pub(crate) ended: HistoryMoment,
    pub(crate) delivery: Delivery,
    /// New duration. `None`: the lease was stale.
    pub(crate) span: Option<Span>,
}

/// A get that was answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GetCall<'h> {
    pub(crate) begun: HistoryMoment,
    pub(crate) ended: HistoryMoment,
    pub(crate) job: Option<&'h RecordedJob>,
}

/// A take of a result.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TakeResultCall {
    pub(crate) begun: HistoryMoment,
    pub(crate) ended: Option<HistoryMoment>,
    pub(crate) effect: EffectCertainty,
    pub(crate) result: Option<PayloadHash>,
}

/// Everything known about one job; each list is sorted by beginning.
#[derive(Debug, Default)]
pub(crate) struct JobFacts<'h> {
    pub(crate) id: JobId,
    /// Sorted by delivery.
    pub(crate) grants: Vec<DeliveryGrant<'h>>,
    pub(crate) reports: Vec<ReportCall<'h>>,
    pub(crate) admin_calls: Vec<AdminCall<'h>>,
    pub(crate) upkeep_calls: Vec<UpkeepCall>,
    pub(crate) renewals: Vec<RenewCall>,
    pub(crate) gets: Vec<GetCall<'h>>,
    pub(crate) takes: Vec<TakeResultCall>,
    /// When it was first listed, and its payload.
    pub(crate) listed: Option<(HistoryMoment, PayloadHash)>,
    /// The job in the last dump.
    pub(crate) stored: Option<&'h DumpedJob>,
}

impl<'h> JobFacts<'h> {
    pub(crate) fn grant(&self, delivery: Delivery) -> Option<&DeliveryGrant<'h>> {
        self.grants.iter().find(|grant| grant.delivery() == delivery)
    }

    /// Whether a matching admin action may have taken effect between two moments. An action with an unknown
    /// end may take effect any time after it began.
    pub(crate) fn admin_may_apply(
        &self,
        from: HistoryMoment,
        to: HistoryMoment,
        like: impl Fn(&AdminAction) -> bool,
    ) -> bool {
        self.admin_calls.iter().any(|admin_call| {
            admin_call.effect != EffectCertainty::No
                && like(admin_call.action)
                && admin_call.begun.is_before(&to)
                && (admin_call.effect == EffectCertainty::Perhaps
                    || admin_call.ended.is_none_or(|ended| from.is_before(&ended)))
        })
    }

    /// Whether an operator may have retried it between two moments.
    pub(crate) fn may_be_revived(&self, from: HistoryMoment, to: HistoryMoment) -> bool {
        self.admin_may_apply(from, to, |want| *want == AdminAction::Retry)
    }

    /// The first time it was seen: in a delivery, a get, a list or the dump.
    pub(crate) fn first_seen(&self, dump: Option<HistoryMoment>) -> Option<HistoryMoment> {
        let grants = self.grants.iter().map(|grant| grant.ended);
        let gets = self.gets.iter().filter(|get| get.job.is_some()).map(|get| get.ended);
        let dump = dump.filter(|_| self.stored.is_some());
        let listed = self.listed.map(|(at, _)| at);
        grants.chain(gets).chain(listed).chain(dump).min_by_key(|moment| moment.i)
    }
}
