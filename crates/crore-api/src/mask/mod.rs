//! Masked fields: the values of payload fields that people must not see, by the names of the fields.
//!
//! A payload is masked where a reader gets it, over every door, whatever the reader's scopes; a worker gets the payload as
//! it was pushed. A masked field cannot be tested by a filter, indexed, or used as the key of a limit or of a fair share:
//! each of them would tell its value.

mod json;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crore_core::event::{EventWait, ReceivedEvent};
use crore_core::handler::secrets::MASK;
use crore_core::{Code, Encoding, Invalid, Job, NewJob, Payload, SearchFilter};
use crore_wire::{Format, Raw};
use serde::de::IgnoredAny;

use json::{masked_members, with_values};

/// The mask as JSON.
const MASK_JSON: &str = "\"***\"";
/// Maximum length of a name, in bytes.
const MAX_NAME: usize = 256;

/// The name of a masked field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaskedField(Box<str>);

impl FromStr for MaskedField {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "" => Err("the name of a field is empty".to_owned()),
            text if text.len() > MAX_NAME => {
                Err(format!("the name of a field has more than {MAX_NAME} bytes"))
            }
            text if text.starts_with("payload.") => Err(format!(
                "`{text}` is a path; write the name of the field, such as `{}`: it is masked at any depth",
                text.rsplit('.').next().unwrap_or_default()
            )),
            text => Ok(Self(text.into())),
        }
    }
}

impl fmt::Display for MaskedField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The masked fields of a server.
#[derive(Debug, Clone, Default)]
pub(crate) struct FieldMask {
    fields: Vec<MaskedField>,
}

impl FieldMask {
    pub(crate) fn new(fields: &[MaskedField]) -> Self {
        Self { fields: fields.to_vec() }
    }

    /// Whether fields with this name are masked. The case of ASCII letters is ignored.
    pub(crate) fn covers(&self, name: &str) -> bool {
        self.fields.iter().any(|field| field.0.eq_ignore_ascii_case(name))
    }

    /// Masks the payloads of a job.
    pub(crate) fn mask_job(&self, job: &mut Job) {
        if self.fields.is_empty() {
            return;
        }
        let payload = self.masked(&job.spec.payload);
        let is_changed = !Arc::ptr_eq(&payload.bytes, &job.spec.payload.bytes);
        if is_changed || job.spec.on_expired.is_some() {
            let spec = Arc::make_mut(&mut job.spec);
            spec.payload = payload;
            spec.on_expired.iter_mut().for_each(|next| self.mask_new_job(next));
        }
        if let Some(EventWait::Received(ReceivedEvent { payload: Some(payload), .. })) =
            job.live.event.as_deref_mut()
        {
            *payload = self.masked(payload);
        }
    }

    /// Masks the payloads of a job to push.
    pub(crate) fn mask_new_job(&self, job: &mut NewJob) {
        if self.fields.is_empty() {
            return;
        }
        job.spec.payload = self.masked(&job.spec.payload);
        if let Some(next) = &mut job.spec.on_expired {
            next.spec.payload = self.masked(&next.spec.payload);
        }
    }

    /// A payload with the values of masked fields replaced. Plain text, Protobuf and bytes that are not JSON have no
    /// fields, and stay.
    pub(crate) fn masked(&self, payload: &Payload) -> Payload {
        if self.fields.is_empty() {
            return payload.clone();
        }
        let Some(text) = json_text(payload) else {
            return match payload.encoding {
                Encoding::Json | Encoding::Msgpack => hidden(payload.encoding),
                Encoding::Text | Encoding::Protobuf | Encoding::Bytes => payload.clone(),
            };
        };
        let members = masked_members(&text, |name| self.covers(name));
        match members.is_empty() {
            true => payload.clone(),
            false => encoded(with_values(&text, &members, |_| Some(MASK_JSON)), payload.encoding),
        }
    }

    /// The payload that a caller means who has read `original`, and sends it back changed: a mask in the place of a masked
    /// field stands for the value of the original.
    pub(crate) fn restored(&self, sent: Payload, original: &Payload) -> Payload {
        if self.fields.is_empty() {
            return sent;
        }
        let (Some(text), Some(before)) = (json_text(&sent), json_text(original)) else {
            return sent;
        };
        let members = masked_members(&text, |name| self.covers(name));
        let originals = masked_members(&before, |name| self.covers(name));
        let is_mask = members.iter().any(|member| member.value(&text) == MASK_JSON);
        if !is_mask {
            return sent;
        }
        let value = |member: &json::MaskedMember| {
            let is_mask = member.value(&text) == MASK_JSON;
            member.twin(&originals).filter(|_| is_mask).map(|twin| twin.value(&before))
        };
        encoded(with_values(&text, &members, value), sent.encoding)
    }

    /// Refuses a filter that tests a masked field: the result would tell its value.
    pub(crate) fn check_filter(&self, field: &str, filter: &SearchFilter) -> Result<(), Invalid> {
        self.check_names(field, filter.payload_names())
    }

