//! Commands to copy.

use maud::{Markup, html};

use crate::text::Texts;

/// A command in a box with a button that copies it.
pub(crate) fn command(text: &Texts, command: &str) -> Markup {
    html! {
        div.command {
            pre { code { (command) } }
            button type="button" data-copy=(command) hidden { (text.copy) }
        }
    }
}

/// A text as one word of a POSIX shell.
pub(crate) fn quoted(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=@%+,".contains(&byte);
    match !text.is_empty() && text.bytes().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_shell_are_quoted() {
        for (text, word) in [("mail", "mail"), ("", "''"), ("a b", "'a b'"), ("it's", r"'it'\''s'")]
        {
            assert_eq!(quoted(text), word);
        }
    }
}
