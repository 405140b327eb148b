//! The configuration as it is, with where each value came from.

use std::fmt::Write;

use crore_core::settings::{Given, Key};
use serde_json::{Map, Value, json};

use super::INFOS;
use super::raw::Raw;
use super::schema::typed;

/// As a file that could be read again, each line with where its value came from.
pub(crate) fn text(raw: &Raw) -> String {
    let mut lines: Vec<(String, String)> = Vec::new();
    for info in INFOS {
        lines.push((String::new(), String::new()));
        lines.push((format!("[{}]", info.name), String::new()));
        for key in info.keys {
            let (given, source) = raw.chosen(&key.path());
            lines.push(match given {
                Some(given) => {
                    (format!("{} = {}", key.name(), value(key, &given)), source.to_string())
                }
                None => (format!("# {} =", key.name()), "not chosen".to_owned()),
            });
        }
    }
    let width = lines.iter().map(|(line, _)| line.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for (line, source) in lines.iter().skip(1) {
        let written = match source.as_str() {
            "" => writeln!(text, "{line}"),
            source => writeln!(text, "{line:width$}  # {source}"),
        };
        written.expect("a string takes every text");
    }
    text
}

/// As an object: each key with its value and its source.
pub(crate) fn object(raw: &Raw) -> Value {
    let sections = INFOS.iter().map(|info| {
        let keys = info.keys.iter().map(|key| {
            let (given, source) = raw.chosen(&key.path());
            let value = given.map(|given| value(key, &given));
            (key.name(), json!({ "value": value, "source": source.to_string() }))
        });
        (info.name.to_owned(), Value::Object(keys.collect()))
    });
    Value::Object(sections.collect::<Map<_, _>>())
}

fn value(key: &Key, given: &Given) -> Value {
    match given {
        Given::One(text) => typed(key.shape, text),
        Given::Many(texts) => texts.iter().map(|text| typed(key.shape, text)).collect(),
    }
}
