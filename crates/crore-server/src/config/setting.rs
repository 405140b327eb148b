//! What a value of the configuration may be, and the words in which it is said.

use std::net::SocketAddr;
use std::path::PathBuf;

use crore_core::Span;

use super::words;

/// A value as it was given: one text, or a list of them. Numbers and `true` are texts too, so that a
/// file, the environment and a flag say the same thing in the same way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Given {
    One(String),
    Many(Vec<String>),
}

impl Given {
    /// As it is shown to people.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::One(text) => text.clone(),
            Self::Many(texts) => format!("[{}]", texts.join(", ")),
        }
    }

    pub(super) fn one(&self) -> Result<&str, String> {
        match self {
            Self::One(text) => Ok(text),
            Self::Many(_) => Err("one value is wanted here, and not a list".to_owned()),
        }
    }
}

/// How a value is described in the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Flag,
    Number,
    /// A number from 0 to 1.
    Share,
    /// A number that may have a part behind the point.
    Decimal,
    Text,
    /// A number and a unit: `30s`.
    Span,
    /// A number and a unit: `64MiB`.
    Size,
    /// A port, or an address with one.
    Port,
    OneOf(&'static [&'static str]),
    /// One text, or a list of them.
    Texts,
    /// Where a secret is to be found.
    Secret,
}

/// A type that a key may have.
pub(crate) trait Setting: Sized {
    const SHAPE: Shape;

    /// The value, or what is wrong with it.
    fn read(given: &Given) -> Result<Self, String>;

    /// The value of a key that nobody has given and that has no default.
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

impl Setting for Span {
    const SHAPE: Shape = Shape::Span;

    fn read(given: &Given) -> Result<Self, String> {
        words::span(given.one()?)
    }
}

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Size(pub(crate) u64);

impl Setting for Size {
    const SHAPE: Shape = Shape::Size;

    fn read(given: &Given) -> Result<Self, String> {
        words::size(given.one()?).map(Self)
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

/// Some texts; in one text they stand with commas between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Texts(pub(crate) Vec<String>);

impl Setting for Texts {
    const SHAPE: Shape = Shape::Texts;

    fn read(given: &Given) -> Result<Self, String> {
        let texts: Vec<&str> = match given {
            Given::One(text) => text.split(',').map(str::trim).collect(),
            Given::Many(texts) => texts.iter().map(String::as_str).collect(),
        };
        if texts.contains(&"") {
            return Err("an empty text means nothing".to_owned());
        }
        Ok(Self(texts.into_iter().map(str::to_owned).collect()))
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

/// Addresses to listen on: at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Addresses(pub(crate) Vec<SocketAddr>);

impl Setting for Addresses {
    const SHAPE: Shape = Shape::Texts;

    fn read(given: &Given) -> Result<Self, String> {
        let texts: Vec<&str> = match given {
            Given::One(text) => text.split(',').map(str::trim).collect(),
            Given::Many(texts) => texts.iter().map(String::as_str).collect(),
        };
        if texts.is_empty() {
            return Err("at least one address is needed".to_owned());
        }
        texts.into_iter().map(words::address).collect::<Result<_, _>>().map(Self)
    }
}

/// Where an extra listener is: a port beside the main address, or an address of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Port {
    Beside(u16),
    At(SocketAddr),
}

impl Port {
    /// The address, where the main one is at `main`.
    pub(crate) const fn resolve(self, main: SocketAddr) -> SocketAddr {
        match self {
            Self::Beside(port) => SocketAddr::new(main.ip(), port),
            Self::At(address) => address,
        }
    }
}

impl Setting for Port {
    const SHAPE: Shape = Shape::Port;

    fn read(given: &Given) -> Result<Self, String> {
        let text = given.one()?;
        match text.parse() {
            Ok(port) => Ok(Self::Beside(port)),
            Err(_) => words::address(text).map(Self::At),
        }
    }
}

/// Declares a setting that is one of some words.
macro_rules! one_of {
    ($(#[doc = $about:literal])+ $name:ident { $($(#[doc = $doc:literal])+ $variant:ident = $word:literal,)+ }) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum $name {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl $crate::config::setting::Setting for $name {
            const SHAPE: $crate::config::setting::Shape =
                $crate::config::setting::Shape::OneOf(&[$($word),+]);

            fn read(given: &$crate::config::setting::Given) -> Result<Self, String> {
                match given.shown().as_str() {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(format!("say one of: {}", [$($word),+].join(", "))),
                }
            }
        }
    };
}

pub(crate) use one_of;
