//! Completion of filters.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// A filter that is being written.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct CompleteQuery {
    /// The filter.
    #[param(max_length = 4096, example = "state:dead ki")]
    #[serde(default)]
    pub q: String,
    /// Position of the cursor in characters. Default: the end.
    pub at: Option<usize>,
}

/// Suggestions for the term at the cursor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Completion {
    /// Start of the text that a suggestion replaces, in characters.
    pub from: usize,
    /// End of the text that a suggestion replaces, in characters.
    pub to: usize,
    /// The suggestions, at most 50, best first.
    pub suggestions: Vec<Suggestion>,
    /// Why the filter is wrong; absent if it is not.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub problem: Option<String>,
}

/// A suggestion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Suggestion {
    /// The text to insert.
    pub text: String,
    /// Its meaning, or the number of jobs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub about: Option<String>,
}
