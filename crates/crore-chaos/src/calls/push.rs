//! Pushing one job, perhaps with an idempotency key, or a batch.

use crore_testkit::history::response::RecordedPush;
use crore_testkit::history::{RecordedOp, RecordedResponse};
use crore_wire::Raw;
use crore_wire::api::push::{self, PushedAll};

use super::RecordingCaller;
use crate::client::{ApiRequest, CallResult};
use crate::context::PendingPush;
use crate::draft::JobDraft;

impl RecordingCaller {
    /// Pushes one job; with an idempotency key, the push is repeated until it is answered.
    pub(crate) async fn push(&mut self, draft: JobDraft, key: Option<String>) {
        let draft = if let Some(key) = &key { draft.with_idempotency_key(key) } else { draft };
        let known = self.context.remember(&draft);
        let mut request =
            ApiRequest::post("/v1/jobs", self.format(), &draft.to_request(self.format()));
        request.idempotency_key = key;
        let call =
            self.record_call(RecordedOp::Push { groups: 0, items: vec![draft.to_history_item()] });
        let format = self.format();
        self.send_push(PendingPush { request, format, call, job: known }).await;
    }

    /// Sends a push, for the first time or again.
    pub(crate) async fn send_push(&mut self, push: PendingPush) {
        let result = self.client.call::<push::Pushed>(&push.request).await;
        match result {
            CallResult::Answered(pushed) => {
                let items = vec![self.push_result(&pushed)];
                if let RecordedPush::New(id) = items[0] {
                    self.context.record_pushed(id, push.job);
                }
                self.record_answer(
                    push.call,
                    RecordedResponse::Pushed { groups: Vec::new(), items },
                );
            }
            // A refused repetition does not say whether an earlier attempt had an effect.
            CallResult::Refused(..) | CallResult::Unknown(_)
                if push.request.idempotency_key.is_some() =>
            {
                if let CallResult::Unknown(why) = &result {
                    self.context.check_unanswered("push", why);
                }
                self.context.add_pending_push(push);
            }
            result => self.record_unanswered(push.call, "push", &result),
        }
    }

    /// Pushes a batch.
    pub(crate) async fn push_all(&mut self, drafts: &[JobDraft]) {
        let known: Vec<_> = drafts.iter().map(|draft| self.context.remember(draft)).collect();
        let format = self.format();
        let raw = |draft: &JobDraft| Raw::new(format, format.encode(&draft.to_request(format)));
        let jobs = drafts.iter().map(raw).collect();
        let request =
            ApiRequest::post("/v1/jobs", format, &push::NewJobs { jobs, groups: Vec::new() });
        let items = drafts.iter().map(JobDraft::to_history_item).collect();
        let call = self.record_call(RecordedOp::Push { groups: 0, items });
        match self.client.call::<PushedAll>(&request).await {
            CallResult::Answered(pushed) => {
                let items: Vec<_> =
                    pushed.jobs.iter().map(|pushed| self.push_result(pushed)).collect();
                for (item, known) in items.iter().zip(known) {
                    if let RecordedPush::New(id) = item {
                        self.context.record_pushed(*id, known);
                    }
                }
                self.record_answer(call, RecordedResponse::Pushed { groups: Vec::new(), items });
            }
            result => self.record_unanswered(call, "push", &result),
        }
    }

    pub(super) fn push_result(&self, pushed: &push::Pushed) -> RecordedPush {
        match (pushed.status, pushed.id) {
            (push::PushStatus::New, Some(id)) => RecordedPush::New(id.into()),
            (push::PushStatus::Duplicate, Some(id)) => RecordedPush::Duplicate(id.into()),
            _ => {
                self.context.add_anomaly(format!("a valid job was refused: {pushed:?}"));
                RecordedPush::Broken
            }
        }
    }
}
