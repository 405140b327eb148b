//! A strict MessagePack deserializer: extension types, keys that are not strings, and nesting beyond the maximum
//! are refused. A value can be captured as raw bytes, and may then be any value.

use serde::de::{
    self, DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use crate::encoding::MAX_DEPTH;

/// Name of the newtype struct that requests the raw bytes of a value.
pub(crate) const RAW: &str = "$crore::Raw";

type MsgpackError = de::value::Error;

/// Deserializes consecutive values from a slice.
#[derive(Debug)]
pub(crate) struct MsgpackReader<'de> {
    left: &'de [u8],
    levels: usize,
}

/// A scalar value, or the header of a list or map.
enum MsgpackHead<'de> {
    Nil,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Text(&'de str),
    Bytes(&'de [u8]),
    List(usize),
    Map(usize),
    /// Its type and bytes are skipped.
    Extension,
}

impl<'de> MsgpackReader<'de> {
    pub(crate) const fn new(bytes: &'de [u8]) -> Self {
        Self { left: bytes, levels: MAX_DEPTH }
    }

    /// Fails if bytes follow the value.
    pub(crate) fn end(&self) -> Result<(), MsgpackError> {
        match self.left.len() {
            0 => Ok(()),
            n => Err(error(&format!("{n} bytes after the end of the value"))),
        }
    }

    fn take(&mut self, n: usize) -> Result<&'de [u8], MsgpackError> {
        let (taken, left) = self.left.split_at_checked(n).ok_or_else(|| error("ends too early"))?;
        self.left = left;
        Ok(taken)
    }

    /// A big-endian number of `n` bytes.
    fn number(&mut self, n: usize) -> Result<u64, MsgpackError> {
        Ok(self.take(n)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn length(&mut self, n: usize) -> Result<usize, MsgpackError> {
        usize::try_from(self.number(n)?).map_err(|_| error("too long"))
    }

    fn text(&mut self, n: usize) -> Result<MsgpackHead<'de>, MsgpackError> {
        let text = std::str::from_utf8(self.take(n)?);
        text.map(MsgpackHead::Text).map_err(|_| error("a string is not UTF-8"))
    }

    fn head(&mut self) -> Result<MsgpackHead<'de>, MsgpackError> {
        let tag = self.take(1)?.first().copied().unwrap_or_default();
        Ok(match tag {
            0x00..=0x7f => MsgpackHead::Unsigned(u64::from(tag)),
            0x80..=0x8f => MsgpackHead::Map(usize::from(tag & 0x0f)),
            0x90..=0x9f => MsgpackHead::List(usize::from(tag & 0x0f)),
            0xa0..=0xbf => self.text(usize::from(tag & 0x1f))?,
            0xc0 => MsgpackHead::Nil,
            0xc2 => MsgpackHead::Bool(false),
            0xc3 => MsgpackHead::Bool(true),
            0xc4..=0xc6 => {
                let n = self.length(1 << (tag - 0xc4))?;
                MsgpackHead::Bytes(self.take(n)?)
            }
            0xca => MsgpackHead::Float(f64::from(f32::from_bits(self.number(4)? as u32))),
            0xcb => MsgpackHead::Float(f64::from_bits(self.number(8)?)),
            0xcc..=0xcf => MsgpackHead::Unsigned(self.number(1 << (tag - 0xcc))?),
            0xd0 => MsgpackHead::Signed(i64::from(self.number(1)? as i8)),
            0xd1 => MsgpackHead::Signed(i64::from(self.number(2)? as i16)),
            0xd2 => MsgpackHead::Signed(i64::from(self.number(4)? as i32)),
            0xd3 => MsgpackHead::Signed(self.number(8)? as i64),
            0xd9..=0xdb => {
                let n = self.length(1 << (tag - 0xd9))?;
                self.text(n)?
            }
            0xdc | 0xdd => MsgpackHead::List(self.length(2 << (tag - 0xdc))?),
            0xde | 0xdf => MsgpackHead::Map(self.length(2 << (tag - 0xde))?),
            0xe0..=0xff => MsgpackHead::Signed(i64::from(tag as i8)),
            0xc1 => return Err(error("invalid byte 0xc1")),
            0xc7..=0xc9 => {
                let n = self.length(1 << (tag - 0xc7))?;
                self.take(1)?;
                self.take(n).map(|_| MsgpackHead::Extension)?
            }
            0xd4..=0xd8 => self.take(1 + (1 << (tag - 0xd4))).map(|_| MsgpackHead::Extension)?,
        })
    }

    /// Skips one value. Its depth, the types of its map keys, and extension types are not checked.
    fn skip(&mut self) -> Result<(), MsgpackError> {
        let mut values: u64 = 1;
        while let Some(left) = values.checked_sub(1) {
            values = match self.head()? {
                MsgpackHead::List(n) => left.saturating_add(n as u64),
                MsgpackHead::Map(n) => left.saturating_add(2 * n as u64),
                _ => left,
            };
        }
        Ok(())
    }

    fn is_nil(&self) -> bool {
        self.left.first() == Some(&0xc0)
    }

    fn inside<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, MsgpackError>,
    ) -> Result<T, MsgpackError> {
        self.levels = self.levels.checked_sub(1).ok_or_else(|| error("nested too deep"))?;
        let value = read(self);
        self.levels += 1;
        value
    }
}

