//! Reading jobs, taking their results, and administrative changes.

use crore_core::{Code, Delivery, JobId};
use crore_testkit::history::op::AdminAction;
use crore_testkit::history::response::{RecordedChange, RecordedJob};
use crore_testkit::history::{PayloadHash, RecordedOp, RecordedResponse};
use crore_wire::api::act::{Acted, Change};
use crore_wire::api::enums::State;
use crore_wire::api::job::{Ended, Job};

use super::{RecordingCaller, original_payload};
use crate::client::{ApiRequest, CallResult};

impl RecordingCaller {
    /// Reads a job whose result is discarded: the recorded answer says that it has none.
    pub(crate) async fn get_job(&mut self, id: JobId) {
        let call = self.record_call(RecordedOp::Get { id });
        match self.client.call::<Job>(&ApiRequest::get(format!("/v1/jobs/{id}"))).await {
            CallResult::Answered(job) => {
                let payload = original_payload(
                    self.format(),
                    job.payload.as_ref(),
                    job.payload_base64.as_deref(),
                );
                let look = RecordedJob {
                    state: job.state.into(),
                    attempt: job.attempt,
                    delivery: job.delivery.map_or(Delivery::NONE, Into::into),
                    payload: PayloadHash::of(&payload(job.encoding)),
                    result: None,
                };
                self.record_answer(call, RecordedResponse::Job(Some(look)));
            }
            CallResult::Refused(Code::NotFound, _) => {
                self.record_answer(call, RecordedResponse::Job(None));
            }
            other => self.record_unanswered(call, "look", &other),
        }
    }

    /// Reads a result; this removes a result that can be read once.
    pub(crate) async fn take_result(&mut self, id: JobId) {
        let call = self.record_call(RecordedOp::TakeResult { id });
        match self.client.call::<Ended>(&ApiRequest::get(format!("/v1/jobs/{id}/result"))).await {
            CallResult::Answered(ended) => {
                let (value, base64) = (ended.result.as_ref(), ended.result_base64.as_deref());
                let result = ended.encoding.map(|encoding| {
                    PayloadHash::of(&original_payload(self.format(), value, base64)(encoding))
                });
                self.record_answer(call, RecordedResponse::Result(result));
            }
            CallResult::Refused(Code::NotFound, _) => {
                self.record_answer(call, RecordedResponse::Result(None));
            }
            other => self.record_unanswered(call, "take", &other),
        }
    }

    /// Cancels, retries, deletes or edits a job.
    pub(crate) async fn change_job(&mut self, id: JobId, action: AdminAction) {
        let path = format!("/v1/jobs/{id}");
        let request = match &action {
            AdminAction::Cancel => {
                ApiRequest { method: "POST", ..ApiRequest::get(path + "/cancel") }
            }
            AdminAction::Retry => ApiRequest { method: "POST", ..ApiRequest::get(path + "/retry") },
            AdminAction::Delete => ApiRequest { method: "DELETE", ..ApiRequest::get(path) },
            AdminAction::Edit { priority, .. } => {
                let change = Change { priority: *priority, ..Change::default() };
                ApiRequest { method: "PATCH", ..ApiRequest::post(&path, self.format(), &change) }
            }
        };
        let cancels = action == AdminAction::Cancel;
        let call = self.record_call(RecordedOp::Admin { id, want: action });
        match self.client.call::<Acted>(&request).await {
            CallResult::Answered(acted) => {
                let asked = cancels && acted.state == Some(State::Running);
                let changed = if asked { RecordedChange::Asked } else { RecordedChange::Yes };
                self.record_answer(call, RecordedResponse::Changed(changed));
            }
            CallResult::Refused(Code::NotFound, _) => {
                self.record_answer(call, RecordedResponse::Changed(RecordedChange::Unknown));
            }
            CallResult::Refused(Code::Refused, _) => {
                self.record_answer(call, RecordedResponse::Changed(RecordedChange::Refused));
            }
            other => self.record_unanswered(call, "change", &other),
        }
    }
}
