//! Fetching, renewing and reporting.

use crore_core::version::KindVersions;
use std::collections::BTreeMap;

use crore_testkit::history::op::{RecordedItem, RecordedLease, RecordedOutcome};
use crore_testkit::history::response::{
    RecordedDelivery, RecordedPush, RecordedRenewal, RecordedReport,
};
use crore_testkit::history::{PayloadHash, RecordedOp, RecordedResponse};
use crore_wire::api::fetch::{self, Delivered, Fetched};
use crore_wire::api::finish::{self, Finish, FinishOne, Finished, FinishedOne};

use super::{RecordingCaller, original_payload};
use crate::client::{ApiRequest, CallResult};
use crate::context::HeldDelivery;
use crate::draft::{JobDraft, QUEUES, name};

/// A report: the request, and what the history records.
#[derive(Debug, Clone)]
pub(crate) struct FinishReport {
    pub(crate) request: FinishOne,
    pub(crate) outcome: RecordedOutcome,
    pub(crate) follow_ups: Vec<JobDraft>,
}

impl RecordingCaller {
    /// Fetches jobs.
    pub(crate) async fn fetch(&mut self, ask: &fetch::Fetch) -> Vec<HeldDelivery> {
        let op = RecordedOp::Fetch {
            queues: ask.queues.iter().map(|queue| name(queue)).collect(),
            kinds: None,
            versions: KindVersions::default(),
            n: ask.n.unwrap_or(1),
            strict: ask.order == fetch::Order::Strict,
        };
        let call = self.record_call(op);
        let ask = ApiRequest::post("/v1/fetch", self.format(), ask);
        match self.client.call::<Fetched>(&ask).await {
            CallResult::Answered(fetched) => {
                let granted: Vec<_> =
                    fetched.jobs.iter().map(|delivered| self.granted_delivery(delivered)).collect();
                let held = granted.iter().map(|granted| HeldDelivery {
                    id: granted.id,
                    delivery: granted.delivery,
                    lease: granted.lease,
                });
                let held = held.collect();
                self.record_answer(call, RecordedResponse::Fetched(granted));
                held
            }
            result => {
                self.record_unanswered(call, "fetch", &result);
                Vec::new()
            }
        }
    }

    fn granted_delivery(&self, job: &Delivered) -> RecordedDelivery {
        let payload =
            original_payload(self.format(), job.payload.as_ref(), job.payload_base64.as_deref());
        let payload = PayloadHash::of(&payload(job.encoding));
        RecordedDelivery {
            id: job.id.into(),
            queue: name(&job.queue),
            attempt: job.attempt,
            delivery: job.delivery.into(),
            lease: self.context.job_by_payload(payload).and_then(|known| known.lease),
            payload,
            priority: job.priority,
            due: job.due.0,
        }
    }

    /// Renews leases.
    pub(crate) async fn renew(&mut self, held: &[HeldDelivery]) {
        let leases =
            held.iter().map(|one| RecordedLease { id: one.id, delivery: one.delivery, span: None });
        let call = self.record_call(RecordedOp::Renew { leases: leases.collect() });
        let jobs =
            held.iter().map(|one| fetch::Held { id: one.id.into(), delivery: one.delivery.into() });
        let ask = fetch::Renew { jobs: jobs.collect(), lease: None };
        let ask = ApiRequest::post("/v1/renew", self.format(), &ask);
        match self.client.call::<fetch::Renewed>(&ask).await {
            CallResult::Answered(renewed) => {
                let renewed = renewed.jobs.iter().zip(held).map(|(lease, held)| match lease {
                    fetch::Lease::Renewed { stop, .. } => {
                        RecordedRenewal::For { span: held.lease.unwrap_or_default(), stop: *stop }
                    }
                    fetch::Lease::Stale => RecordedRenewal::Stale,
                });
                self.record_answer(call, RecordedResponse::Renewed(renewed.collect()));
            }
            result => self.record_unanswered(call, "renew", &result),
        }
    }

    /// Sends reports in one request; each is a call of its own in the history.
    pub(crate) async fn finish(&mut self, reports: &[FinishReport]) {
        let calls: Vec<_> =
            reports.iter().map(|report| self.record_call(report_op(report))).collect();
        let jobs = reports.iter().map(|report| report.request.clone()).collect();
        let ask = ApiRequest::post("/v1/finish", self.format(), &Finish { jobs });
        match self.client.call::<Finished>(&ask).await {
            CallResult::Answered(finished) => {
                for ((call, one), report) in calls.into_iter().zip(finished.jobs).zip(reports) {
                    let answer = self.record_finished(one, report);
                    self.record_answer(call, RecordedResponse::Reported(answer));
                }
            }
            result => {
                // A batch of reports may be refused after some of them have taken effect, and a report with follow-ups
                // may be refused for lack of space.
                let is_plain = reports.len() == 1 && reports[0].follow_ups.is_empty();
                let result: CallResult<Finished> = match result {
                    CallResult::Refused(_, why) if !is_plain => CallResult::Unknown(why),
                    result => result,
                };
                calls.into_iter().for_each(|call| self.record_unanswered(call, "finish", &result));
            }
        }
    }

    fn record_finished(&self, finished: FinishedOne, report: &FinishReport) -> RecordedReport {
        match finished {
            FinishedOne::Finished { state, pushed } => {
                if state.is_none_or(|state| crore_core::State::from(state).has_ended()) {
                    self.context.record_ended();
                }
                let pushed: Vec<_> = pushed.iter().map(|pushed| self.push_result(pushed)).collect();
                for (pushed, draft) in pushed.iter().zip(&report.follow_ups) {
                    if let RecordedPush::New(id) = pushed {
                        self.context.record_pushed(*id, self.context.remember(draft));
                    }
                }
                RecordedReport::Accepted(pushed)
            }
            FinishedOne::Stale => RecordedReport::Stale,
            FinishedOne::NotFound => RecordedReport::Unknown,
        }
    }
}

fn report_op(report: &FinishReport) -> RecordedOp {
    let items: Vec<RecordedItem> =
        report.follow_ups.iter().map(JobDraft::to_history_item).collect();
    let (id, delivery) = (report.request.id.into(), Some(report.request.delivery.into()));
    let on_dead = Vec::new();
    RecordedOp::Report { id, delivery, outcome: report.outcome, on_done: items, on_dead }
}

/// A fetch from some queues.
pub(crate) fn fetch_from(queues: &[&str], n: usize) -> fetch::Fetch {
    fetch::Fetch {
        queues: queues.iter().map(|queue| (*queue).to_owned()).collect(),
        kinds: None,
        versions: BTreeMap::new(),
        n: Some(n),
        wait: None,
        worker: None,
        lease: None,
        order: fetch::Order::Merged,
    }
}

/// A fetch from all queues.
pub(crate) fn fetch_all(n: usize) -> fetch::Fetch {
    fetch_from(&QUEUES, n)
}

/// The report of a successful job.
pub(crate) fn done_report(held: HeldDelivery) -> FinishReport {
    let request = FinishOne {
        id: held.id.into(),
        delivery: held.delivery.into(),
        outcome: finish::Outcome::Done,
        result: None,
        result_base64: None,
        encoding: None,
        error: None,
        detail: None,
        after: None,
        limit: None,
        until: None,
        costs: BTreeMap::new(),
        retry: None,
        on_done: Vec::new(),
        on_dead: Vec::new(),
    };
    FinishReport {
        request,
        outcome: RecordedOutcome::Done { result: None },
        follow_ups: Vec::new(),
    }
}
