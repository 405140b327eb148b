//! Configuration sections: options declared once, in the crate that uses them.
//!
//! [`section!`] declares a struct of options with its documentation and `Default`, and a description for the
//! configuration: the section name, and each key with its documentation, value type and default. The server
//! joins the sections of all crates and reads them from [`ValueSource`]; this module reads no file and no
//! environment variable.

mod declare;
mod setting;

pub use crate::{one_of, section};
#[doc(hidden)]
pub use declare::{count, join_keys};
pub use setting::{Reference, Setting, SettingValue, Shape, Unlimited};

/// A section of the configuration, or a part of one. Declared by [`section!`].
pub trait Section: Sized {
    /// Description of the section.
    const INFO: SectionSchema;

    /// Reads the options. An invalid value is reported to `values` and replaced by its default.
    fn read(values: &mut dyn ValueSource) -> Self;
}

/// Description of a section.
#[derive(Debug, Clone, Copy)]
pub struct SectionSchema {
    /// The name: `listen`.
    pub name: &'static str,
    /// Documentation, line by line.
    pub about: &'static [&'static str],
    /// The keys, in display order.
    pub keys: &'static [SettingKey],
}

/// A key of a section.
#[derive(Debug, Clone, Copy)]
pub struct SettingKey {
    /// The name of its section.
    pub section: &'static str,
    /// The key as an identifier, with underscores.
    pub ident: &'static str,
    /// Documentation, line by line.
    pub about: &'static [&'static str],
    /// Type of the value.
    pub shape: Shape,
    /// The default as written in a file; `None`: no default.
    pub default: Option<&'static str>,
}

impl SettingKey {
    /// The key as written in a file, below its section: `drain-for`.
    pub fn name(&self) -> String {
        self.ident.replace('_', "-")
    }

    /// The full name: `listen.drain-for`.
    pub fn path(&self) -> String {
        format!("{}.{}", self.section, self.name())
    }

    /// The environment variable: `CRORE_LISTEN__DRAIN_FOR`.
    pub fn variable(&self) -> String {
        format!("CRORE_{}__{}", self.section, self.ident).to_uppercase()
    }
}

/// Joins the lines of a documentation comment.
pub fn doc_text(about: &[&str]) -> String {
    about.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}

/// A source of configuration values.
pub trait ValueSource {
    /// The value of a key; `None` if its default applies. For a key of [`Shape::Secret`], the secret itself.
    fn given(&mut self, key: &SettingKey) -> Option<SettingValue>;

    /// Reports that the value of a key is invalid.
    fn refuse(&mut self, key: &SettingKey, message: String);
}

/// A source without values, for `Default`.
#[derive(Debug)]
pub struct Defaults;

impl ValueSource for Defaults {
    fn given(&mut self, _: &SettingKey) -> Option<SettingValue> {
        None
    }

    fn refuse(&mut self, key: &SettingKey, message: String) {
        panic!("{}: {message}", key.path());
    }
}

/// Reads the value of a key. An invalid value is reported and replaced by the default, so that all errors of a
/// configuration are found at once.
///
/// # Panics
/// If the default of the key is invalid, which is a bug in its declaration.
pub fn read<T: Setting>(values: &mut dyn ValueSource, key: &SettingKey) -> T {
    match values.given(key).as_ref().map(T::read) {
        Some(Ok(value)) => value,
        Some(Err(message)) => {
            values.refuse(key, message);
            default(key)
        }
        None => default(key),
    }
}

fn default<T: Setting>(key: &SettingKey) -> T {
    let read = match key.default {
        Some(text) => T::read(&SettingValue::One(text.to_owned())),
        None => T::absent().ok_or_else(|| "the type needs a default".to_owned()),
    };
    read.unwrap_or_else(|why| panic!("invalid default of `{}`: {why}", key.path()))
}

#[cfg(test)]
mod tests;
