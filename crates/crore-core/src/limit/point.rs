//! Renders the position of an error in a text with a caret.

use crate::code::Invalid;

/// Number of characters shown on each side of the position.
const CONTEXT_CHARS: usize = 36;

/// Renders the line of `text` that contains the error, with a caret under the position and the message after
/// it. A long line is shortened around the position. An error without a position is rendered as its
/// message.
///
/// The caret is aligned if every character is one column wide; control characters are shown as spaces.
pub fn point_at(text: &str, error: &Invalid) -> String {
    let Some(at) = error.at else { return error.message.clone() };
    let split = text.char_indices().nth(at).map_or(text.len(), |(byte, _)| byte);
    let (before, after) = text.split_at(split);
    let before = &before[before.rfind('\n').map_or(0, |newline| newline + 1)..];
    let after = after.split('\n').next().unwrap_or_default();
    let hidden = before.chars().count().saturating_sub(CONTEXT_CHARS);
    let mut line: String = if hidden > 0 { "…".to_owned() } else { String::new() };
    line.extend(before.chars().skip(hidden));
    let column = line.chars().count();
    line.extend(after.chars().take(CONTEXT_CHARS));
    if after.chars().nth(CONTEXT_CHARS).is_some() {
        line.push('…');
    }
    let line: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("{line}\n{:column$}^ {}", "", error.message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::Code;

    fn draw(text: &str, at: usize) -> String {
        point_at(text, &Invalid::new(Code::LimitSyntax, "limit", "expected more").at(at))
    }

    #[test]
    fn the_caret_points_at_the_character() {
        assert_eq!(draw("räte 1", 1), "räte 1\n ^ expected more");
        assert_eq!(draw("rate", 4), "rate\n    ^ expected more");
        assert_eq!(draw("a\n\tb c\nd", 3), " b c\n ^ expected more");
        assert_eq!(draw("a\n", 2), "\n^ expected more");
        assert_eq!(draw("", 9), "\n^ expected more");
    }

    #[test]
    fn only_the_context_of_an_error_in_a_long_line_is_shown() {
        let drawn = draw(&("x".repeat(50_000) + "!" + &"y".repeat(50_000)), 50_000);
        let (line, caret) = drawn.split_once('\n').expect("two lines");
        assert_eq!(line, format!("…{}!{}…", "x".repeat(36), "y".repeat(35)));
        assert_eq!(caret.find('^').map(|at| line.chars().nth(at)), Some(Some('!')));
    }

    #[test]
    fn an_error_without_an_offset_is_its_message() {
        let error = Invalid::new(Code::LimitTooLong, "limit", "too long");
        assert_eq!(point_at("rate 1/s", &error), "too long");
    }
}
