//! The JSON Schema of the configuration, for editors.

use crore_core::settings::{SectionSchema, SettingKey, Shape, doc_text};
use serde_json::{Map, Value, json};

use super::SECTIONS;

/// The schema.
pub(crate) fn schema() -> Value {
    let channels = json!({
        "description": "Queues served by handlers in this process, with the concurrency of each; see `runners.channels`.",
        "type": "object",
        "additionalProperties": { "type": "integer", "minimum": 1, "maximum": 10_000 },
    });
    let sections = SECTIONS.iter().map(|info| (info.name.to_owned(), section(info)));
    let sections = sections.chain([("channels".to_owned(), channels)]);
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "crore.toml",
        "description": "Configuration of the crore server.",
        "type": "object",
        "properties": sections.collect::<Map<_, _>>(),
        "additionalProperties": false,
    })
}

fn section(info: &SectionSchema) -> Value {
    let keys = info.keys.iter().map(|key| (key.name(), value(key)));
    json!({
        "description": doc_text(info.about),
        "type": "object",
        "properties": keys.collect::<Map<_, _>>(),
        "additionalProperties": false,
    })
}

fn value(key: &SettingKey) -> Value {
    let mut schema = shape(key.shape);
    if let Value::Object(fields) = &mut schema {
        fields.insert("description".to_owned(), doc_text(key.about).into());
        if let Some(default) = key.default {
            fields.insert("default".to_owned(), typed(key.shape, default));
        }
    }
    schema
}

fn shape(shape: Shape) -> Value {
    match shape {
        Shape::Flag => json!({ "type": "boolean" }),
        Shape::Number => json!({ "type": "integer", "minimum": 0 }),
        Shape::Share => json!({ "type": "number", "minimum": 0, "maximum": 1 }),
        Shape::Decimal => json!({ "type": "number", "exclusiveMinimum": 0 }),
        Shape::Text => json!({ "type": "string" }),
        Shape::Span => json!({ "type": "string", "pattern": "^([0-9]+(d|h|m|s|ms))+$" }),
        Shape::Size => json!({ "type": "string", "pattern": "^[0-9]+([KMG]iB|[KMG]?B)?$" }),
        Shape::Port => json!({
            "anyOf": [
                { "type": "integer", "minimum": 0, "maximum": 65535 },
                { "type": "string" },
            ],
        }),
        Shape::OneOf(words) => json!({ "enum": words }),
        Shape::Texts => json!({
            "anyOf": [
                { "type": "string" },
                { "type": "array", "items": { "type": "string" }, "minItems": 1 },
            ],
        }),
        Shape::Secret | Shape::Reference => json!({ "type": "string", "pattern": "^(file|env):." }),
    }
}

/// A value in the JSON type that matches its TOML type.
pub(super) fn typed(shape: Shape, text: &str) -> Value {
    match shape {
        Shape::Flag => text.parse().map_or_else(|_| text.into(), Value::Bool),
        Shape::Number | Shape::Port => {
            let number = text.replace('_', "").parse::<u64>();
            number.map_or_else(|_| text.into(), Value::from)
        }
        Shape::Share | Shape::Decimal => {
            text.parse::<f64>().map_or_else(|_| text.into(), Value::from)
        }
        Shape::Text
        | Shape::Span
        | Shape::Size
        | Shape::OneOf(_)
        | Shape::Texts
        | Shape::Secret
        | Shape::Reference => text.into(),
    }
}
