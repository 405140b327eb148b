//! Reads a TOML configuration file and records the line of each value.

use std::path::Path;

use anyhow::Context;
use crore_core::settings::SettingValue;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::raw::{ConfigSource, RawConfig};

/// Reads a file into `raw`.
pub(crate) fn read(path: &Path, raw: &mut RawConfig) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the configuration `{}`", path.display()))?;
    parse(&path.display().to_string(), &text, raw);
    Ok(())
}

/// Parses the text of a file into `raw`. Syntax errors are recorded like other errors.
pub(crate) fn parse(path: &str, text: &str, raw: &mut RawConfig) {
    let file = TomlFile { path, text };
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        let at = error.span().map_or(0, |span| span.start);
        raw.add_error("", None, file.source(at), error.message().replace('\n', ", "));
    }
    for (name, value) in table.get_ref() {
        let section: &str = name.get_ref();
        match value.get_ref() {
            DeValue::Table(keys) => file.section(section, keys, raw),
            _ => file.key(section, value, raw),
        }
    }
}

struct TomlFile<'a> {
    path: &'a str,
    text: &'a str,
}

impl TomlFile<'_> {
    fn source(&self, at: usize) -> ConfigSource {
        let before = self.text.as_bytes().iter().take(at);
        let line = 1 + before.filter(|byte| **byte == b'\n').count();
        ConfigSource::File { path: self.path.to_owned(), line }
    }

    fn section(&self, section: &str, keys: &DeTable<'_>, raw: &mut RawConfig) {
        if keys.is_empty() && !super::SECTIONS.iter().any(|info| info.name == section) {
            let source = ConfigSource::File { path: self.path.to_owned(), line: 1 };
            raw.put(section, SettingValue::One(String::new()), source);
        }
        for (name, value) in keys {
            self.key(&format!("{section}.{}", name.get_ref()), value, raw);
        }
    }

    fn key(&self, path: &str, value: &Spanned<DeValue<'_>>, raw: &mut RawConfig) {
        let source = self.source(value.span().start);
        let given = match value.get_ref() {
            DeValue::Array(items) => {
                let texts: Option<Vec<String>> =
                    items.iter().map(|item| scalar(item.get_ref())).collect();
                texts.map(SettingValue::Many)
            }
            value => scalar(value).map(SettingValue::One),
        };
        match given {
            Some(given) => raw.put(path, given, source),
            None => {
                let kind = value.get_ref().type_str();
                raw.add_error(
                    path,
                    None,
                    source,
                    format!("a value of type {kind} is not allowed here"),
                );
            }
        }
    }
}

fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.clone().into_owned()),
        DeValue::Integer(number) if number.radix() == 10 => Some(number.as_str().to_owned()),
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        DeValue::Boolean(flag) => Some(flag.to_string()),
        _ => None,
    }
}