fn error(message: &str) -> MsgpackError {
    de::Error::custom(message)
}

impl<'de> Deserializer<'de> for &mut MsgpackReader<'de> {
    type Error = MsgpackError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, MsgpackError> {
        match self.head()? {
            MsgpackHead::Nil => visitor.visit_unit(),
            MsgpackHead::Bool(value) => visitor.visit_bool(value),
            MsgpackHead::Unsigned(value) => visitor.visit_u64(value),
            MsgpackHead::Signed(value) => visitor.visit_i64(value),
            MsgpackHead::Float(value) => visitor.visit_f64(value),
            MsgpackHead::Text(value) => visitor.visit_borrowed_str(value),
            MsgpackHead::Bytes(value) => visitor.visit_borrowed_bytes(value),
            MsgpackHead::Extension => Err(error("extension types are not accepted")),
            MsgpackHead::List(n) => self.inside(|reader| {
                let mut items = Items { reader, left: n };
                let value = visitor.visit_seq(&mut items)?;
                if items.left == 0 { Ok(value) } else { Err(error("a list is too long")) }
            }),
            MsgpackHead::Map(n) => self.inside(|reader| {
                let mut items = Items { reader, left: n };
                let value = visitor.visit_map(&mut items)?;
                if items.left == 0 { Ok(value) } else { Err(error("a map is too long")) }
            }),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, MsgpackError> {
        if self.is_nil() {
            self.skip()?;
            return visitor.visit_none();
        }
        visitor.visit_some(self)
    }

    /// Accepts a string only, not bytes that happen to be UTF-8.
    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, MsgpackError> {
        match self.head()? {
            MsgpackHead::Text(text) => visitor.visit_borrowed_str(text),
            _ => Err(error("expected a string")),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, MsgpackError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, MsgpackError> {
        if name != RAW {
            return visitor.visit_newtype_struct(self);
        }
        let start = self.left;
        self.skip()?;
        let n = start.len() - self.left.len();
        visitor.visit_borrowed_bytes(start.get(..n).unwrap_or_default())
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, MsgpackError> {
        match self.head()? {
            MsgpackHead::Text(name) => visitor.visit_enum(name.into_deserializer()),
            MsgpackHead::Map(1) => {
                self.inside(|reader| visitor.visit_enum(VariantReader { reader }))
            }
            _ => Err(error("expected a string, or a map with one entry")),
        }
    }

    fn is_human_readable(&self) -> bool {
        false
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

/// The items of a list, or the entries of a map.
struct Items<'a, 'de> {
    reader: &'a mut MsgpackReader<'de>,
    left: usize,
}

impl<'de> SeqAccess<'de> for &mut Items<'_, 'de> {
    type Error = MsgpackError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, MsgpackError> {
        match self.left.checked_sub(1) {
            None => Ok(None),
            Some(left) => {
                self.left = left;
                seed.deserialize(&mut *self.reader).map(Some)
            }
        }
    }
}

impl<'de> MapAccess<'de> for &mut Items<'_, 'de> {
    type Error = MsgpackError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, MsgpackError> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        self.left = left;
        match self.reader.head()? {
            MsgpackHead::Text(key) => {
                seed.deserialize(de::value::BorrowedStrDeserializer::new(key)).map(Some)
            }
            _ => Err(error("the key of a map is not a string")),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(
        &mut self,
        seed: V,
    ) -> Result<V::Value, MsgpackError> {
        seed.deserialize(&mut *self.reader)
    }
}

/// An enum variant with content.
struct VariantReader<'a, 'de> {
    reader: &'a mut MsgpackReader<'de>,
}

impl<'de> EnumAccess<'de> for VariantReader<'_, 'de> {
    type Error = MsgpackError;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(
        self,
        seed: V,
    ) -> Result<(V::Value, Self), MsgpackError> {
        let name = seed.deserialize(&mut *self.reader)?;
        Ok((name, self))
    }
}

impl<'de> VariantAccess<'de> for VariantReader<'_, 'de> {
    type Error = MsgpackError;

    fn unit_variant(self) -> Result<(), MsgpackError> {
        self.reader.skip()
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(
        self,
        seed: T,
    ) -> Result<T::Value, MsgpackError> {
        seed.deserialize(self.reader)
    }

    fn tuple_variant<V: Visitor<'de>>(
        self,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, MsgpackError> {
        self.reader.deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, MsgpackError> {
        self.reader.deserialize_any(visitor)
    }
}
