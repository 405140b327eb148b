//! The environment: the only place that reads it.

use std::io::IsTerminal;

/// The server that commands speak to.
pub(crate) const SERVER: &str = "CRORE_SERVER";
/// The token that commands show to the server.
pub(crate) const TOKEN: &str = "CRORE_TOKEN";
/// The file of the configuration.
pub(crate) const CONFIG: &str = "CRORE_CONFIG";

/// A variable, if it is set and is text.
#[expect(clippy::disallowed_methods, reason = "this is where the environment is read")]
pub(crate) fn read(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// All variables that are text.
pub(crate) fn all() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

/// Whether colours are wanted where `stream` goes: on a terminal, unless `NO_COLOR` is set.
pub(crate) fn has_colours(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && read("NO_COLOR").is_none_or(|value| value.is_empty())
}
