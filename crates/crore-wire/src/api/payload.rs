//! Payloads and results: any value in the format of the body, or Base64-encoded bytes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crore_core::{Code, Encoding, Invalid, Payload};

use crate::api::enums;
use crate::{Format, Raw};

/// The three fields that carry a payload.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WirePayload {
    /// Any value.
    pub value: Option<Raw>,
    /// Base64-encoded bytes.
    pub base64: Option<String>,
    /// Encoding of the bytes.
    pub encoding: Option<enums::Encoding>,
}

impl WirePayload {
    /// Converts to a payload, if one is set; `field` is the name of the field that holds the value.
    pub fn read(self, field: &str, format: Format) -> Result<Option<Payload>, Invalid> {
        let malformed = |field: &str, why: String| Err(Invalid::new(Code::Malformed, field, why));
        let encoding = self.encoding.map(Encoding::from);
        match (self.value, self.base64) {
            (Some(_), Some(_)) => {
                malformed(field, format!("either `{field}` or `{field}_base64`, not both"))
            }
            (Some(value), None) => match encoding {
                Some(encoding) if encoding != format.encoding() => malformed(
                    "encoding",
                    format!(
                        "a value in a {format} body is {format}; use `{field}_base64` for others"
                    ),
                ),
                _ => value.into_payload(field).map(Some),
            },
            (None, Some(text)) => match STANDARD.decode(text) {
                Ok(bytes) => Ok(Some(Payload::new(encoding.unwrap_or(Encoding::Bytes), bytes))),
                Err(error) => malformed(&format!("{field}_base64"), format!("not Base64: {error}")),
            },
            (None, None) if encoding.is_some_and(|encoding| encoding != format.encoding()) => {
                malformed("encoding", format!("`encoding` needs `{field}_base64`"))
            }
            (None, None) => Ok(None),
        }
    }

    /// The fields for a payload in a body of this format: as a value if possible, else as Base64.
    pub fn of(payload: &Payload, format: Format) -> Self {
        let from = match payload.encoding {
            Encoding::Json => Some(Format::Json),
            Encoding::Msgpack => Some(Format::Msgpack),
            Encoding::Protobuf | Encoding::Text | Encoding::Bytes => None,
        };
        let value = from.and_then(|from| Raw::new(from, payload.bytes.clone()).convert(format));
        let encoding = Some(payload.encoding.into());
        match value {
            Some(_) => Self { value, base64: None, encoding },
            None => Self { value: None, base64: Some(STANDARD.encode(&payload.bytes)), encoding },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire_payload(
        value: Option<&[u8]>,
        base64: Option<&str>,
        encoding: Option<enums::Encoding>,
    ) -> WirePayload {
        let value = value.map(|bytes| Raw::new(Format::Json, bytes));
        WirePayload { value, base64: base64.map(str::to_owned), encoding }
    }

    #[test]
    fn a_payload_is_a_value_or_bytes() {
        let read = |fields: WirePayload| fields.read("payload", Format::Json);
        let is = |fields, encoding, bytes: &[u8]| {
            assert_eq!(read(fields), Ok(Some(Payload::new(encoding, bytes))));
        };
        is(wire_payload(Some(b"[1]"), None, None), Encoding::Json, b"[1]");
        is(wire_payload(None, Some("AAE="), None), Encoding::Bytes, &[0, 1]);
        is(wire_payload(None, Some("aGk="), Some(enums::Encoding::Text)), Encoding::Text, b"hi");
        assert_eq!(read(WirePayload::default()), Ok(None));
        for (bad, field) in [
            (wire_payload(Some(b"1"), Some("AAE="), None), "payload"),
            (wire_payload(Some(b"1"), None, Some(enums::Encoding::Text)), "encoding"),
            (wire_payload(None, Some("%"), None), "payload_base64"),
            (wire_payload(None, None, Some(enums::Encoding::Bytes)), "encoding"),
        ] {
            assert_eq!(read(bad).unwrap_err().field, field);
        }
    }

    #[test]
    fn a_payload_that_is_not_a_value_is_returned_as_base64() {
        let of =
            |encoding, bytes: &[u8]| WirePayload::of(&Payload::new(encoding, bytes), Format::Json);
        assert_eq!(of(Encoding::Json, b"[1]").value.unwrap().bytes(), b"[1]");
        assert_eq!(of(Encoding::Msgpack, &[0x91, 1]).value.unwrap().bytes(), b"[1]");
        assert_eq!(of(Encoding::Msgpack, &[0xc4, 1, 7]).base64.unwrap(), "xAEH");
        assert_eq!(of(Encoding::Text, b"hi").base64.unwrap(), "aGk=");
    }
}
