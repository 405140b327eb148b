//! What went wrong, by RFC 9457.

use std::borrow::Cow;

use crore_core::{Code, Invalid};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::api::scalar::Id;

/// What went wrong: `application/problem+json`, or `application/problem+msgpack`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// The code as a URI.
    #[serde(rename = "type")]
    pub kind: Cow<'static, str>,
    /// What the code means.
    pub title: Cow<'static, str>,
    /// The status of the answer.
    pub status: u16,
    /// The stable code, for programs.
    #[schema(example = "name-empty")]
    pub code: Cow<'static, str>,
    /// What is wrong, for people.
    pub detail: String,
    /// The field that is wrong, as a path.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(example = "retry.max_attempts")]
    pub field: Option<String>,
    /// For texts (limits, timings): the offset of the character that is wrong.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub at: Option<usize>,
    /// The job that is in the way.
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

    /// A request that breaks a rule.
    pub fn invalid(invalid: Invalid, status: u16) -> Self {
        let field = Some(native(&invalid.field)).filter(|field| !field.is_empty());
        Self { field, at: invalid.at, ..Self::new(invalid.code, status, invalid.message) }
    }
}

/// What the rules call otherwise than this API.
const OTHERWISE: [(&str, &str); 5] = [
    ("retry.backoff.every", "retry.base"),
    ("retry.backoff.step", "retry.base"),
    ("retry.backoff.base", "retry.base"),
    ("retry.backoff.factor", "retry.factor"),
    ("keep", "keep_result"),
];

/// A field as this API spells it: the rules say `max-attempts`, and we `max_attempts`.
fn native(field: &str) -> String {
    let field = field.replace('-', "_");
    for (theirs, ours) in OTHERWISE {
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
            ("payload", "payload"),
            ("upkeep", "upkeep"),
        ] {
            assert_eq!(native(theirs), ours);
        }
    }
}
