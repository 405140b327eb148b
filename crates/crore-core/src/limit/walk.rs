//! Finding fields in a payload: one pass over the bytes that keeps only the values asked for.

use std::fmt;
use std::ops::Range;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::field::{Place, Step};
use super::scalar::{Literal, Number, Scalar};
use crate::payload::{Encoding, Payload};

/// How deep a payload may be nested for its fields to be seen.
pub(super) const MAX_LEVELS: usize = 64;

/// The values at some places of one payload.
#[derive(Debug)]
pub(super) struct Found<'p> {
    paths: Vec<&'p [Step]>,
    values: Vec<Option<Literal>>,
}

impl<'p> Found<'p> {
    /// Reads the payload once for all `paths`. A payload that is malformed, nested deeper than
    /// [`MAX_LEVELS`], or neither JSON nor MessagePack has no fields. If an object has a name
    /// twice, the last one counts, as in most readers of JSON. A fraction is the double that the
    /// JSON reader makes of it.
    pub(super) fn read(payload: &Payload, mut paths: Vec<&'p [Step]>) -> Self {
        paths.sort_unstable_by(|a, b| places(a).cmp(places(b)));
        paths.dedup();
        let mut values = vec![None; paths.len()];
        let walk = Walk { paths: &paths, values: &mut values, depth: 0, levels: MAX_LEVELS };
        if !read_whole(payload, walk) {
            values.fill(None);
        }
        Self { paths, values }
    }

    /// The value at `path`, which must be one of those that were read. None if there is none, or
    /// if it has parts.
    pub(super) fn value(&self, path: &[Step]) -> Option<&Literal> {
        let at = self.paths.binary_search_by(|other| places(other).cmp(places(path))).ok()?;
        self.values[at].as_ref()
    }
}

fn places(path: &[Step]) -> impl Iterator<Item = Place<'_>> {
    path.iter().map(Step::place)
}

/// Whether the payload was read to its very end.
fn read_whole(payload: &Payload, walk: Walk<'_, '_>) -> bool {
    match payload.encoding {
        Encoding::Json => {
            let mut reader = serde_json::Deserializer::from_slice(&payload.bytes);
            walk.deserialize(&mut reader).and_then(|()| reader.end()).is_ok()
        }
        Encoding::Msgpack => {
            let mut left = &payload.bytes[..];
            walk.deserialize(&mut rmp_serde::Deserializer::new(&mut left)).is_ok()
                && left.is_empty()
        }
        Encoding::Protobuf | Encoding::Text | Encoding::Bytes => false,
    }
}

/// One level down, or the error of a payload that is nested too deep.
fn descend<E: de::Error>(levels: usize) -> Result<usize, E> {
    levels.checked_sub(1).ok_or_else(|| E::custom("nested too deep"))
}

/// Reads one value. `paths` are sorted, different, and alike in their first `depth` steps, which
/// lead to this value; so a path that ends here comes first, and those that go on through one
/// entry stand side by side.
struct Walk<'a, 'p> {
    paths: &'a [&'p [Step]],
    values: &'a mut [Option<Literal>],
    depth: usize,
    levels: usize,
}

impl<'p> Walk<'_, 'p> {
    /// The walk into one entry. What an earlier entry of the same name left behind is forgotten.
    fn child<E: de::Error>(&mut self, range: Range<usize>) -> Result<Walk<'_, 'p>, E> {
        let levels = descend(self.levels)?;
        let values = &mut self.values[range.clone()];
        values.fill(None);
        Ok(Walk { paths: &self.paths[range], values, depth: self.depth + 1, levels })
    }

    fn keep(self, value: impl FnOnce() -> Option<Literal>) {
        if self.paths.first().is_some_and(|path| path.len() == self.depth) {
            self.values[0] = value();
        }
    }

    fn number(self, number: Option<Number>) {
        self.keep(|| number.map(Scalar::Number));
    }
}

/// The paths that go on through `place`.
fn through(paths: &[&[Step]], depth: usize, place: Place<'_>) -> Range<usize> {
    let next = |path: &&[Step]| path.get(depth).map(Step::place).cmp(&Some(place));
    let start = paths.partition_point(|path| next(path).is_lt());
    start..start + paths[start..].partition_point(|path| next(path).is_eq())
}

impl<'de> DeserializeSeed<'de> for Walk<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        self.keep(|| Some(Scalar::Null));
        Ok(())
    }

    fn visit_bool<E: de::Error>(self, flag: bool) -> Result<(), E> {
        self.keep(|| Some(Scalar::Bool(flag)));
        Ok(())
    }

    fn visit_i64<E: de::Error>(self, whole: i64) -> Result<(), E> {
        self.number(Some(whole.into()));
        Ok(())
    }

    fn visit_u64<E: de::Error>(self, whole: u64) -> Result<(), E> {
        self.number(Some(whole.into()));
        Ok(())
    }

    fn visit_f64<E: de::Error>(self, float: f64) -> Result<(), E> {
        self.number(Number::from_f64(float));
        Ok(())
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<(), E> {
        self.keep(|| Some(Scalar::Text(text.into())));
        Ok(())
    }

    fn visit_bytes<E: de::Error>(self, _: &[u8]) -> Result<(), E> {
        Ok(())
    }

    /// An extension type of MessagePack: it is read, and nothing in it is a field.
    fn visit_newtype_struct<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(Walk { paths: &[], values: &mut [], ..self })
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        for index in 0..=u32::MAX {
            let range = through(self.paths, self.depth, Place::Index(index));
            if items.next_element_seed(self.child(range)?)?.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<(), A::Error> {
        let levels = descend(self.levels)?;
        while let Some(range) =
            entries.next_key_seed(Key { paths: self.paths, depth: self.depth, levels })?
        {
            entries.next_value_seed(self.child(range)?)?;
        }
        Ok(())
    }
}

/// Reads the key of an entry and says which paths go on through it. A key that is not text, which
/// MessagePack allows, belongs to none.
struct Key<'a, 'p> {
    paths: &'a [&'p [Step]],
    depth: usize,
    levels: usize,
}

impl Key<'_, '_> {
    fn skip(&self) -> Walk<'static, 'static> {
        Walk { paths: &[], values: &mut [], depth: 0, levels: self.levels }
    }
}

impl<'de> DeserializeSeed<'de> for Key<'_, '_> {
    type Value = Range<usize>;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Range<usize>, D::Error> {
        reader.deserialize_any(self)
    }
}

macro_rules! no_name {
    ($($visit:ident: $type:ty),+) => {
        $(fn $visit<E: de::Error>(self, _: $type) -> Result<Range<usize>, E> { Ok(0..0) })+
    };
}

impl<'de> Visitor<'de> for Key<'_, '_> {
    type Value = Range<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    no_name!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_bytes: &[u8]);

    fn visit_unit<E: de::Error>(self) -> Result<Range<usize>, E> {
        Ok(0..0)
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<Range<usize>, E> {
        Ok(through(self.paths, self.depth, Place::Name(name)))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(
        self,
        reader: D,
    ) -> Result<Range<usize>, D::Error> {
        reader.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Range<usize>, A::Error> {
        self.skip().visit_seq(items).map(|()| 0..0)
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<Range<usize>, A::Error> {
        self.skip().visit_map(entries).map(|()| 0..0)
    }
}
