//! Splits the text of a schedule into words with their offsets.

use crate::code::{Code, Invalid};

/// Maximum length of a schedule, in characters.
pub const MAX_TEXT: usize = 128;

/// A word and its offset in characters.
#[derive(Debug, Clone, Copy)]
pub(super) struct ScheduleWord<'a> {
    pub(super) at: usize,
    pub(super) text: &'a str,
}

/// The text of a schedule, split at white space.
pub(super) struct ScheduleText<'a> {
    field: &'a str,
    pub(super) words: Vec<ScheduleWord<'a>>,
    /// The offset after the last character, where a missing word is reported.
    pub(super) end: usize,
}

impl<'a> ScheduleText<'a> {
    pub(super) fn new(field: &'a str, text: &'a str) -> Result<Self, Invalid> {
        let mut line = Self { field, words: Vec::new(), end: 0 };
        if text.chars().nth(MAX_TEXT).is_some() {
            return Err(line.too_long());
        }
        let mut at = 0;
        for piece in text.split(char::is_whitespace) {
            if !piece.is_empty() {
                line.words.push(ScheduleWord { at, text: piece });
            }
            at += piece.chars().count() + 1;
        }
        line.end = at - 1;
        Ok(line)
    }

    pub(super) fn too_long(&self) -> Invalid {
        let message = format!("a schedule has at most {MAX_TEXT} characters");
        self.syntax(MAX_TEXT, message)
    }

    pub(super) fn syntax(&self, at: usize, message: impl Into<String>) -> Invalid {
        self.error(Code::ScheduleSyntax, at, message)
    }

    pub(super) fn error(&self, code: Code, at: usize, message: impl Into<String>) -> Invalid {
        Invalid::new(code, self.field, message).at(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_their_offset_in_characters() {
        let line = ScheduleText::new("schedule", " é\t\u{a0}bc  d ").expect("short");
        let words: Vec<_> = line.words.iter().map(|word| (word.at, word.text)).collect();
        assert_eq!(words, [(1, "é"), (4, "bc"), (8, "d")]);
        assert_eq!(line.end, 10);
    }

    #[test]
    fn a_text_over_the_cap_is_refused() {
        assert!(ScheduleText::new("schedule", &"é".repeat(MAX_TEXT)).is_ok());
        let error =
            ScheduleText::new("schedule", &"é".repeat(MAX_TEXT + 1)).map(|_| ()).expect_err("long");
        assert_eq!((error.code, error.at), (Code::ScheduleSyntax, Some(MAX_TEXT)));
    }
}
