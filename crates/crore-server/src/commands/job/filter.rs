//! Filters on the command line.

use crore_core::SearchFilter;
use crore_core::limit::point_at;

use crate::exit::{CliError, FailureCode};

/// The filter of the arguments, joined by spaces; `None` if there are none. An error shows the offending character.
pub(super) fn joined(words: &[String]) -> Result<Option<String>, CliError> {
    if words.is_empty() {
        return Ok(None);
    }
    let text = words.join(" ");
    match SearchFilter::parse("filter", &text) {
        Ok(_) => Ok(Some(text)),
        Err(invalid) => {
            let message = format!("invalid filter:\n{}", point_at(&text, &invalid));
            Err(CliError::new(FailureCode::Usage, message))
        }
    }
}
