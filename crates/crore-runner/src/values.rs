//! Settings that hold one value or many: headers, metadata, query parameters.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::secret::SecretRef;

/// One value, or a list of them.
#[derive(Debug, Clone, Default)]
pub(crate) struct SecretValues(pub(crate) Vec<SecretRef>);

impl<'de> Deserialize<'de> for SecretValues {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = SecretValues;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, or a list of texts")
            }

            fn visit_str<E>(self, text: &str) -> Result<SecretValues, E> {
                Ok(SecretValues(vec![SecretRef::new(text)]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<SecretValues, A::Error> {
                let mut values = Vec::new();
                while let Some(text) = items.next_element::<String>()? {
                    values.push(SecretRef::new(text));
                }
                Ok(SecretValues(values))
            }
        }

        reader.deserialize_any(Reader)
    }
}

/// Ordered names and values: a list of pairs, or an object whose values may be lists.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pairs(pub(crate) Vec<(String, SecretRef)>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = Pairs;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object, or a list of pairs")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Pairs, A::Error> {
                let mut pairs = Vec::new();
                while let Some((name, SecretValues(values))) = entries.next_entry::<String, _>()? {
                    pairs.extend(values.into_iter().map(|value| (name.clone(), value)));
                }
                Ok(Pairs(pairs))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Pairs, A::Error> {
                let mut pairs = Vec::new();
                while let Some((name, value)) = items.next_element::<(String, String)>()? {
                    pairs.push((name, SecretRef::new(value)));
                }
                Ok(Pairs(pairs))
            }
        }

        reader.deserialize_any(Reader)
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;
    use crate::settings::read;

    #[derive(Debug, Default, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct Sample {
        values: SecretValues,
        pairs: Pairs,
    }

    fn pairs(value: &serde_json::Value) -> Vec<(String, String)> {
        let Sample { pairs: Pairs(pairs), .. } = read(&json!({ "pairs": value })).expect("good");
        let text = |(name, value): (String, SecretRef)| (name, value.resolve().expect("itself"));
        pairs.into_iter().map(text).collect()
    }

    #[test]
    fn single_value_becomes_list_of_one() {
        for (given, n) in [(json!("a"), 1), (json!([]), 0), (json!(["a", "b"]), 2)] {
            let read: Sample = read(&json!({ "values": given })).expect("good");
            assert_eq!(read.values.0.len(), n);
        }
        let expected = [("a", "1"), ("a", "2")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        assert_eq!(pairs(&json!({ "a": ["1", "2"] })), expected);
        assert_eq!(pairs(&json!([["a", "1"], ["a", "2"]])), expected);
    }

    #[test]
    fn errors_name_the_field() {
        for (given, field) in [
            (json!({ "values": 1 }), "settings.values"),
            (json!({ "values": ["a", 1] }), "settings.values[1]"),
            (json!({ "pairs": { "a": { "b": "c" } } }), "settings.pairs.a"),
            (json!({ "pairs": [["a"]] }), "settings.pairs[0]"),
        ] {
            assert_eq!(read::<Sample>(&given).expect_err("wrong").field, field);
        }
    }
}
