//! Payloads: the bytes as they arrived, and their declared encoding.

use std::fmt;
use std::sync::Arc;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::code::{Code, Invalid};

/// The encoding of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Encoding {
    /// One JSON text.
    Json,
    /// One MessagePack object.
    Msgpack,
    /// A protobuf message; never decoded by crore.
    Protobuf,
    /// UTF-8.
    Text,
    /// Arbitrary bytes.
    Bytes,
}

impl Encoding {
    /// Every encoding.
    pub const ALL: [Self; 5] = [Self::Json, Self::Msgpack, Self::Protobuf, Self::Text, Self::Bytes];
}

/// Bytes and their encoding. Cloning shares the bytes.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Payload {
    /// The declared encoding.
    pub encoding: Encoding,
    /// The bytes, exactly as they arrived.
    pub bytes: Arc<[u8]>,
}

impl Payload {
    /// A payload of the given encoding, not validated.
    pub fn new(encoding: Encoding, bytes: impl Into<Arc<[u8]>>) -> Self {
        Self { encoding, bytes: bytes.into() }
    }

    /// A JSON payload.
    pub fn json(text: &str) -> Self {
        Self::new(Encoding::Json, text.as_bytes())
    }

    /// Validates size, syntax and nesting depth against the declared encoding, so that readers can rely
    /// on it. `Protobuf` and `Bytes` are checked for size only.
    pub fn check(&self, field: &str, max_bytes: usize, max_depth: usize) -> Result<(), Invalid> {
        if self.bytes.len() > max_bytes {
            let message = format!("{} bytes, at most {max_bytes} are allowed", self.bytes.len());
            return Err(Invalid::new(Code::PayloadTooLarge, field, message));
        }
        let malformed = |why: String| Invalid::new(Code::PayloadMalformed, field, why);
        match self.encoding {
            Encoding::Json => check_json(&self.bytes, max_depth).map_err(malformed),
            Encoding::Msgpack => check_msgpack(&self.bytes, max_depth).map_err(malformed),
            Encoding::Text => std::str::from_utf8(&self.bytes)
                .map(|_| ())
                .map_err(|e| malformed(format!("not UTF-8 at byte {}", e.valid_up_to()))),
            Encoding::Protobuf | Encoding::Bytes => Ok(()),
        }
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}({} bytes)", self.encoding, self.bytes.len())
    }
}

fn check_json(bytes: &[u8], max_depth: usize) -> Result<(), String> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let shape = ShapeValidator { levels: max_depth }.deserialize(&mut reader);
    shape.and_then(|()| reader.end()).map_err(|e| format!("not JSON: {e}"))
}

fn check_msgpack(bytes: &[u8], max_depth: usize) -> Result<(), String> {
    let mut left = bytes;
    let mut reader = rmp_serde::Deserializer::new(&mut left);
    let shape = ShapeValidator { levels: max_depth }.deserialize(&mut reader);
    shape.map_err(|e| format!("not MessagePack: {e}"))?;
    match left.len() {
        0 => Ok(()),
        n => Err(format!("{n} bytes after the MessagePack object")),
    }
}

/// Validates a value of any format without building it. Unlike `IgnoredAny` it decodes every string, so
/// that invalid Unicode is found, and it counts nesting levels the same way for every format.
struct ShapeValidator {
    levels: usize,
}

impl ShapeValidator {
    fn inner<E: de::Error>(&self) -> Result<Self, E> {
        let levels = self.levels.checked_sub(1).ok_or_else(|| E::custom("nested too deep"))?;
        Ok(Self { levels })
    }
}

impl<'de> DeserializeSeed<'de> for ShapeValidator {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self)
    }
}

macro_rules! accept {
    ($($visit:ident: $type:ty),+) => {
        $(fn $visit<E: de::Error>(self, _: $type) -> Result<(), E> { Ok(()) })+
    };
}

impl<'de> Visitor<'de> for ShapeValidator {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    accept!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64);
    accept!(visit_i128: i128, visit_u128: u128, visit_str: &str, visit_bytes: &[u8]);

    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        Ok(())
    }

    /// The MessagePack reader presents an extension type as a newtype of its tag and bytes.
    fn visit_newtype_struct<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(self.inner()?)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        while entries.next_key_seed(self.inner()?)?.is_some() {
            entries.next_value_seed(self.inner()?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(encoding: Encoding, bytes: &[u8]) -> Result<(), Code> {
        Payload::new(encoding, bytes).check("payload", 1024, 64).map_err(|e| e.code)
    }

    #[test]
    fn a_payload_must_match_its_encoding() {
        let malformed = Err(Code::PayloadMalformed);
        assert_eq!(check(Encoding::Json, br#"{"a":[1,"]\"[",null]}"#), Ok(()));
        for bad in [&b""[..], b"{", b"[1,]", b"NaN", b"1 2", b"\xff", b"\"\\ud800\""] {
            assert_eq!(check(Encoding::Json, bad), malformed, "{bad:?}");
        }
        assert_eq!(check(Encoding::Msgpack, &[0x81, 0xa1, b'a', 0x01]), Ok(()));
        for bad in [&b""[..], &[0xc1], &[0x92, 1], &[1, 2], &[0xdd, 255, 255, 255, 255]] {
            assert_eq!(check(Encoding::Msgpack, bad), malformed, "{bad:?}");
        }
        assert_eq!(check(Encoding::Text, "grüße".as_bytes()), Ok(()));
        assert_eq!(check(Encoding::Text, b"\xc3"), malformed);
        assert_eq!(check(Encoding::Bytes, b"\xc3"), Ok(()));
        assert_eq!(check(Encoding::Protobuf, b"\xff"), Ok(()));
    }

    #[test]
    fn size_and_depth_are_capped_alike_in_every_encoding() {
        assert_eq!(check(Encoding::Bytes, &[0; 1024]), Ok(()));
        assert_eq!(check(Encoding::Bytes, &[0; 1025]), Err(Code::PayloadTooLarge));
        let json = |n: usize| "[".repeat(n) + "1" + &"]".repeat(n);
        let msgpack = |n: usize| [vec![0x91; n], vec![0x01]].concat();
        assert_eq!(check(Encoding::Json, json(64).as_bytes()), Ok(()));
        assert_eq!(check(Encoding::Json, json(65).as_bytes()), Err(Code::PayloadMalformed));
        assert_eq!(check(Encoding::Msgpack, &msgpack(64)), Ok(()));
        assert_eq!(check(Encoding::Msgpack, &msgpack(65)), Err(Code::PayloadMalformed));
    }
}
