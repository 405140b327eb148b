//! Replays: new jobs from the definitions of stored ones.

use crore_core::replay::{self, VersionEdit};
use crore_core::version::VersionRequirement;
use crore_core::{Invalid, Name};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use super::enums::Encoding;
use super::payload::WirePayload;
use super::push::due_time;
use super::retry::double_option;
use crate::units::{Moment, Period};
use crate::{Format, Raw};

/// A replay of a job. Omitted fields have the values of the original; the replay is due now.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Replay {
    /// The new payload, any value; `null` is one.
    #[serde(default, deserialize_with = "any_value", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Raw, required = false)]
    pub payload: Option<Raw>,
    /// The new payload in Base64, instead of `payload`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload_base64: Option<String>,
    /// Encoding of `payload_base64`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
    /// The new queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<super::Name>)]
    pub queue: Option<String>,
    /// The new priority.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Versions of the kind that may run the replay, such as `>=2.3 <3`; `null`: any worker.
    #[serde(default, deserialize_with = "double_option", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, min_length = 2, max_length = 128)]
    pub worker_version: Option<Option<String>>,
    /// Earliest start. Default: now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due: Option<Moment>,
    /// Minimum delay before the start, from now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Period>,
}

/// Deserializes any value, also `null`.
fn any_value<'de, D: Deserializer<'de>>(reader: D) -> Result<Option<Raw>, D::Error> {
    Raw::deserialize(reader).map(Some)
}

impl Replay {
    /// Converts to the core type.
    pub fn read(self, format: Format) -> Result<replay::ReplayEdits, Invalid> {
        let Self { payload, payload_base64, encoding, queue, priority, worker_version, due, delay } =
            self;
        let payload = WirePayload { value: payload, base64: payload_base64, encoding };
        let others = ReplayAll { queue, priority, worker_version, due, delay };
        Ok(replay::ReplayEdits { payload: payload.read("payload", format)?, ..others.read()? })
    }
}

/// The edits of replays of many jobs. Omitted fields have the values of the originals; the replays are due now.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplayAll {
    /// The new queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<super::Name>)]
    pub queue: Option<String>,
    /// The new priority.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Versions of the kind that may run the replays, such as `>=2.3 <3`; `null`: any worker.
    #[serde(default, deserialize_with = "double_option", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, min_length = 2, max_length = 128)]
    pub worker_version: Option<Option<String>>,
    /// Earliest start. Default: now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due: Option<Moment>,
    /// Minimum delay before the start, from now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Period>,
}

impl ReplayAll {
    /// Converts to the core type.
    pub fn read(&self) -> Result<replay::ReplayEdits, Invalid> {
        let queue = self.queue.as_deref().map(|queue| Name::new("queue", queue)).transpose()?;
        let worker_version = version_edit(self.worker_version.as_ref().map(Option::as_deref))?;
        let due = due_time(self.due, self.delay)?;
        Ok(replay::ReplayEdits {
            payload: None,
            queue,
            priority: self.priority,
            worker_version,
            due,
        })
    }
}

/// The edit of a version requirement: absent, any worker, or a text.
pub(crate) fn version_edit(text: Option<Option<&str>>) -> Result<VersionEdit, Invalid> {
    match text {
        None => Ok(VersionEdit::Keep),
        Some(None) => Ok(VersionEdit::Any),
        Some(Some(text)) => {
            let required = VersionRequirement::parse("worker_version", text)?;
            Ok(VersionEdit::Require(Box::new(required)))
        }
    }
}

#[cfg(test)]
mod tests {
    use crore_core::Payload;
    use crore_core::job::DueTime;
    use crore_core::{Code, Span};

    use super::*;

    fn read(text: &str) -> Result<replay::ReplayEdits, Invalid> {
        let replay: Replay = Format::Json.decode(text.as_bytes())?;
        replay.read(Format::Json)
    }

    #[test]
    fn absent_fields_are_kept_and_null_removes_the_version() {
        assert_eq!(read("{}"), Ok(replay::ReplayEdits::default()));
        let any = read(r#"{"worker_version": null, "payload": null}"#).unwrap();
        assert_eq!(any.worker_version, VersionEdit::Any);
        assert_eq!(any.payload, Some(Payload::json("null")));
        let all = r#"{"payload": [1], "queue": "q", "priority": -1, "delay": "5s"}"#;
        let all = read(all).unwrap();
        assert_eq!(all.payload, Some(Payload::json("[1]")));
        assert_eq!((all.priority, all.due), (Some(-1), Some(DueTime::After(Span::from_secs(5)))));
    }

    #[test]
    fn errors_name_their_field() {
        for (text, code, field) in [
            (r#"{"queue": ""}"#, Code::NameEmpty, "queue"),
            (r#"{"worker_version": "2"}"#, Code::VersionRequirement, "worker_version"),
            (r#"{"payload": 1, "payload_base64": "AA=="}"#, Code::Malformed, "payload"),
            (r#"{"payload_base64": "%"}"#, Code::Malformed, "payload_base64"),
            (r#"{"due": "2026-11-18T00:00:00Z", "delay": "1s"}"#, Code::Malformed, "delay"),
            (r#"{"kind": "k"}"#, Code::FieldUnknown, "kind"),
        ] {
            let error = read(text).unwrap_err();
            assert_eq!((error.code, error.field.as_str()), (code, field), "{text}");
        }
    }
}
