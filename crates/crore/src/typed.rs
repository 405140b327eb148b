//! Payloads and results as serde types, stored as JSON (feature `typed`).
//!
//! ```
//! use std::time::Duration;
//!
//! use crore::core::Span;
//! use crore::{Engine, Json, Work, block_on};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Mail {
//!     to: String,
//!     text: String,
//! }
//!
//! # fn main() -> Result<(), crore::Error> {
//! let engine = Engine::memory();
//! let mail = Mail { to: "ada@example.org".into(), text: "hello".into() };
//! let id = engine.push_json("mail", &mail).keep_result(Duration::from_secs(60)).wait()?;
//!
//! engine.pop_blocking("mail", |work: &Work<'_>| {
//!     let mail: Mail = work.json()?;
//!     Ok::<_, crore::Error>(Json(mail.text.len()))
//! })?;
//!
//! let ended = block_on(engine.wait(id, Span::from_secs(1)))?.expect("it has ended");
//! assert_eq!(ended.json::<usize>()?, Some(5));
//! # Ok(())
//! # }
//! ```

use crore_core::{Code, Encoding, Invalid, Payload};
use serde::{Deserialize, Serialize};

use crate::engine::Engine;
use crate::error::Error;
use crate::pop::{JobOutput, Work};
use crate::push_builder::Push;
use crate::results::EndedJob;

/// A result to be stored as JSON. A value that cannot be serialized makes the run fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Json<T>(
    /// The value.
    pub T,
);

impl<T: Serialize> JobOutput for Json<T> {
    fn payload(&self) -> Result<Option<Payload>, Invalid> {
        to_payload("result", &self.0).map(Some)
    }
}

impl Engine {
    /// Pushes a job whose payload is a value, serialized as JSON: `engine.push_json("mail", &mail).await?`.
    pub fn push_json<T: Serialize + ?Sized>(&self, queue: &str, value: &T) -> Push<'_> {
        match to_payload("payload", value) {
            Ok(payload) => self.push_payload(queue, payload),
            Err(invalid) => Push::refused(self, invalid),
        }
    }
}

impl Work<'_> {
    /// Deserializes the payload from JSON.
    pub fn json<'a, T: Deserialize<'a>>(&'a self) -> Result<T, Error> {
        from_payload("payload", &self.spec.payload)
    }
}

impl EndedJob {
    /// Deserializes the result from JSON; `None`: there is no result.
    pub fn json<'a, T: Deserialize<'a>>(&'a self) -> Result<Option<T>, Error> {
        self.result.as_ref().map(|payload| from_payload("result", payload)).transpose()
    }
}

fn to_payload<T: Serialize + ?Sized>(field: &str, value: &T) -> Result<Payload, Invalid> {
    match serde_json::to_vec(value) {
        Ok(bytes) => Ok(Payload::new(Encoding::Json, bytes)),
        Err(error) => {
            let message = format!("cannot be written as JSON: {error}");
            Err(Invalid::new(Code::PayloadMalformed, field, message))
        }
    }
}

fn from_payload<'a, T: Deserialize<'a>>(field: &str, payload: &'a Payload) -> Result<T, Error> {
    serde_json::from_slice(&payload.bytes).map_err(|error| {
        let message = format!("cannot be read as the expected type: {error}");
        Invalid::new(Code::PayloadMalformed, field, message).into()
    })
}

#[cfg(test)]
#[expect(clippy::expect_used, reason = "tests may panic")]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Mail<'a> {
        to: &'a str,
        copies: u32,
    }

    /// JSON has no map whose keys are lists.
    fn unwritable() -> BTreeMap<Vec<u8>, u8> {
        BTreeMap::from([(vec![1], 1)])
    }

    #[test]
    fn a_payload_is_delivered_as_it_was_pushed() {
        let engine = Engine::memory();
        let mail = Mail { to: "ada@example.org", copies: 2 };
        engine.push_json("mail", &mail).wait().expect("pushed");
        let ran = engine.pop_blocking("mail", |work: &Work<'_>| {
            assert_eq!(work.json::<Mail<'_>>()?, mail);
            Ok::<_, Error>(())
        });
        ran.expect("no error").expect("one").expect("it succeeds");
    }

    #[test]
    fn an_unserializable_payload_is_refused_with_its_field() {
        let engine = Engine::memory();
        let error = engine.push_json("mail", &unwritable()).kind("x").wait().expect_err("refused");
        assert_eq!(error.code(), Code::PayloadMalformed);
        assert!(error.to_string().starts_with("payload: cannot be written as JSON"), "{error}");
    }

    #[test]
    fn an_unexpected_payload_fails_the_run_with_its_field() {
        let engine = Engine::memory();
        engine.push_json("mail", &BTreeMap::from([("to", "ada")])).wait().expect("pushed");
        let ran =
            engine.pop_blocking("mail", |work: &Work<'_>| work.json::<Mail<'_>>().map(|_| ()));
        let error = ran.expect("no error").expect("one").expect_err("a field is missing");
        assert!(error.to_string().starts_with("payload: "), "{error}");
        assert!(error.to_string().contains("missing field `copies`"), "{error}");
    }

    #[test]
    fn an_unserializable_result_fails_the_run() {
        let engine = Engine::memory();
        let id = engine.push("q", "").attempts(1).wait().expect("pushed");
        let ran = engine.pop_blocking("q", |_: &Work<'_>| Ok::<_, Error>(Json(unwritable())));
        assert!(ran.expect_err("refused").to_string().starts_with("result: "));
        let job = crate::block_on(engine.get(id)).expect("no error").expect("kept");
        assert_eq!(job.live.state, crore_core::State::Dead);
        let error = job.live.history.first().and_then(|attempt| attempt.error.clone());
        assert!(error.expect("a reason").starts_with("result: cannot be written"));
    }

    #[test]
    fn a_result_that_is_too_large_fails_the_run_and_the_worker_continues() {
        let engine = Engine::memory();
        let id = engine.push("q", "").attempts(1).wait().expect("pushed");
        engine.push("q", "").wait().expect("pushed");
        let worker = engine.worker(["q"]);
        let stop = worker.stopper();
        let ran = worker.run_blocking(|work: &Work<'_>| {
            if work.id != id {
                stop.stop();
            }
            let n = if work.id == id { engine.inner.caps.result_bytes + 1 } else { 1 };
            Ok::<_, Error>(vec![0; n])
        });
        assert_eq!(ran.expect("no error"), 2);
        let job = crate::block_on(engine.get(id)).expect("no error").expect("kept");
        assert_eq!(job.live.state, crore_core::State::Dead);
    }
}
