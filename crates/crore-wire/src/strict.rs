//! Validates that a value has one interpretation in every parser: no duplicate keys, no nesting beyond the maximum.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::encoding::{Format, MAX_DEPTH};
use crate::msgpack::MsgpackReader;

/// Number of keys up to which a linear search is used.
const MAX_LINEAR_KEYS: usize = 16;

/// Validates that `bytes` are exactly one strict value.
pub(crate) fn check(format: Format, bytes: &[u8]) -> Result<(), String> {
    let strict = StrictVisitor { levels: MAX_DEPTH };
    match format {
        Format::Json => {
            let mut reader = serde_json::Deserializer::from_slice(bytes);
            let checked = strict.deserialize(&mut reader);
            checked.and_then(|()| reader.end()).map_err(|e| e.to_string())
        }
        Format::Msgpack => {
            let mut reader = MsgpackReader::new(bytes);
            let checked = strict.deserialize(&mut reader);
            checked.and_then(|()| reader.end()).map_err(|e| e.to_string())
        }
    }
}

struct StrictVisitor {
    levels: usize,
}

impl StrictVisitor {
    fn inner<E: de::Error>(&self) -> Result<Self, E> {
        let levels = self.levels.checked_sub(1).ok_or_else(|| E::custom("nested too deep"))?;
        Ok(Self { levels })
    }
}

impl<'de> DeserializeSeed<'de> for StrictVisitor {
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

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    accept!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64);
    accept!(visit_str: &str, visit_bytes: &[u8]);

    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(self.inner()?)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let mut keys = UniqueKeys::default();
        while let Some(key) = entries.next_key_seed(KeySeed)? {
            keys.add(key)?;
            entries.next_value_seed(self.inner()?)?;
        }
        Ok(())
    }
}

/// The keys of one map.
#[derive(Default)]
pub(crate) struct UniqueKeys<'de> {
    few: Vec<Cow<'de, str>>,
    many: HashSet<Cow<'de, str>>,
}

impl<'de> UniqueKeys<'de> {
    /// Adds a key; fails if it is a duplicate.
    pub(crate) fn add<E: de::Error>(&mut self, key: Cow<'de, str>) -> Result<(), E> {
        let duplicate =
            |key: &str| E::custom(format!("duplicate key `{}`", crore_core::code::excerpt(key)));
        if self.many.is_empty() && self.few.len() < MAX_LINEAR_KEYS {
            if self.few.contains(&key) {
                return Err(duplicate(&key));
            }
            self.few.push(key);
            return Ok(());
        }
        self.many.extend(self.few.drain(..));
        if self.many.contains(&key) {
            return Err(duplicate(&key));
        }
        self.many.insert(key);
        Ok(())
    }
}

/// Deserializes a key, borrowed if possible.
pub(crate) struct KeySeed;

impl<'de> DeserializeSeed<'de> for KeySeed {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Self::Value, D::Error> {
        reader.deserialize_str(KeyVisitor)
    }
}

struct KeyVisitor;

impl<'de> Visitor<'de> for KeyVisitor {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E: de::Error>(self, key: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(key))
    }

    fn visit_str<E: de::Error>(self, key: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(key.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicate_keys_are_refused_at_every_level() {
        let json = |text: &str| check(Format::Json, text.as_bytes());
        assert!(json(r#"{"a":1,"b":{"a":2}}"#).is_ok());
        assert!(json(r#"{"a":1,"a":2}"#).unwrap_err().contains("duplicate key `a`"));
        assert!(json(r#"[{"b":{"a":1,"\u0061":2}}]"#).is_err());
        let many: Vec<String> = (0..100).map(|n| format!(r#""k{n}":1"#)).collect();
        assert!(json(&format!("{{{}}}", many.join(","))).is_ok());
        assert!(json(&format!("{{{},\"k7\":1}}", many.join(","))).is_err());
        assert!(check(Format::Msgpack, &[0x82, 0xa1, b'a', 1, 0xa1, b'a', 2]).is_err());
    }

    #[test]
    fn depth_is_counted_alike_in_every_encoding() {
        let json = |n: usize| "[".repeat(n) + "1" + &"]".repeat(n);
        let msgpack = |n: usize| [vec![0x91; n], vec![0x01]].concat();
        assert!(check(Format::Json, json(64).as_bytes()).is_ok());
        assert!(check(Format::Json, json(65).as_bytes()).is_err());
        assert!(check(Format::Msgpack, &msgpack(64)).is_ok());
        assert!(check(Format::Msgpack, &msgpack(65)).is_err());
        assert!(check(Format::Msgpack, &msgpack(1_000_000)).is_err());
    }

    #[test]
    fn only_exactly_one_value_is_accepted() {
        for bad in
            [&b""[..], b"{", b"1 2", b"\xef\xbb\xbf1", b"NaN", b"1e999", b"[1,]", b"\"\\ud800\""]
        {
            assert!(check(Format::Json, bad).is_err(), "{bad:?}");
        }
        for bad in [
            &b""[..],
            &[0xc1],
            &[1, 2],
            &[0x81, 1, 1],
            &[0xd4, 1, 0],
            &[0xc7, 0, 255],
            &[0xd6, 0xff, 0, 0, 0, 0],
            &[0xdd, 255, 255, 255, 255],
            &[0xc6, 255, 255, 255, 255],
            &[0xdf, 255, 255, 255, 255],
            &[0xdb, 255, 255, 255, 255],
            &[0xa1, 0xff],
        ] {
            assert!(check(Format::Msgpack, bad).is_err(), "{bad:?}");
        }
    }
}
