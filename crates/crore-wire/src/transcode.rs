//! A value of one encoding, written in another. What the other cannot say is an error.

use std::cell::RefCell;
use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Error as _, Serialize, SerializeMap, SerializeSeq, Serializer};

/// Whether the encoding that is written can say everything that MessagePack can.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Into {
    /// Bytes and numbers that are not finite cannot be said.
    Json,
    /// Anything can.
    Msgpack,
}

/// Something to be read, written in passing.
pub(crate) struct Passing<D>(RefCell<Option<D>>, Into);

impl<D> Passing<D> {
    pub(crate) const fn new(reader: D, into: Into) -> Self {
        Self(RefCell::new(Some(reader)), into)
    }
}

impl<'de, D: Deserializer<'de>> Serialize for Passing<D> {
    fn serialize<S: Serializer>(&self, writer: S) -> Result<S::Ok, S::Error> {
        let reader = self.0.borrow_mut().take();
        let reader = reader.ok_or_else(|| S::Error::custom("a value is read once"))?;
        reader.deserialize_any(Pass(writer, self.1)).map_err(S::Error::custom)
    }
}

struct Pass<S>(S, Into);

macro_rules! pass {
    ($($visit:ident($type:ty) = $write:ident),+) => {
        $(fn $visit<E: de::Error>(self, value: $type) -> Result<S::Ok, E> {
            self.0.$write(value).map_err(E::custom)
        })+
    };
}

impl<'de, S: Serializer> Visitor<'de> for Pass<S> {
    type Value = S::Ok;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    pass!(visit_bool(bool) = serialize_bool, visit_i64(i64) = serialize_i64);
    pass!(visit_u64(u64) = serialize_u64, visit_str(&str) = serialize_str);

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<S::Ok, E> {
        if self.1 == Into::Json && !value.is_finite() {
            return Err(E::custom("a number is not finite"));
        }
        self.0.serialize_f64(value).map_err(E::custom)
    }

    fn visit_bytes<E: de::Error>(self, value: &[u8]) -> Result<S::Ok, E> {
        if self.1 == Into::Json {
            return Err(E::custom("bytes cannot be said in JSON"));
        }
        self.0.serialize_bytes(value).map_err(E::custom)
    }

    fn visit_unit<E: de::Error>(self) -> Result<S::Ok, E> {
        self.0.serialize_unit().map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<S::Ok, A::Error> {
        let mut list = self.0.serialize_seq(items.size_hint()).map_err(de::Error::custom)?;
        while items.next_element_seed(Item(&mut list, self.1))?.is_some() {}
        list.end().map_err(de::Error::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<S::Ok, A::Error> {
        let mut map = self.0.serialize_map(entries.size_hint()).map_err(de::Error::custom)?;
        while let Some(key) = entries.next_key_seed(crate::strict::KeySeed)? {
            map.serialize_key(&key).map_err(de::Error::custom)?;
            entries.next_value_seed(Entry(&mut map, self.1))?;
        }
        map.end().map_err(de::Error::custom)
    }
}

struct Item<'a, L>(&'a mut L, Into);

impl<'de, L: SerializeSeq> DeserializeSeed<'de> for Item<'_, L> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        self.0.serialize_element(&Passing::new(reader, self.1)).map_err(de::Error::custom)
    }
}

struct Entry<'a, M>(&'a mut M, Into);

impl<'de, M: SerializeMap> DeserializeSeed<'de> for Entry<'_, M> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        self.0.serialize_value(&Passing::new(reader, self.1)).map_err(de::Error::custom)
    }
}
