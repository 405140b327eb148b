//! What one can ask a server, and how the question and its answer are written down.
//!
//! A call is recorded before it is sent and when its answer came. One that was refused in so many words
//! has no effect; of one without an answer nobody knows.

mod look;
mod push;
mod work;

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crore_core::Payload;
use crore_testkit::history::{Answer, Op, Pending};
use crore_wire::api::words::Encoding;
use crore_wire::{Format, Raw};

pub(crate) use self::work::{Report, done, fetch_all, fetch_from};
use crate::client::{Client, Heard};
use crate::desk::Desk;

/// Somebody who asks: a name, a connection, and what all share.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) name: String,
    pub(crate) desk: Arc<Desk>,
    pub(crate) client: Client,
}

impl Caller {
    fn begin(&self, op: Op) -> Pending {
        self.desk.recorder.invoke(self.name.as_str(), op)
    }

    fn format(&self) -> Format {
        self.client.format
    }

    /// Writes down how a call ended, if not by an answer.
    fn unheard<T>(&self, call: Pending, what: &str, heard: &Heard<T>) {
        match heard {
            Heard::Yes(_) => {}
            Heard::No(_, why) => self.desk.recorder.fail(call, why.as_str()),
            Heard::Nothing(why) => {
                self.desk.heard_nothing(what, why);
                self.desk.recorder.info(call, why.as_str());
            }
        }
    }

    fn answered(&self, call: Pending, answer: Answer) {
        self.desk.answered(call, answer);
    }
}

/// A payload as its pusher gave it, from how it is shown: as a value of the encoding of the answer, or as
/// bytes.
fn seen<'a>(
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
