//! A value of any type, kept as its original bytes.

use std::fmt;
use std::sync::Arc;

use crore_core::{Code, Invalid, Payload};
use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::ser::{Error as _, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::encoding::Format;
use crate::msgpack::{MsgpackReader, RAW};
use crate::strict;
use crate::transcode::{TranscodeTarget as Target, Transcoder};

/// A value of any type in one of the two formats, kept as bytes without parsing.
#[derive(Clone, PartialEq, Eq)]
pub struct Raw {
    format: Format,
    bytes: Arc<[u8]>,
}

impl Raw {
    /// `null`.
    pub fn null(format: Format) -> Self {
        let bytes: &[u8] = match format {
            Format::Json => b"null",
            Format::Msgpack => &[0xc0],
        };
        Self { format, bytes: bytes.into() }
    }

    /// A value from its bytes, not validated.
    pub fn new(format: Format, bytes: impl Into<Arc<[u8]>>) -> Self {
        Self { format, bytes: bytes.into() }
    }

    /// The format.
    pub const fn format(&self) -> Format {
        self.format
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Converts to a payload. A value that parsers could interpret differently is refused.
    pub fn into_payload(self, field: &str) -> Result<Payload, Invalid> {
        strict::check(self.format, &self.bytes)
            .map_err(|why| Invalid::new(Code::PayloadMalformed, field, why))?;
        Ok(Payload::new(self.format.encoding(), self.bytes))
    }

    /// Converts to another format; `None` if the value is invalid or cannot be represented there.
    pub fn convert(&self, to: Format) -> Option<Self> {
        if self.format == to {
            strict::check(to, &self.bytes).ok()?;
            return Some(self.clone());
        }
        let bytes = match to {
            Format::Json => {
                let mut reader = MsgpackReader::new(&self.bytes);
                let bytes = serde_json::to_vec(&Transcoder::new(&mut reader, Target::Json)).ok()?;
                reader.end().ok().map(|()| bytes)?
            }
            Format::Msgpack => {
                let mut reader = serde_json::Deserializer::from_slice(&self.bytes);
                rmp_serde::to_vec(&Transcoder::new(&mut reader, Target::Msgpack)).ok()?
            }
        };
        Some(Self { format: to, bytes: bytes.into() })
    }
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({} bytes)", self.format, self.bytes.len())
    }
}

impl Serialize for Raw {
    fn serialize<S: Serializer>(&self, writer: S) -> Result<S::Ok, S::Error> {
        match self.format {
            Format::Json if writer.is_human_readable() => {
                let raw: &RawValue =
                    serde_json::from_slice(&self.bytes).map_err(S::Error::custom)?;
                raw.serialize(writer)
            }
            Format::Json => {
                let mut reader = serde_json::Deserializer::from_slice(&self.bytes);
                Transcoder::new(&mut reader, Target::Msgpack).serialize(writer)
            }
            Format::Msgpack => {
                let into = if writer.is_human_readable() { Target::Json } else { Target::Msgpack };
                Transcoder::new(&mut MsgpackReader::new(&self.bytes), into).serialize(writer)
            }
        }
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        if reader.is_human_readable() {
            let raw = <&RawValue>::deserialize(reader)?;
            return Ok(Self { format: Format::Json, bytes: raw.get().as_bytes().into() });
        }
        reader.deserialize_newtype_struct(RAW, RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_borrowed_bytes<E: de::Error>(self, bytes: &'de [u8]) -> Result<Raw, E> {
        Ok(Raw { format: Format::Msgpack, bytes: bytes.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use serde::{Deserialize, Serialize};

    #[derive(Deserialize, Serialize, PartialEq, Debug)]
    struct Body {
        first: Raw,
        second: Option<Raw>,
    }

    #[test]
    fn a_value_keeps_its_bytes() {
        let text = br#"{"first": {"a" : [1, 2.50]} ,"second":null}"#;
        let body: Body = Format::Json.decode(text).unwrap();
        assert_eq!(body.first.bytes(), br#"{"a" : [1, 2.50]}"#);
        let packed = [0x81, 0xa5, b'f', b'i', b'r', b's', b't', 0xcd, 0, 7];
        let body: Body = Format::Msgpack.decode(&packed).unwrap();
        assert_eq!(body.first.bytes(), [0xcd, 0, 7]);
    }

    proptest! {
        #[test]
        fn random_bytes_are_a_value_in_every_parser_or_in_none(bytes in vec(any::<u8>(), 0..64)) {
            for format in [Format::Json, Format::Msgpack] {
                let raw = Raw::new(format, &bytes[..]);
                let is_value = raw.clone().into_payload("payload").is_ok();
                prop_assert_eq!(raw.convert(format).is_some(), is_value);
                if format == Format::Msgpack && is_value {
                    let read: Result<de::IgnoredAny, _> = rmp_serde::from_slice(&bytes);
                    prop_assert!(read.is_ok(), "another parser accepts it too");
                }
                if let Some(json) = raw.convert(Format::Json) {
                    prop_assert!(serde_json::from_slice::<serde_json::Value>(json.bytes()).is_ok());
                }
            }
        }
    }

    #[test]
    fn values_are_converted_where_they_can_be() {
        let json = Raw::new(Format::Json, &br#"{"a":[1,-2,1.5,"x",true,null]}"#[..]);
        let packed = json.convert(Format::Msgpack).unwrap();
        assert_eq!(packed.convert(Format::Json).unwrap(), json);
        let body = Body { first: packed.clone(), second: Some(json.clone()) };
        let back: Body = Format::Json.decode(&Format::Json.encode(&body)).unwrap();
        assert_eq!(back.first, json);
        let back: Body = Format::Msgpack.decode(&Format::Msgpack.encode(&body)).unwrap();
        assert_eq!((back.first, back.second), (packed.clone(), Some(packed)));
        for odd in
            [&[0xc4, 1, 0][..], &[0xcb, 0x7f, 0xf8, 0, 0, 0, 0, 0, 0], &[0xd4, 1, 0], &[0x81, 1, 1]]
        {
            assert_eq!(Raw::new(Format::Msgpack, odd).convert(Format::Json), None, "{odd:?}");
        }
    }
}
