//! Empty states: what would be here, and the command that creates it.

use maud::{Markup, html};

use super::copy::command;
use crate::text::Texts;

/// An empty state with a command to copy.
pub(crate) fn with_command(text: &Texts, message: &str, example: &str) -> Markup {
    html! {
        div.empty {
            p { (message) }
            (command(text, example))
        }
    }
}

/// An empty state without a command.
pub(crate) fn plain(message: &str) -> Markup {
    html! { div.empty { p { (message) } } }
}
