//! Properties that several targets check.

use crore_core::Invalid;

/// Maximum length of an error message and of the field that it names, in bytes. A caller must not be able to fill
/// logs and responses with what it sends.
const MAX_ERROR: usize = 2000;

/// Checks the text of an error: not empty, bounded, and without control characters.
pub(crate) fn check_message(message: &str) {
    assert!(!message.is_empty(), "an error without a message");
    check_text(message);
}

fn check_text(text: &str) {
    assert!(text.len() <= MAX_ERROR, "an error of {} bytes", text.len());
    assert!(!text.contains(char::is_control), "an error with control characters: {text:?}");
}

/// Checks an error: its message, its field, and its position within the text that it is about.
pub(crate) fn check_invalid(invalid: &Invalid, text: Option<&str>) {
    check_message(&invalid.message);
    check_text(&invalid.field);
    if let (Some(at), Some(text)) = (invalid.at, text) {
        assert!(at <= text.chars().count(), "position {at} is outside the text");
    }
}
