//! Ids and labels, and the OpenAPI schemas of scalar types.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crore_core::code::excerpt;
use crore_core::{Delivery, GroupId, JobId};
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaType, Type};
use utoipa::openapi::{KnownFormat, RefOr, SchemaFormat};
use utoipa::{PartialSchema, ToSchema};

use crate::Raw;
use crate::strict::{KeySeed, UniqueKeys};
use crate::units::{Moment, Period};

macro_rules! ids {
    ($($(#[$doc:meta])+ $name:ident: $most:expr,)+) => {$(
        $(#[$doc])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl FromStr for $name {
            type Err = String;

            /// Accepts the canonical form only: digits without sign or leading zeros.
            fn from_str(text: &str) -> Result<Self, String> {
                let plain = !text.starts_with(['0', '+']);
                let number = text.parse().ok().filter(|n| plain && (1..=$most).contains(n));
                number.map(Self).ok_or_else(|| format!("`{}` is not an id", excerpt(text)))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, writer: S) -> Result<S::Ok, S::Error> {
                writer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
                Cow::<str>::deserialize(reader)?.parse().map_err(de::Error::custom)
            }
        }
    )+};
}

ids! {
    /// Id of a job or a group: up to 19 digits, as a string.
    Id: i64::MAX as u64,
    /// Number of a delivery, as a string.
    DeliveryId: u64::MAX,
}

macro_rules! convert_ids {
    ($($wire:ident: $core:ident),+) => {$(
        impl From<$core> for $wire {
            fn from(id: $core) -> Self {
                Self(id.0)
            }
        }

        impl From<$wire> for $core {
            fn from(id: $wire) -> Self {
                Self(id.0)
            }
        }
    )+};
}

convert_ids!(Id: JobId, Id: GroupId, DeliveryId: Delivery);

/// Labels: strings by unique name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Labels(pub BTreeMap<String, String>);

impl Serialize for Labels {
    fn serialize<S: Serializer>(&self, writer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(writer)
    }
}

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        reader.deserialize_map(LabelVisitor)
    }
}

struct LabelVisitor;

impl<'de> Visitor<'de> for LabelVisitor {
    type Value = Labels;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of labels")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Labels, A::Error> {
        let mut labels = BTreeMap::new();
        let mut keys = UniqueKeys::default();
        while let Some(key) = entries.next_key_seed(KeySeed)? {
            let name = key.clone().into_owned();
            keys.add(key)?;
            labels.insert(name, entries.next_value()?);
        }
        Ok(Labels(labels))
    }
}

/// Schema of the name of a queue, kind, schedule, limit or worker. Never instantiated: names are parsed as strings
/// and validated by [`crore_core::Name`].
#[derive(Debug, Clone, Copy)]
pub enum Name {}

/// Schema of a job in a path. Never instantiated: only the server that stores the job can resolve its UUID.
#[derive(Debug, Clone, Copy)]
pub enum JobPathId {}

macro_rules! schemas {
    ($($name:ident = $schema:expr;)+) => {$(
        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                RefOr::T(Schema::Object($schema.build()))
            }
        }

        impl ToSchema for $name {}
    )+};
}

/// No control characters.
const NAME: &str = r"^[^\x00-\x1f\x7f-\x9f]+$";

fn text(about: &str, pattern: &str, example: &str) -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(SchemaType::Type(Type::String))
        .description(Some(about))
        .pattern(Some(pattern))
        .examples([example])
}

schemas! {
    Id = text("Id of a job or a group.", "^[1-9][0-9]{0,17}$", "17");
    JobPathId = text(
        "Id of a job, or its UUID.",
        "^([1-9][0-9]{0,17}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})$",
        "17",
    );
    DeliveryId = text("Number of a delivery.", "^[1-9][0-9]{0,18}$", "4294967297");
    Name = text("A name: at most 255 bytes, without control characters.", NAME, "mail")
        .min_length(Some(1))
        .max_length(Some(255));
    Period = text(
        "A duration; the units are `d`, `h`, `m`, `s` and `ms`.",
        "^([0-9]{1,9}d|[0-9]{1,11}h|[0-9]{1,13}m|[0-9]{1,15}s|[0-9]{1,18}ms)+$",
        "30s",
    );
    Moment = ObjectBuilder::new()
        .schema_type(SchemaType::Type(Type::String))
        .description(Some("An instant in RFC 3339 format, with a zone."))
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
        .examples(["2026-11-15T08:00:00Z"]);
    Labels = ObjectBuilder::new()
        .schema_type(SchemaType::Type(Type::Object))
        .description(Some("Free-form labels to filter jobs by, at most 32."))
        .additional_properties(Some(ObjectBuilder::new().schema_type(SchemaType::Type(Type::String))));
    Raw = ObjectBuilder::new()
        .schema_type(SchemaType::AnyValue)
        .description(Some("Any value."));
}
