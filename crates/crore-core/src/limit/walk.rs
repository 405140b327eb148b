//! Extracts fields from a payload in one pass over its bytes, keeping only the requested values.

use std::fmt;
use std::ops::Range;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::field::{PathStep, PathStepRef};
use super::scalar::{Literal, Number, Scalar};
use crate::payload::{Encoding, Payload};

/// Maximum nesting depth of a payload whose fields are extracted.
pub(super) const MAX_LEVELS: usize = 64;

/// The values at some paths of one payload.
#[derive(Debug)]
pub(super) struct PayloadFields<'p> {
    paths: Vec<&'p [PathStep]>,
    values: Vec<Option<Literal>>,
}

impl<'p> PayloadFields<'p> {
    /// Parses the payload once for all `paths`. A payload that is malformed, nested deeper than
    /// [`MAX_LEVELS`], or neither JSON nor MessagePack has no fields. Of duplicate names in an object the
    /// last counts, as in most JSON parsers. A fraction is read as a double.
    pub(super) fn read(payload: &Payload, mut paths: Vec<&'p [PathStep]>) -> Self {
        paths.sort_unstable_by(|a, b| step_refs(a).cmp(step_refs(b)));
        paths.dedup();
        let mut values = vec![None; paths.len()];
        let visitor =
            FieldVisitor { paths: &paths, values: &mut values, depth: 0, levels: MAX_LEVELS };
        if !read_whole(payload, visitor) {
            values.fill(None);
        }
        Self { paths, values }
    }

    /// The value at `path`, which must be one of the requested paths. `None` if it is absent or not a
    /// scalar.
    pub(super) fn value(&self, path: &[PathStep]) -> Option<&Literal> {
        let index =
            self.paths.binary_search_by(|other| step_refs(other).cmp(step_refs(path))).ok()?;
        self.values[index].as_ref()
    }
}

fn step_refs(path: &[PathStep]) -> impl Iterator<Item = PathStepRef<'_>> {
    path.iter().map(PathStep::as_ref_step)
}

/// Parses the whole payload; returns whether it was valid.
fn read_whole(payload: &Payload, visitor: FieldVisitor<'_, '_>) -> bool {
    match payload.encoding {
        Encoding::Json => {
            let mut reader = serde_json::Deserializer::from_slice(&payload.bytes);
            visitor.deserialize(&mut reader).and_then(|()| reader.end()).is_ok()
        }
        Encoding::Msgpack => {
            let mut left = &payload.bytes[..];
            visitor.deserialize(&mut rmp_serde::Deserializer::new(&mut left)).is_ok()
                && left.is_empty()
        }
        Encoding::Protobuf | Encoding::Text | Encoding::Bytes => false,
    }
}

/// One level down, or an error if the payload is nested too deep.
fn descend<E: de::Error>(levels: usize) -> Result<usize, E> {
    levels.checked_sub(1).ok_or_else(|| E::custom("nested too deep"))
}

/// Visits one value. `paths` are sorted and distinct, and share their first `depth` steps, which lead to
/// this value. Hence a path that ends here comes first, and the paths through one entry are adjacent.
struct FieldVisitor<'a, 'p> {
    paths: &'a [&'p [PathStep]],
    values: &'a mut [Option<Literal>],
    depth: usize,
    levels: usize,
}

impl<'p> FieldVisitor<'_, 'p> {
    /// The visitor of one entry. Values of an earlier entry with the same name are cleared.
    fn child<E: de::Error>(&mut self, range: Range<usize>) -> Result<FieldVisitor<'_, 'p>, E> {
        let levels = descend(self.levels)?;
        let values = &mut self.values[range.clone()];
        values.fill(None);
        Ok(FieldVisitor { paths: &self.paths[range], values, depth: self.depth + 1, levels })
    }

    fn set_value(self, value: impl FnOnce() -> Option<Literal>) {
        if self.paths.first().is_some_and(|path| path.len() == self.depth) {
            self.values[0] = value();
        }
    }

    fn number(self, number: Option<Number>) {
        self.set_value(|| number.map(Scalar::Number));
    }
}

/// The range of the paths that continue with `step`.
fn paths_through(paths: &[&[PathStep]], depth: usize, step: PathStepRef<'_>) -> Range<usize> {
    let next = |path: &&[PathStep]| path.get(depth).map(PathStep::as_ref_step).cmp(&Some(step));
    let start = paths.partition_point(|path| next(path).is_lt());
    start..start + paths[start..].partition_point(|path| next(path).is_eq())
}

impl<'de> DeserializeSeed<'de> for FieldVisitor<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for FieldVisitor<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        self.set_value(|| Some(Scalar::Null));
        Ok(())
    }

    fn visit_bool<E: de::Error>(self, flag: bool) -> Result<(), E> {
        self.set_value(|| Some(Scalar::Bool(flag)));
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
        self.set_value(|| Some(Scalar::Text(text.into())));
        Ok(())
    }

    fn visit_bytes<E: de::Error>(self, _: &[u8]) -> Result<(), E> {
        Ok(())
    }

    /// A MessagePack extension type: skipped, it contains no fields.
    fn visit_newtype_struct<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(FieldVisitor { paths: &[], values: &mut [], ..self })
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        for index in 0..=u32::MAX {
            let range = paths_through(self.paths, self.depth, PathStepRef::Index(index));
            if items.next_element_seed(self.child(range)?)?.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<(), A::Error> {
        let levels = descend(self.levels)?;
        while let Some(range) = entries.next_key_seed(EntryKeyVisitor {
            paths: self.paths,
            depth: self.depth,
            levels,
        })? {
            entries.next_value_seed(self.child(range)?)?;
        }
        Ok(())
    }
}

/// Visits the key of an entry and returns the range of the paths through it. A key that is not text, which
/// MessagePack allows, matches none.
struct EntryKeyVisitor<'a, 'p> {
    paths: &'a [&'p [PathStep]],
    depth: usize,
    levels: usize,
}

impl EntryKeyVisitor<'_, '_> {
    fn skip(&self) -> FieldVisitor<'static, 'static> {
        FieldVisitor { paths: &[], values: &mut [], depth: 0, levels: self.levels }
    }
}

impl<'de> DeserializeSeed<'de> for EntryKeyVisitor<'_, '_> {
    type Value = Range<usize>;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Range<usize>, D::Error> {
        reader.deserialize_any(self)
    }
}

macro_rules! not_a_name {
    ($($visit:ident: $type:ty),+) => {
        $(fn $visit<E: de::Error>(self, _: $type) -> Result<Range<usize>, E> { Ok(0..0) })+
    };
}

impl<'de> Visitor<'de> for EntryKeyVisitor<'_, '_> {
    type Value = Range<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    not_a_name!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_bytes: &[u8]);

    fn visit_unit<E: de::Error>(self) -> Result<Range<usize>, E> {
        Ok(0..0)
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<Range<usize>, E> {
        Ok(paths_through(self.paths, self.depth, PathStepRef::Name(name)))
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