    /// Refuses the use of a masked field, by the names in its path.
    pub(crate) fn check_names<'n>(
        &self,
        field: &str,
        mut names: impl Iterator<Item = &'n str>,
    ) -> Result<(), Invalid> {
        match names.find(|name| self.covers(name)) {
            Some(name) => Err(Invalid::new(
                Code::FieldMasked,
                field,
                format!("`{name}` is a masked field (see `access.mask`); use another one"),
            )),
            None => Ok(()),
        }
    }
}

/// A payload that is hidden as a whole.
fn hidden(encoding: Encoding) -> Payload {
    encoded(format!("\"{MASK}\""), encoding)
}

/// A payload as JSON, if it is JSON or can be represented in it.
fn json_text(payload: &Payload) -> Option<String> {
    match payload.encoding {
        Encoding::Msgpack => {
            let raw = Raw::new(Format::Msgpack, payload.bytes.clone()).convert(Format::Json)?;
            String::from_utf8(raw.bytes().to_vec()).ok()
        }
        Encoding::Json | Encoding::Text | Encoding::Bytes => {
            let text = std::str::from_utf8(&payload.bytes).ok()?;
            serde_json::from_str::<IgnoredAny>(text).ok().map(|_| text.to_owned())
        }
        Encoding::Protobuf => None,
    }
}

/// A JSON text in another encoding.
fn encoded(text: String, encoding: Encoding) -> Payload {
    if encoding == Encoding::Msgpack
        && let Some(raw) = Raw::new(Format::Json, text.as_bytes()).convert(Format::Msgpack)
    {
        return Payload::new(encoding, raw.bytes());
    }
    Payload::new(encoding, text.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask() -> FieldMask {
        FieldMask::new(&["card".parse().expect("a name"), "Token".parse().expect("a name")])
    }

    fn packed(json: &str) -> Payload {
        encoded(json.to_owned(), Encoding::Msgpack)
    }

    #[test]
    fn a_payload_is_masked_in_any_encoding_that_has_fields() {
        let secret = r#"{"card":"4111","to":{"TOKEN":7}}"#;
        let shown = r#"{"card":"***","to":{"TOKEN":"***"}}"#;
        for encoding in [Encoding::Json, Encoding::Text, Encoding::Bytes] {
            let masked = mask().masked(&Payload::new(encoding, secret.as_bytes()));
            assert_eq!(masked, Payload::new(encoding, shown.as_bytes()));
        }
        assert_eq!(mask().masked(&packed(secret)), packed(shown));
        let same = Payload::new(Encoding::Bytes, *b"\xff card");
        assert_eq!(mask().masked(&same), same);
        // MessagePack with bytes is not representable: it is hidden as a whole.
        let odd = Payload::new(Encoding::Msgpack, [0x81, 0xa4, b'c', b'a', b'r', b'd', 0xc4, 1, 9]);
        assert_eq!(mask().masked(&odd), packed("\"***\""));
        assert_eq!(mask().masked(&Payload::json("{")), Payload::json("\"***\""));
        let secret = Payload::json(secret);
        assert_eq!(FieldMask::default().masked(&secret), secret);
    }

    #[test]
    fn a_mask_that_comes_back_stands_for_the_value() {
        let original = Payload::json(r#"{"card":"4111","to":"ada","list":[{"token":1}]}"#);
        let restored = |sent: &str| mask().restored(Payload::json(sent), &original);
        assert_eq!(
            restored(r#"{"to":"eve","card":"***","list":[{"token":"***"}]}"#),
            Payload::json(r#"{"to":"eve","card":"4111","list":[{"token":1}]}"#)
        );
        // A new value replaces it, and a mask elsewhere reads nothing.
        for sent in [
            r#"{"card":"4222"}"#,
            r#"{"to":"***"}"#,
            r#"{"copy":{"card":"***"}}"#,
            r#"{"list":[{},{"token":"***"}]}"#,
        ] {
            assert_eq!(restored(sent), Payload::json(sent));
        }
        let sent = mask().restored(packed(r#"{"card":"***"}"#), &original);
        assert_eq!(sent, packed(r#"{"card":"4111"}"#));
    }

    #[test]
    fn a_masked_field_cannot_be_tested_or_used_as_a_key() {
        for (q, is_ok) in [
            ("payload.card=4111", false),
            ("-payload.order.Card~41", false),
            ("payload.items[0].token>1", false),
            ("payload.token.part=1", false),
            ("payload.to=card error~card", true),
        ] {
            let filter = SearchFilter::parse("q", q).expect("a filter");
            let checked = mask().check_filter("q", &filter);
            assert_eq!(
                checked.as_ref().err().map(|fault| fault.code),
                (!is_ok).then_some(Code::FieldMasked),
                "{q}"
            );
        }
    }

    #[test]
    fn a_name_is_not_a_path() {
        assert!("".parse::<MaskedField>().is_err());
        let why = "payload.order.card".parse::<MaskedField>().expect_err("a path");
        assert!(why.contains("such as `card`"), "{why}");
    }
}
