//! Access to environment variables. No other module reads them.

use std::io::IsTerminal;

/// URL of the server that commands call.
pub(crate) const SERVER: &str = "CRORE_SERVER";
/// Access token of commands.
pub(crate) const TOKEN: &str = "CRORE_TOKEN";
/// Path of the configuration file.
pub(crate) const CONFIG: &str = "CRORE_CONFIG";

/// Value of a variable; `None` if it is unset or not UTF-8.
#[expect(clippy::disallowed_methods, reason = "this is where the environment is read")]
pub(crate) fn read(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// All variables that are UTF-8.
pub(crate) fn all() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

/// Whether to use colours on `stream`: only on a terminal, and not if `NO_COLOR` is set.
pub(crate) fn has_colours(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && read("NO_COLOR").is_none_or(|value| value.is_empty())
}
