//! Looking at jobs, taking their results, and meddling with them.

use crore_core::{Code, Delivery, JobId};
use crore_testkit::history::answer::{Changed, Look};
use crore_testkit::history::op::Want;
use crore_testkit::history::{Answer, Hash, Op};
use crore_wire::api::act::{Acted, Change};
use crore_wire::api::job::{Ended, Job};
use crore_wire::api::words::State;

use super::{Caller, seen};
use crate::client::{Ask, Heard};

impl Caller {
    /// Looks at a job of which no result is kept, so that what is shown is all that there is.
    pub(crate) async fn look(&mut self, id: JobId) {
        let call = self.begin(Op::Get { id });
        match self.client.call::<Job>(&Ask::get(format!("/v1/jobs/{id}"))).await {
            Heard::Yes(job) => {
                let payload =
                    seen(self.format(), job.payload.as_ref(), job.payload_base64.as_deref());
                let look = Look {
                    state: job.state.into(),
                    attempt: job.attempt,
                    delivery: job.delivery.map_or(Delivery::NONE, Into::into),
                    payload: Hash::of(&payload(job.encoding)),
                    result: None,
                };
                self.answered(call, Answer::Job(Some(look)));
            }
            Heard::No(Code::NotFound, _) => self.answered(call, Answer::Job(None)),
            heard => self.unheard(call, "look", &heard),
        }
    }

    /// Reads a result, and with that takes it away if it can be read once.
    pub(crate) async fn take(&mut self, id: JobId) {
        let call = self.begin(Op::TakeResult { id });
        match self.client.call::<Ended>(&Ask::get(format!("/v1/jobs/{id}/result"))).await {
            Heard::Yes(ended) => {
                let (value, base64) = (ended.result.as_ref(), ended.result_base64.as_deref());
                let result = ended
                    .encoding
                    .map(|encoding| Hash::of(&seen(self.format(), value, base64)(encoding)));
                self.answered(call, Answer::Result(result));
            }
            Heard::No(Code::NotFound, _) => self.answered(call, Answer::Result(None)),
            heard => self.unheard(call, "take", &heard),
        }
    }

    /// Meddles with a job by hand.
    pub(crate) async fn want(&mut self, id: JobId, want: Want) {
        let path = format!("/v1/jobs/{id}");
        let ask = match &want {
            Want::Cancel => Ask { method: "POST", ..Ask::get(path + "/cancel") },
            Want::Retry => Ask { method: "POST", ..Ask::get(path + "/retry") },
            Want::Delete => Ask { method: "DELETE", ..Ask::get(path) },
            Want::Edit { priority, .. } => {
                let change = Change { priority: *priority, ..Change::default() };
                Ask { method: "PATCH", ..Ask::post(&path, self.format(), &change) }
            }
        };
        let cancels = want == Want::Cancel;
        let call = self.begin(Op::Admin { id, want });
        match self.client.call::<Acted>(&ask).await {
            Heard::Yes(acted) => {
                let asked = cancels && acted.state == Some(State::Running);
                let changed = if asked { Changed::Asked } else { Changed::Yes };
                self.answered(call, Answer::Changed(changed));
            }
            Heard::No(Code::NotFound, _) => {
                self.answered(call, Answer::Changed(Changed::Unknown));
            }
            Heard::No(Code::Refused, _) => {
                self.answered(call, Answer::Changed(Changed::Refused));
            }
            heard => self.unheard(call, "change", &heard),
        }
    }
}
