//! Payloads and results: as JSON, as text, or as Base64. Programs often store JSON as plain bytes, which is shown as
//! JSON too.

use std::borrow::Cow;

use crore_core::{Code, Encoding, Invalid, Payload};
use crore_wire::api::payload::WirePayload;
use crore_wire::{Format, Raw};
use maud::{Markup, html};
use serde_json::value::RawValue;

use super::format::excerpt;
use super::json_tree::tree;
use crate::text::Texts;

/// Characters of a payload in Base64 that are shown.
const MAX_BASE64: usize = 4000;
/// Maximum depth of indented lines, so that a deep payload does not become large.
const MAX_INDENT: usize = 20;

/// A payload in the form in which people read it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ReadablePayload<'a> {
    /// One JSON value.
    Json(Cow<'a, str>),
    /// Text.
    Text(&'a str),
    /// Anything else, in Base64.
    Base64(String),
}

impl<'a> ReadablePayload<'a> {
    pub(crate) fn of(payload: &'a Payload) -> Self {
        let text = match payload.encoding {
            Encoding::Msgpack => None,
            Encoding::Json | Encoding::Protobuf | Encoding::Text | Encoding::Bytes => {
                std::str::from_utf8(&payload.bytes).ok()
            }
        };
        let is_readable = payload.encoding != Encoding::Protobuf;
        if let Some(text) = text.filter(|_| is_readable) {
            return match serde_json::from_str::<&RawValue>(text) {
                Ok(_) => Self::Json(Cow::Borrowed(text)),
                Err(_) => Self::Text(text),
            };
        }
        let shown = WirePayload::of(payload, Format::Json);
        let json = shown.value.and_then(|raw| String::from_utf8(raw.bytes().to_vec()).ok());
        match json {
            Some(json) => Self::Json(Cow::Owned(json)),
            None => Self::Base64(shown.base64.unwrap_or_default()),
        }
    }

    /// Shows the payload.
    pub(crate) fn show(&self, text: &Texts) -> Markup {
        match self {
            Self::Json(json) => tree(text, json),
            Self::Text(plain) => tree(text, plain),
            Self::Base64(base64) => html! {
                p.hint { (text.shown_as_base64) }
                pre.tree { (excerpt(base64, MAX_BASE64)) }
            },
        }
    }

    /// The text to edit, with line breaks; `None`: it cannot be edited.
    pub(crate) fn editable(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Json(json) => Some(Cow::Owned(pretty(json))),
            Self::Text(plain) => Some(Cow::Borrowed(plain)),
            Self::Base64(_) => None,
        }
    }
}

/// The payload that was edited to `text`; `None`: it was not changed.
pub(crate) fn edited(original: &Payload, text: &str) -> Result<Option<Payload>, Invalid> {
    // Browsers send line breaks as two characters.
    let text = text.replace("\r\n", "\n");
    let readable = ReadablePayload::of(original);
    if readable.editable().is_some_and(|before| before.trim() == text.trim()) {
        return Ok(None);
    }
    let is_json = matches!(readable, ReadablePayload::Json(_));
    let encoding = match original.encoding {
        Encoding::Text | Encoding::Bytes => original.encoding,
        Encoding::Json | Encoding::Msgpack | Encoding::Protobuf => Encoding::Json,
    };
    if is_json || encoding == Encoding::Json {
        let wrong = |error: serde_json::Error| {
            Invalid::new(Code::PayloadMalformed, "payload", format!("is not JSON: {error}"))
        };
        serde_json::from_str::<&RawValue>(&text).map_err(wrong)?;
    }
    match encoding {
        Encoding::Json => {
            Raw::new(Format::Json, text.trim().as_bytes()).into_payload("payload").map(Some)
        }
        encoding => Ok(Some(Payload::new(encoding, text.trim().as_bytes()))),
    }
}

/// JSON with line breaks. Numbers and the order of members stay as they are.
fn pretty(json: &str) -> String {
    let (mut out, mut depth) = (String::with_capacity(json.len() * 2), 0_usize);
    let (mut in_text, mut is_escaped) = (false, false);
    let mut chars = json.chars().peekable();
    while let Some(c) = chars.next() {
        if in_text {
            out.push(c);
            in_text = c != '"' || is_escaped;
            is_escaped = c == '\\' && !is_escaped;
            continue;
        }
        match c {
            '"' => {
                in_text = true;
                out.push(c);
            }
            '{' | '[' => {
                out.push(c);
                while chars.next_if(char::is_ascii_whitespace).is_some() {}
                // An empty object or array stays on its line.
                if chars.peek().is_some_and(|next| !matches!(next, '}' | ']')) {
                    depth += 1;
                    break_line(&mut out, depth);
                } else {
                    out.extend(chars.next());
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                break_line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                break_line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            c if c.is_ascii_whitespace() => {}
            c => out.push(c),
        }
    }
    out
}

fn break_line(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n("  ", depth.min(MAX_INDENT)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_are_readable_in_any_encoding() {
        let of = |encoding, bytes: &[u8]| {
            format!("{:?}", ReadablePayload::of(&Payload::new(encoding, bytes)))
        };
        assert_eq!(of(Encoding::Json, b"[1]"), r#"Json("[1]")"#);
        assert_eq!(of(Encoding::Bytes, b"{\"a\":1}"), r#"Json("{\"a\":1}")"#);
        assert_eq!(of(Encoding::Msgpack, &[0x91, 1]), r#"Json("[1]")"#);
        assert_eq!(of(Encoding::Text, b"hi there"), r#"Text("hi there")"#);
        assert_eq!(of(Encoding::Bytes, &[0xff]), r#"Base64("/w==")"#);
        assert_eq!(of(Encoding::Protobuf, b"1"), r#"Base64("MQ==")"#);
    }

    #[test]
    fn line_breaks_change_nothing_else() {
        let json = r#"{"b": [1e400,{}, [ ]],"a":"x, {\"}\\","n":-1}"#;
        let expected = "{\n  \"b\": [\n    1e400,\n    {},\n    []\n  ],\n  \"a\": \"x, {\\\"}\\\\\",\n  \"n\": -1\n}";
        assert_eq!(pretty(json), expected);
        assert_eq!(pretty(expected), expected);
    }

    #[test]
    fn an_edit_keeps_the_encoding_and_checks_json() {
        let json = Payload::json(r#"{"a":1}"#);
        assert_eq!(edited(&json, "{\r\n  \"a\": 1\r\n}"), Ok(None));
        assert_eq!(edited(&json, "[2]"), Ok(Some(Payload::json("[2]"))));
        assert_eq!(edited(&json, "[2").unwrap_err().field, "payload");
        assert!(edited(&json, r#"{"a":1,"a":2}"#).is_err(), "parsers could read it differently");
        let text = Payload::new(Encoding::Text, *b"hi");
        assert_eq!(edited(&text, "ho"), Ok(Some(Payload::new(Encoding::Text, *b"ho"))));
        let bytes = Payload::new(Encoding::Bytes, *b"{}");
        assert!(edited(&bytes, "{").is_err());
        let large = Payload::json("[100000000000000000000000001]");
        assert_eq!(edited(&large, "[\n  100000000000000000000000001\n]"), Ok(None));
    }
}
