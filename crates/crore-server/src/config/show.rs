//! Output of `crore config show`: the effective configuration and the source of each value.

use std::fmt::Write;

use crore_core::settings::{SettingKey, SettingValue};
use serde_json::{Map, Value, json};

use super::SECTIONS;
use super::raw::RawConfig;
use super::schema::typed;

/// As TOML that can be read back, with the source of each value as a comment.
pub(crate) fn text(raw: &RawConfig) -> String {
    let mut lines: Vec<(String, String)> = Vec::new();
    for info in SECTIONS {
        lines.push((String::new(), String::new()));
        lines.push((format!("[{}]", info.name), String::new()));
        for key in info.keys {
            let (given, source) = raw.effective(&key.path());
            lines.push(match given {
                Some(given) => {
                    (format!("{} = {}", key.name(), value(key, &given)), source.to_string())
                }
                None => (format!("# {} =", key.name()), "not set".to_owned()),
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
        written.expect("writing to a string cannot fail");
    }
    text
}

/// As JSON: each key with its value and source.
pub(crate) fn object(raw: &RawConfig) -> Value {
    let sections = SECTIONS.iter().map(|info| {
        let keys = info.keys.iter().map(|key| {
            let (given, source) = raw.effective(&key.path());
            let value = given.map(|given| value(key, &given));
            (key.name(), json!({ "value": value, "source": source.to_string() }))
        });
        (info.name.to_owned(), Value::Object(keys.collect()))
    });
    Value::Object(sections.collect::<Map<_, _>>())
}

fn value(key: &SettingKey, given: &SettingValue) -> Value {
    match given {
        SettingValue::One(text) => typed(key.shape, text),
        SettingValue::Many(texts) => texts.iter().map(|text| typed(key.shape, text)).collect(),
    }
}
