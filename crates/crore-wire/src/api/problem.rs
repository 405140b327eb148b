//! Error responses: problem details by RFC 9457.

use std::borrow::Cow;

use crore_core::{Code, Invalid};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::api::scalar::Id;

/// An error: `application/problem+json`, or `application/problem+msgpack`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// The error code as a URI.
    #[serde(rename = "type")]
    pub kind: Cow<'static, str>,
    /// Class of the problem.
    pub title: Cow<'static, str>,
    /// HTTP status of the response.
    pub status: u16,
    /// Stable error code.
    #[schema(example = "name-empty")]
    pub code: Cow<'static, str>,
    /// Description of this occurrence.
    pub detail: String,
    /// Path of the offending field.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(example = "retry.max_attempts")]
    pub field: Option<String>,
    /// For limits and timings: offset of the error in the text, in characters.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub at: Option<usize>,
    /// The conflicting job.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub id: Option<Id>,
}

impl Problem {
    /// A problem without a field.
    pub fn new(code: Code, status: u16, detail: impl Into<String>) -> Self {
        Self {
            kind: Cow::Owned(format!("urn:crore:error:{code}")),
            title: Cow::Borrowed(code.explain().trim()),
            status,
            code: Cow::Borrowed(code.as_str()),
            detail: detail.into(),
            field: None,
            at: None,
            id: None,
        }
    }

    /// A validation error.
    pub fn invalid(invalid: Invalid, status: u16) -> Self {
        let field = Some(api_field(&invalid.field)).filter(|field| !field.is_empty());
        Self { field, at: invalid.at, ..Self::new(invalid.code, status, invalid.message) }
    }
}

/// Fields whose name in the core types differs from this API.
const FIELD_NAMES: [(&str, &str); 6] = [
    ("retry.backoff.every", "retry.base"),
    ("retry.backoff.step", "retry.base"),
    ("retry.backoff.base", "retry.base"),
    ("retry.backoff.factor", "retry.factor"),
    ("keep", "keep_result"),
    ("event_keep", "keep"),
];

/// The name of a core field in this API: `max-attempts` becomes `max_attempts`.
fn api_field(field: &str) -> String {
    let field = field.replace('-', "_");
    for (theirs, ours) in FIELD_NAMES {
        if let Some(before) = field.strip_suffix(theirs)
            && (before.is_empty() || before.ends_with('.'))
        {
            return format!("{before}{ours}");
        }
    }
    field
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_spelled_as_they_were_sent() {
        for (theirs, ours) in [
            ("retry.max-attempts", "retry.max_attempts"),
            ("jobs[3].retry.backoff.step", "jobs[3].retry.base"),
            ("keep", "keep_result"),
            ("event-keep", "keep"),
            ("payload", "payload"),
            ("upkeep", "upkeep"),
        ] {
            assert_eq!(api_field(theirs), ours);
        }
    }
}
