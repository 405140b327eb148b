//! What a value of the configuration may be, and how it is read.

use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;

use crate::time::Span;
use crate::words::Size;

/// A value as it was given: one text, or a list of them. Numbers and `true` are texts too, so that a
/// file, the environment and a flag say the same thing in the same way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Given {
    /// One text.
    One(String),
    /// A list.
    Many(Vec<String>),
}

impl Given {
    /// As it is shown to people.
    pub fn shown(&self) -> String {
        match self {
            Self::One(text) => text.clone(),
            Self::Many(texts) => format!("[{}]", texts.join(", ")),
        }
    }

    /// The one text, or why there is none.
    pub fn one(&self) -> Result<&str, String> {
        match self {
            Self::One(text) => Ok(text),
            Self::Many(_) => Err("one value is wanted here, and not a list".to_owned()),
        }
    }

    /// The texts of a list; in one text they are separated by commas.
    pub fn texts(&self) -> Vec<&str> {
        match self {
            Self::One(text) => text.split(',').map(str::trim).collect(),
            Self::Many(texts) => texts.iter().map(String::as_str).collect(),
        }
    }

    /// The texts of a list, of which none may be empty.
    pub fn words(&self) -> Result<Vec<&str>, String> {
        match self.texts() {
            texts if texts.contains(&"") => Err("an empty text means nothing".to_owned()),
            texts => Ok(texts),
        }
    }
}

/// How a value is described in the schema of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// `true` or `false`.
    Flag,
    /// A whole number from 0 on.
    Number,
    /// A number from 0 to 1.
    Share,
    /// A number that may have a part behind the point.
    Decimal,
    /// Any text.
    Text,
    /// A number and a unit: `30s`.
    Span,
    /// A number and a unit: `64MiB`.
    Size,
    /// A port, or an address with one.
    Port,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// One text, or a list of them.
    Texts,
    /// A secret. The configuration names where it is kept, and [`Values`](super::Values)
    /// resolve that: the secret itself is read.
    Secret,
    /// Where a secret is kept, to be resolved when it is needed: the reference is read.
    Reference,
}

/// A type that a key may have.
pub trait Setting: Sized {
    /// How it is described.
    const SHAPE: Shape;

    /// The value, or what is wrong with it.
    fn read(given: &Given) -> Result<Self, String>;

    /// The value of a key that is not given and has no default; `None`: such a key needs a default.
    fn absent() -> Option<Self> {
        None
    }
}

impl Setting for bool {
    const SHAPE: Shape = Shape::Flag;

    fn read(given: &Given) -> Result<Self, String> {
        match given.one()? {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err("say `true` or `false`".to_owned()),
        }
    }
}

impl Setting for u64 {
    const SHAPE: Shape = Shape::Number;

    fn read(given: &Given) -> Result<Self, String> {
        let digits = given.one()?.replace('_', "");
        digits.parse().map_err(|_| "this is no whole number from 0 on".to_owned())
    }
}

/// A number that does not fit is as large as any can be.
macro_rules! smaller {
    ($($number:ty)+) => {$(
        impl Setting for $number {
            const SHAPE: Shape = Shape::Number;

            fn read(given: &Given) -> Result<Self, String> {
                u64::read(given).map(|n| Self::try_from(n).unwrap_or(Self::MAX))
            }
        }
    )+};
}

smaller!(u32 usize);

/// A number that means "any number" unless it is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unlimited(pub u64);

impl Setting for Unlimited {
    const SHAPE: Shape = Shape::Number;

    fn read(given: &Given) -> Result<Self, String> {
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

    fn read(given: &Given) -> Result<Self, String> {
        given.one()?.parse().map_err(|_| {
            "write numbers with units (d, h, m, s, ms), as in `30s` or `1h30m`".to_owned()
        })
    }
}

impl Setting for Size {
    const SHAPE: Shape = Shape::Size;

    fn read(given: &Given) -> Result<Self, String> {
        given
            .one()?
            .parse()
            .map_err(|_| "write a number and a unit (B, KiB, MiB, GiB), as in `64MiB`".to_owned())
    }
}

impl Setting for PathBuf {
    const SHAPE: Shape = Shape::Text;

    fn read(given: &Given) -> Result<Self, String> {
        match given.one()? {
            "" => Err("a path cannot be empty".to_owned()),
            path => Ok(path.into()),
        }
    }
}

impl Setting for String {
    const SHAPE: Shape = Shape::Text;

    fn read(given: &Given) -> Result<Self, String> {
        given.one().map(str::to_owned)
    }
}

impl<T: Setting> Setting for Option<T> {
    const SHAPE: Shape = T::SHAPE;

    fn read(given: &Given) -> Result<Self, String> {
        T::read(given).map(Some)
    }

    fn absent() -> Option<Self> {
        Some(None)
    }
}

/// Where a secret is kept: `env:NAME` or `file:/path`. It is resolved when the secret is needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference(String);

impl Reference {
    /// As it was given.
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
            _ => Err("say where it is: `env:NAME` or `file:/path`".to_owned()),
        }
    }
}

impl Setting for Reference {
    const SHAPE: Shape = Shape::Reference;

    fn read(given: &Given) -> Result<Self, String> {
        given.one()?.parse()
    }
}

/// A list; without a default it is empty unless it is given.
impl<T: FromStr<Err: Display>> Setting for Vec<T> {
    const SHAPE: Shape = Shape::Texts;

    fn read(given: &Given) -> Result<Self, String> {
        let parse = |text: &str| text.parse::<T>().map_err(|why| why.to_string());
        given.texts().into_iter().map(parse).collect()
    }

    fn absent() -> Option<Self> {
        Some(Self::new())
    }
}
