//! Value types of the section `runners`.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crore_core::settings::{Setting, SettingValue, Shape};

/// A count of at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PositiveCount(pub u32);

impl Setting for PositiveCount {
    const SHAPE: Shape = Shape::Number;

    fn read(given: &SettingValue) -> Result<Self, String> {
        let n = given.one()?.replace('_', "").parse().ok().filter(|n| *n > 0);
        n.map(Self).ok_or_else(|| "expected a whole number of at least 1".to_owned())
    }
}

/// A number of processors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cpus(pub f64);

impl Setting for Cpus {
    const SHAPE: Shape = Shape::Decimal;

    fn read(given: &SettingValue) -> Result<Self, String> {
        match given.one()?.parse() {
            Ok(cpus) if (0.001..=1e6).contains(&cpus) => Ok(Self(cpus)),
            _ => Err("expected a number of CPUs, such as `2` or `0.5`".to_owned()),
        }
    }
}

/// Environment variables. One without a value is copied from crore's own environment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Variables(pub BTreeMap<String, Option<String>>);

impl Setting for Variables {
    const SHAPE: Shape = Shape::Texts;

    fn read(given: &SettingValue) -> Result<Self, String> {
        let mut all = BTreeMap::new();
        for text in given.words()? {
            let (name, value) = match text.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (text, None),
            };
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if name.is_empty() || !name.chars().all(is_name) || text.contains('\0') {
                return Err(format!("`{text}` is neither NAME=VALUE nor the name of a variable"));
            }
            if all.insert(name.to_owned(), value).is_some() {
                return Err(format!("`{name}` is given twice"));
            }
        }
        Ok(Self(all))
    }

    fn absent() -> Option<Self> {
        Some(Self::default())
    }
}

/// A Linux capability, without the prefix `CAP_`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capability(String);

impl FromStr for Capability {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let name = text.strip_prefix("CAP_").unwrap_or(text);
        let is_name =
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
        match is_name && name != "ALL" {
            true => Ok(Self(name.to_owned())),
            false => Err(format!("`{text}` is not a capability such as `CHOWN`")),
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
