//! Payloads and results: any value in the encoding of the body, or bytes in Base64.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crore_core::{Code, Encoding, Invalid, Payload};

use crate::api::words;
use crate::{Format, Raw};

/// The three fields in which a payload is said.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Said {
    /// Any value.
    pub value: Option<Raw>,
    /// Bytes in Base64.
    pub base64: Option<String>,
    /// What the bytes are.
    pub encoding: Option<words::Encoding>,
}

impl Said {
    /// The payload that is meant, if one is; `field` is what the value's field is called.
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
                        "a value in a body of {format} is {format}; other bytes go into `{field}_base64`"
                    ),
                ),
                _ => value.into_payload(field).map(Some),
            },
            (None, Some(text)) => match STANDARD.decode(text) {
                Ok(bytes) => Ok(Some(Payload::new(encoding.unwrap_or(Encoding::Bytes), bytes))),
                Err(error) => malformed(&format!("{field}_base64"), format!("not Base64: {error}")),
            },
            (None, None) if encoding.is_some_and(|encoding| encoding != format.encoding()) => {
                malformed(
                    "encoding",
                    format!("there is no `{field}_base64` of which this is the encoding"),
                )
            }
            (None, None) => Ok(None),
        }
    }

    /// A payload, as it is said in a body of this format: as a value if that can be.
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

    fn said(value: Option<&[u8]>, base64: Option<&str>, encoding: Option<words::Encoding>) -> Said {
        let value = value.map(|bytes| Raw::new(Format::Json, bytes));
        Said { value, base64: base64.map(str::to_owned), encoding }
    }

    #[test]
    fn a_payload_is_a_value_or_bytes() {
        let read = |said: Said| said.read("payload", Format::Json);
        let is = |said, encoding, bytes: &[u8]| {
            assert_eq!(read(said), Ok(Some(Payload::new(encoding, bytes))));
        };
        is(said(Some(b"[1]"), None, None), Encoding::Json, b"[1]");
        is(said(None, Some("AAE="), None), Encoding::Bytes, &[0, 1]);
        is(said(None, Some("aGk="), Some(words::Encoding::Text)), Encoding::Text, b"hi");
        assert_eq!(read(Said::default()), Ok(None));
        for (bad, field) in [
            (said(Some(b"1"), Some("AAE="), None), "payload"),
            (said(Some(b"1"), None, Some(words::Encoding::Text)), "encoding"),
            (said(None, Some("%"), None), "payload_base64"),
            (said(None, None, Some(words::Encoding::Bytes)), "encoding"),
        ] {
            assert_eq!(read(bad).unwrap_err().field, field);
        }
    }

    #[test]
    fn what_cannot_be_said_as_a_value_comes_as_bytes() {
        let of = |encoding, bytes: &[u8]| Said::of(&Payload::new(encoding, bytes), Format::Json);
        assert_eq!(of(Encoding::Json, b"[1]").value.unwrap().bytes(), b"[1]");
        assert_eq!(of(Encoding::Msgpack, &[0x91, 1]).value.unwrap().bytes(), b"[1]");
        assert_eq!(of(Encoding::Msgpack, &[0xc4, 1, 7]).base64.unwrap(), "xAEH");
        assert_eq!(of(Encoding::Text, b"hi").base64.unwrap(), "aGk=");
    }
}
