//! Transcodes a value from one format to another. A value that the target cannot represent is an error.

use std::cell::RefCell;
use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Error as _, Serialize, SerializeMap, SerializeSeq, Serializer};

/// Target format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TranscodeTarget {
    /// Cannot represent bytes and non-finite numbers.
    Json,
    /// Can represent every value.
    Msgpack,
}

/// A deserializer that is serialized while it is read, without an intermediate value.
pub(crate) struct Transcoder<D>(RefCell<Option<D>>, TranscodeTarget);

impl<D> Transcoder<D> {
    pub(crate) const fn new(reader: D, into: TranscodeTarget) -> Self {
        Self(RefCell::new(Some(reader)), into)
    }
}

impl<'de, D: Deserializer<'de>> Serialize for Transcoder<D> {
    fn serialize<S: Serializer>(&self, writer: S) -> Result<S::Ok, S::Error> {
        let reader = self.0.borrow_mut().take();
        let reader = reader.ok_or_else(|| S::Error::custom("a value can be read only once"))?;
        reader.deserialize_any(TranscodeVisitor(writer, self.1)).map_err(S::Error::custom)
    }
}

struct TranscodeVisitor<S>(S, TranscodeTarget);

macro_rules! forward {
    ($($visit:ident($type:ty) = $write:ident),+) => {
        $(fn $visit<E: de::Error>(self, value: $type) -> Result<S::Ok, E> {
            self.0.$write(value).map_err(E::custom)
        })+
    };
}

impl<'de, S: Serializer> Visitor<'de> for TranscodeVisitor<S> {
    type Value = S::Ok;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    forward!(visit_bool(bool) = serialize_bool, visit_i64(i64) = serialize_i64);
    forward!(visit_u64(u64) = serialize_u64, visit_str(&str) = serialize_str);

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<S::Ok, E> {
        if self.1 == TranscodeTarget::Json && !value.is_finite() {
            return Err(E::custom("a number is not finite"));
        }
        self.0.serialize_f64(value).map_err(E::custom)
    }

    fn visit_bytes<E: de::Error>(self, value: &[u8]) -> Result<S::Ok, E> {
        if self.1 == TranscodeTarget::Json {
            return Err(E::custom("bytes cannot be represented in JSON"));
        }
        self.0.serialize_bytes(value).map_err(E::custom)
    }

    fn visit_unit<E: de::Error>(self) -> Result<S::Ok, E> {
        self.0.serialize_unit().map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<S::Ok, A::Error> {
        let mut list = self.0.serialize_seq(items.size_hint()).map_err(de::Error::custom)?;
        while items.next_element_seed(TranscodeItem(&mut list, self.1))?.is_some() {}
        list.end().map_err(de::Error::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<S::Ok, A::Error> {
        let mut map = self.0.serialize_map(entries.size_hint()).map_err(de::Error::custom)?;
        while let Some(key) = entries.next_key_seed(crate::strict::KeySeed)? {
            map.serialize_key(&key).map_err(de::Error::custom)?;
            entries.next_value_seed(TranscodeEntry(&mut map, self.1))?;
        }
        map.end().map_err(de::Error::custom)
    }
}

struct TranscodeItem<'a, L>(&'a mut L, TranscodeTarget);

impl<'de, L: SerializeSeq> DeserializeSeed<'de> for TranscodeItem<'_, L> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        self.0.serialize_element(&Transcoder::new(reader, self.1)).map_err(de::Error::custom)
    }
}

struct TranscodeEntry<'a, M>(&'a mut M, TranscodeTarget);

impl<'de, M: SerializeMap> DeserializeSeed<'de> for TranscodeEntry<'_, M> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        self.0.serialize_value(&Transcoder::new(reader, self.1)).map_err(de::Error::custom)
    }
}
