//! A strict reader of MessagePack: extension types, keys that are not texts and nesting beyond the cap
//! are refused, and a value can be taken as the bytes that it is.

use serde::de::{
    self, DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use crate::encoding::DEPTH;

/// The name under which a type asks for the bytes of a value instead of the value.
pub(crate) const RAW: &str = "$crore::Raw";

type Error = de::value::Error;

/// Reads one value after the other from a slice.
#[derive(Debug)]
pub(crate) struct Reader<'de> {
    left: &'de [u8],
    levels: usize,
}

/// What stands at the head of a value.
enum Head<'de> {
    Nil,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Text(&'de str),
    Bytes(&'de [u8]),
    List(usize),
    Map(usize),
}

impl<'de> Reader<'de> {
    pub(crate) const fn new(bytes: &'de [u8]) -> Self {
        Self { left: bytes, levels: DEPTH }
    }

    /// Refuses anything after the value.
    pub(crate) fn end(&self) -> Result<(), Error> {
        match self.left.len() {
            0 => Ok(()),
            n => Err(error(&format!("{n} bytes after the end of the value"))),
        }
    }

    fn take(&mut self, n: usize) -> Result<&'de [u8], Error> {
        let (taken, left) = self.left.split_at_checked(n).ok_or_else(|| error("ends too early"))?;
        self.left = left;
        Ok(taken)
    }

    /// A big-endian number of `n` bytes.
    fn number(&mut self, n: usize) -> Result<u64, Error> {
        Ok(self.take(n)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn length(&mut self, n: usize) -> Result<usize, Error> {
        usize::try_from(self.number(n)?).map_err(|_| error("too long"))
    }

    fn text(&mut self, n: usize) -> Result<Head<'de>, Error> {
        let text = std::str::from_utf8(self.take(n)?);
        text.map(Head::Text).map_err(|_| error("a text is not UTF-8"))
    }

    fn head(&mut self) -> Result<Head<'de>, Error> {
        let tag = self.take(1)?.first().copied().unwrap_or_default();
        Ok(match tag {
            0x00..=0x7f => Head::Unsigned(u64::from(tag)),
            0x80..=0x8f => Head::Map(usize::from(tag & 0x0f)),
            0x90..=0x9f => Head::List(usize::from(tag & 0x0f)),
            0xa0..=0xbf => self.text(usize::from(tag & 0x1f))?,
            0xc0 => Head::Nil,
            0xc2 => Head::Bool(false),
            0xc3 => Head::Bool(true),
            0xc4..=0xc6 => {
                let n = self.length(1 << (tag - 0xc4))?;
                Head::Bytes(self.take(n)?)
            }
            0xca => Head::Float(f64::from(f32::from_bits(self.number(4)? as u32))),
            0xcb => Head::Float(f64::from_bits(self.number(8)?)),
            0xcc..=0xcf => Head::Unsigned(self.number(1 << (tag - 0xcc))?),
            0xd0 => Head::Signed(i64::from(self.number(1)? as i8)),
            0xd1 => Head::Signed(i64::from(self.number(2)? as i16)),
            0xd2 => Head::Signed(i64::from(self.number(4)? as i32)),
            0xd3 => Head::Signed(self.number(8)? as i64),
            0xd9..=0xdb => {
                let n = self.length(1 << (tag - 0xd9))?;
                self.text(n)?
            }
            0xdc | 0xdd => Head::List(self.length(2 << (tag - 0xdc))?),
            0xde | 0xdf => Head::Map(self.length(2 << (tag - 0xde))?),
            0xe0..=0xff => Head::Signed(i64::from(tag as i8)),
            0xc1 => return Err(error("the byte 0xc1 stands for nothing")),
            0xc7..=0xc9 | 0xd4..=0xd8 => return Err(error("extension types are not accepted")),
        })
    }

    /// Passes over one value, however deep it is: what is inside is for its reader to judge.
    fn skip(&mut self) -> Result<(), Error> {
        let mut values: u64 = 1;
        while let Some(left) = values.checked_sub(1) {
            values = match self.head()? {
                Head::List(n) => left.saturating_add(n as u64),
                Head::Map(n) => left.saturating_add(2 * n as u64),
                _ => left,
            };
        }
        Ok(())
    }

    fn is_nil(&self) -> bool {
        self.left.first() == Some(&0xc0)
    }

    fn inside<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        self.levels = self.levels.checked_sub(1).ok_or_else(|| error("nested too deep"))?;
        let value = read(self);
        self.levels += 1;
        value
    }
}

fn error(message: &str) -> Error {
    de::Error::custom(message)
}

impl<'de> Deserializer<'de> for &mut Reader<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.head()? {
            Head::Nil => visitor.visit_unit(),
            Head::Bool(value) => visitor.visit_bool(value),
            Head::Unsigned(value) => visitor.visit_u64(value),
            Head::Signed(value) => visitor.visit_i64(value),
            Head::Float(value) => visitor.visit_f64(value),
            Head::Text(value) => visitor.visit_borrowed_str(value),
            Head::Bytes(value) => visitor.visit_borrowed_bytes(value),
            Head::List(n) => self.inside(|reader| {
                let mut items = Items { reader, left: n };
                let value = visitor.visit_seq(&mut items)?;
                if items.left == 0 { Ok(value) } else { Err(error("a list is too long")) }
            }),
            Head::Map(n) => self.inside(|reader| {
                let mut items = Items { reader, left: n };
                let value = visitor.visit_map(&mut items)?;
                if items.left == 0 { Ok(value) } else { Err(error("a map is too long")) }
            }),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.is_nil() {
            self.skip()?;
            return visitor.visit_none();
        }
        visitor.visit_some(self)
    }

    /// A text is one; bytes are not, even if they would be UTF-8.
    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.head()? {
            Head::Text(text) => visitor.visit_borrowed_str(text),
            _ => Err(error("expected a text")),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
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
    ) -> Result<V::Value, Error> {
        match self.head()? {
            Head::Text(word) => visitor.visit_enum(word.into_deserializer()),
            Head::Map(1) => self.inside(|reader| visitor.visit_enum(Choice { reader })),
            _ => Err(error("expected a word, or a map with one")),
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
    reader: &'a mut Reader<'de>,
    left: usize,
}

impl<'de> SeqAccess<'de> for &mut Items<'_, 'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
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
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        self.left = left;
        match self.reader.head()? {
            Head::Text(key) => {
                seed.deserialize(de::value::BorrowedStrDeserializer::new(key)).map(Some)
            }
            _ => Err(error("the key of a map is not a text")),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        seed.deserialize(&mut *self.reader)
    }
}

/// A variant with something in it.
struct Choice<'a, 'de> {
    reader: &'a mut Reader<'de>,
}

impl<'de> EnumAccess<'de> for Choice<'_, 'de> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Error> {
        let word = seed.deserialize(&mut *self.reader)?;
        Ok((word, self))
    }
}

impl<'de> VariantAccess<'de> for Choice<'_, 'de> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        self.reader.skip()
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(self.reader)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.reader.deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.reader.deserialize_any(visitor)
    }
}
