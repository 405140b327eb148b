//! API calls, recorded in the history.
//!
//! A call is recorded before it is sent and again when its response has arrived. A refused call has no effect; the
//! effect of a call without a response is unknown.

mod inspect;
mod push;
mod work;

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crore_core::Payload;
use crore_testkit::history::{PendingCall, RecordedOp, RecordedResponse};
use crore_wire::api::enums::Encoding;
use crore_wire::{Format, Raw};

pub(crate) use self::work::{FinishReport, done_report, fetch_all, fetch_from};
use crate::client::{CallResult, ChaosClient};
use crate::context::ChaosContext;

/// A named client whose calls are recorded.
#[derive(Debug)]
pub(crate) struct RecordingCaller {
    pub(crate) name: String,
    pub(crate) context: Arc<ChaosContext>,
    pub(crate) client: ChaosClient,
}

impl RecordingCaller {
    fn record_call(&self, op: RecordedOp) -> PendingCall {
        self.context.recorder.invoke(self.name.as_str(), op)
    }

    fn format(&self) -> Format {
        self.client.format
    }

    /// Records the end of a call that was refused or not answered.
    fn record_unanswered<T>(&self, call: PendingCall, what: &str, result: &CallResult<T>) {
        match result {
            CallResult::Answered(_) => {}
            CallResult::Refused(_, why) => self.context.recorder.fail(call, why.as_str()),
            CallResult::Unknown(why) => {
                self.context.check_unanswered(what, why);
                self.context.recorder.info(call, why.as_str());
            }
        }
    }

    fn record_answer(&self, call: PendingCall, response: RecordedResponse) {
        self.context.record_answer(call, response);
    }
}

/// Restores a payload to the bytes that were pushed; a response shows it as a value in its own encoding or as base64.
fn original_payload<'a>(
    format: Format,
    value: Option<&'a Raw>,
    base64: Option<&'a str>,
) -> impl FnOnce(Encoding) -> Payload + 'a {
    move |encoding| {
        let encoding = crore_core::Encoding::from(encoding);
        let from = [Format::Json, Format::Msgpack].into_iter().find(|f| f.encoding() == encoding);
        let bytes = match (value, base64) {
            (Some(value), _) => from
                .and_then(|from| Raw::new(format, value.bytes()).convert(from))
                .map(|raw| raw.bytes().to_vec()),
            (None, Some(text)) => STANDARD.decode(text).ok(),
            (None, None) => None,
        };
        Payload::new(encoding, bytes.unwrap_or_default())
    }
}
