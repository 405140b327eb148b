//! What a section of the configuration is: its keys are declared once, and reading, showing, the schema
//! and the reference page all come from that.

use super::raw::Raw;
use super::setting::Shape;

/// A section. Declare one with [`section!`], and add a line to the list in [`super`].
pub(crate) trait Section: Sized {
    const INFO: Info;

    /// The section from what was given. What is wrong with it is noted with all other faults.
    fn read(raw: &mut Raw) -> Self;
}

/// What there is to know about a section.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Info {
    pub(crate) name: &'static str,
    pub(crate) about: &'static [&'static str],
    pub(crate) keys: &'static [Key],
}

/// A key of a section.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key {
    pub(crate) section: &'static str,
    /// As it stands in the code, with underscores.
    pub(crate) field: &'static str,
    pub(crate) about: &'static [&'static str],
    pub(crate) shape: Shape,
    /// In the words of a file; `None`: nothing is chosen.
    pub(crate) default: Option<&'static str>,
}

impl Key {
    /// As it stands in a file, below its section: `drain-for`.
    pub(crate) fn name(&self) -> String {
        self.field.replace('_', "-")
    }

    /// Its whole name: `listen.drain-for`.
    pub(crate) fn path(&self) -> String {
        format!("{}.{}", self.section, self.name())
    }

    /// As it stands in the environment: `CRORE_LISTEN__DRAIN_FOR`.
    pub(crate) fn variable(&self) -> String {
        format!("CRORE_{}__{}", self.section, self.field).to_uppercase()
    }
}

/// Lines of a documentation comment as one text.
pub(crate) fn text(about: &[&str]) -> String {
    about.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}

/// Declares a section: its name, and each key with its documentation, type and default, which is a text
/// as it would stand in a file, or `none`.
macro_rules! section {
    (
        $(#[doc = $about:literal])+
        $section:ident = $name:literal {
            $($(#[doc = $doc:literal])+ $field:ident: $kind:ty = $default:tt,)+
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone, PartialEq)]
        pub(crate) struct $section {
            $($(#[doc = $doc])+ pub(crate) $field: $kind,)+
        }

        impl $crate::config::section::Section for $section {
            const INFO: $crate::config::section::Info = $crate::config::section::Info {
                name: $name,
                about: &[$($about),+],
                keys: &[$($crate::config::section::Key {
                    section: $name,
                    field: stringify!($field),
                    about: &[$($doc),+],
                    shape: <$kind as $crate::config::setting::Setting>::SHAPE,
                    default: $crate::config::section::default!($default),
                }),+],
            };

            fn read(raw: &mut $crate::config::raw::Raw) -> Self {
                let mut keys = Self::INFO.keys.iter();
                Self { $($field: raw.read::<$kind>(keys.next().expect("a key for each field")),)+ }
            }
        }
    };
}

macro_rules! default {
    (none) => {
        None
    };
    ($text:literal) => {
        Some($text)
    };
}

pub(crate) use {default, section};
