//! Types of configuration values, and how they are read.

use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;

use crate::time::Span;
use crate::units::Size;

/// A raw configuration value: one string, or a list. Numbers and booleans are strings too, so that a file,
/// the environment and a flag have the same syntax.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingValue {
    /// One string.
    One(String),
    /// A list.
    Many(Vec<String>),
}

impl SettingValue {
    /// The value for display.
    pub fn shown(&self) -> String {
        match self {
            Self::One(text) => text.clone(),
            Self::Many(texts) => format!("[{}]", texts.join(", ")),
        }
    }

    /// The single string, or an error for a list.
    pub fn one(&self) -> Result<&str, String> {
        match self {
            Self::One(text) => Ok(text),
            Self::Many(_) => Err("expected one value, found a list".to_owned()),
        }
    }

    /// The items of a list; a single string is split at commas.
    pub fn texts(&self) -> Vec<&str> {
        match self {
            Self::One(text) => text.split(',').map(str::trim).collect(),
            Self::Many(texts) => texts.iter().map(String::as_str).collect(),
        }
    }

    /// The items of a list; an empty item is an error.
    pub fn words(&self) -> Result<Vec<&str>, String> {
        match self.texts() {
            texts if texts.contains(&"") => Err("an item of a list must not be empty".to_owned()),
            texts => Ok(texts),
        }
    }
}

/// Type of a value, for the configuration schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// `true` or `false`.
    Flag,
    /// A non-negative integer.
    Number,
    /// A number from 0 to 1.
    Share,
    /// A decimal number.
    Decimal,
    /// A string.
    Text,
    /// A duration: `30s`.
    Span,
    /// A size: `64MiB`.
    Size,
    /// A port, or an address with one.
    Port,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A string, or a list of strings.
    Texts,
    /// A secret. The configuration contains a reference, which [`ValueSource`](super::ValueSource) resolves; the
    /// key reads the secret itself.
    Secret,
    /// A reference to a secret, resolved on use; the key reads the reference.
    Reference,
}

/// A type that a configuration key can have.
pub trait Setting: Sized {
    /// The type in the configuration schema.
    const SHAPE: Shape;

    /// Parses the value; the error is a message for the operator.
    fn read(given: &SettingValue) -> Result<Self, String>;

    /// The value of a key that is not set and has no default; `None` if the type needs a default.
    fn absent() -> Option<Self> {
        None
    }
}

impl Setting for bool {
    const SHAPE: Shape = Shape::Flag;

    fn read(given: &SettingValue) -> Result<Self, String> {
        match given.one()? {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err("expected `true` or `false`".to_owned()),
        }
    }
}

impl Setting for u64 {
    const SHAPE: Shape = Shape::Number;

    fn read(given: &SettingValue) -> Result<Self, String> {
        let digits = given.one()?.replace('_', "");
        digits.parse().map_err(|_| "expected a whole number".to_owned())
    }
}

/// Integers that saturate at their maximum.
macro_rules! saturating_integers {
    ($($number:ty)+) => {$(
        impl Setting for $number {
            const SHAPE: Shape = Shape::Number;

            fn read(given: &SettingValue) -> Result<Self, String> {
                u64::read(given).map(|n| Self::try_from(n).unwrap_or(Self::MAX))
            }
        }
    )+};
}

saturating_integers!(u32 usize);

/// A number that is unlimited (`u64::MAX`) unless set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unlimited(pub u64);

impl Setting for Unlimited {
    const SHAPE: Shape = Shape::Number;

    fn read(given: &SettingValue) -> Result<Self, String> {
        u64::read(given).map(Self)
    }

    fn absent() -> Option<Self> {
        Some(Self(u64::MAX))
    }
}

impl From<Unlimited> for u64 {
    fn from(number: Unlimited) -> Self {
        number.0
    }
}

impl Setting for Span {
    const SHAPE: Shape = Shape::Span;

    fn read(given: &SettingValue) -> Result<Self, String> {
        given.one()?.parse().map_err(|_| {
            "expected a duration such as `30s` or `1h30m` (units: d, h, m, s, ms)".to_owned()
        })
    }
}

impl Setting for Size {
    const SHAPE: Shape = Shape::Size;

    fn read(given: &SettingValue) -> Result<Self, String> {
        given
            .one()?
            .parse()
            .map_err(|_| "expected a size such as `64MiB` (units: B, KiB, MiB, GiB)".to_owned())
    }
}

impl Setting for PathBuf {
    const SHAPE: Shape = Shape::Text;

    fn read(given: &SettingValue) -> Result<Self, String> {
        match given.one()? {
            "" => Err("a path cannot be empty".to_owned()),
            path => Ok(path.into()),
        }
    }
}

impl Setting for String {
    const SHAPE: Shape = Shape::Text;

    fn read(given: &SettingValue) -> Result<Self, String> {
        given.one().map(str::to_owned)
    }
}

impl<T: Setting> Setting for Option<T> {
    const SHAPE: Shape = T::SHAPE;

    fn read(given: &SettingValue) -> Result<Self, String> {
        T::read(given).map(Some)
    }

    fn absent() -> Option<Self> {
        Some(None)
    }
}

/// A reference to a secret: `env:NAME` or `file:/path`. Resolved on use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference(String);

impl Reference {
    /// The reference as configured.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Reference {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            text if text.starts_with("env:") || text.starts_with("file:") => {
                Ok(Self(text.to_owned()))
            }
            _ => Err("expected a reference to a secret: `env:NAME` or `file:/path`".to_owned()),
        }
    }
}

impl Setting for Reference {
    const SHAPE: Shape = Shape::Reference;

    fn read(given: &SettingValue) -> Result<Self, String> {
        given.one()?.parse()
    }
}

/// A list; empty if it is not set and has no default.
impl<T: FromStr<Err: Display>> Setting for Vec<T> {
    const SHAPE: Shape = Shape::Texts;

    fn read(given: &SettingValue) -> Result<Self, String> {
        let parse = |text: &str| text.parse::<T>().map_err(|why| why.to_string());
        given.texts().into_iter().map(parse).collect()
    }

    fn absent() -> Option<Self> {
        Some(Self::new())
    }
}
