//! Options of a component that are also keys of the configuration: declared once, in the crate that uses them.
//!
//! [`section!`] declares a struct of options. It yields the struct with its documentation, its `Default`, and
//! what the configuration needs to read, show and describe it: the name of the section, and each key with its
//! documentation, shape and default. The server joins the sections of all crates and reads them from
//! [`Values`]; this module opens no file and reads no environment.
//!
//! ```text
//! setting   what a value may be, and how it is read     declare   the macros
//! ```

mod declare;
mod setting;

pub use crate::{one_of, section};
#[doc(hidden)]
pub use declare::{count, joined};
pub use setting::{Given, Reference, Setting, Shape, Unlimited};

/// Options that are a section of the configuration, or a part of one. Declared by [`section!`].
pub trait Section: Sized {
    /// What there is to know about the section.
    const INFO: Info;

    /// The options from what was given. A value that cannot be read is refused, and its key has its default.
    fn read(values: &mut dyn Values) -> Self;
}

/// What there is to know about a section.
#[derive(Debug, Clone, Copy)]
pub struct Info {
    /// Its name: `listen`.
    pub name: &'static str,
    /// Its documentation, line by line.
    pub about: &'static [&'static str],
    /// Its keys, in the order in which they are shown.
    pub keys: &'static [Key],
}

/// A key of a section.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// The name of its section.
    pub section: &'static str,
    /// As an identifier, with underscores.
    pub ident: &'static str,
    /// Its documentation, line by line.
    pub about: &'static [&'static str],
    /// How its value is described.
    pub shape: Shape,
    /// As it would stand in a file; `None`: nothing is chosen.
    pub default: Option<&'static str>,
}

impl Key {
    /// As it stands in a file, below its section: `drain-for`.
    pub fn name(&self) -> String {
        self.ident.replace('_', "-")
    }

    /// Its whole name: `listen.drain-for`.
    pub fn path(&self) -> String {
        format!("{}.{}", self.section, self.name())
    }

    /// As it stands in the environment: `CRORE_LISTEN__DRAIN_FOR`.
    pub fn variable(&self) -> String {
        format!("CRORE_{}__{}", self.section, self.ident).to_uppercase()
    }
}

/// Lines of a documentation comment as one text.
pub fn text(about: &[&str]) -> String {
    about.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}

/// Where the values of keys come from.
pub trait Values {
    /// The value of a key; `None`: its default applies. For a key of [`Shape::Secret`] this is the secret itself.
    fn given(&mut self, key: &Key) -> Option<Given>;

    /// The given value of a key cannot be read.
    fn refuse(&mut self, key: &Key, message: String);
}

/// The values of `Default`: nothing is given.
#[derive(Debug)]
pub struct Defaults;

impl Values for Defaults {
    fn given(&mut self, _: &Key) -> Option<Given> {
        None
    }

    fn refuse(&mut self, key: &Key, message: String) {
        panic!("{}: {message}", key.path());
    }
}

/// Reads the value of a key. One that cannot be read is refused and replaced by the default, so that all faults of a
/// configuration are found in one go.
///
/// # Panics
/// If the default of the key cannot be read, which is a mistake of its declaration.
pub fn read<T: Setting>(values: &mut dyn Values, key: &Key) -> T {
    match values.given(key).as_ref().map(T::read) {
        Some(Ok(value)) => value,
        Some(Err(message)) => {
            values.refuse(key, message);
            default(key)
        }
        None => default(key),
    }
}

fn default<T: Setting>(key: &Key) -> T {
    let read = match key.default {
        Some(text) => T::read(&Given::One(text.to_owned())),
        None => T::absent().ok_or_else(|| "a default is needed".to_owned()),
    };
    read.unwrap_or_else(|why| panic!("the default of `{}` cannot be read: {why}", key.path()))
}

#[cfg(test)]
mod tests;
