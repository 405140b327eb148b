//! Preconditions of changes: `ETag` and `If-Match`.

use axum::extract::FromRequestParts;
use axum::response::Response;
use crore::store::registry::{RegistryEntry, RegistryValue, Schedule};
use crore_core::{Code, Revision, Time};
use http::header::{ETAG, IF_MATCH};
use http::request::Parts;
use http::{HeaderMap, HeaderValue};
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::Fault;
use crate::negotiation::Responder;

/// The header `If-Match`: a resource is changed only if it has one of these entity tags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IfMatch(Option<String>);

/// A resource, with its entity tag.
#[derive(Debug)]
pub struct Tagged<T> {
    /// The resource.
    pub value: T,
    /// The entity tag, which every change of the definition changes; `None`: it is not stored.
    pub tag: Option<String>,
}

impl IfMatch {
    /// No precondition.
    pub const ANY: Self = Self(None);

    /// The resource must have this entity tag.
    pub fn tag(tag: &str) -> Self {
        Self(Some(tag.to_owned()))
    }

    fn of(headers: &HeaderMap) -> Self {
        let mut values = headers.get_all(IF_MATCH).iter().peekable();
        if values.peek().is_none() {
            return Self::ANY;
        }
        // A value that is not ASCII matches no tag.
        let texts: Vec<_> = values.map(|value| value.to_str().unwrap_or_default()).collect();
        Self(Some(texts.join(",")))
    }

    /// Whether a resource may be changed; `None`: it does not exist.
    pub(crate) fn accepts(&self, entry: Option<&RegistryEntry>) -> bool {
        let Some(tags) = &self.0 else { return true };
        let current = entry.map(tag_of);
        tags.split(',').map(str::trim).any(|tag| match tag {
            "*" => current.is_some(),
            tag => current.as_deref() == Some(tag),
        })
    }

    /// The error of a resource that does not match.
    pub(crate) fn failed(what: &str) -> Fault {
        let why = format!("{what} is not in the state that `If-Match` names; read it again");
        Fault::new(Code::PreconditionFailed, why)
    }
}

impl<S: Sync> FromRequestParts<S> for IfMatch {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Fault> {
        Ok(Self::of(&parts.headers))
    }
}

/// The entity tag of an entry. That of a schedule does not depend on its ticks, which change the revision.
pub(crate) fn tag_of(entry: &RegistryEntry) -> String {
    match &entry.value {
        RegistryValue::Schedule(schedule) => {
            let timeless = Schedule { cursor: Time::ZERO, ..(**schedule).clone() };
            let text = serde_json::to_vec(&timeless).unwrap_or_default();
            let digest = Sha256::digest(text);
            let hex: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
            format!("\"{hex}\"")
        }
        _ => revision_tag(entry.revision),
    }
}

/// The entity tag of a revision.
pub(crate) fn revision_tag(revision: Revision) -> String {
    format!("\"r{revision}\"")
}

impl<T> Tagged<T> {
    /// The resource in another form.
    pub fn map<U>(self, form: impl FnOnce(T) -> U) -> Tagged<U> {
        Tagged { value: form(self.value), tag: self.tag }
    }
}

impl<T: Serialize> Tagged<T> {
    /// A response with the resource, and its tag in `ETag`.
    pub fn response(&self, reply: Responder) -> Response {
        let mut response = reply.ok(&self.value);
        let tag = self.tag.as_deref().and_then(|tag| HeaderValue::from_str(tag).ok());
        response.headers_mut().extend(tag.map(|tag| (ETAG, tag)));
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crore::store::registry::QueueSettings;
    use crore_core::Name;

    #[test]
    fn a_resource_matches_one_of_the_tags_or_a_star_if_it_exists() {
        let name = Name::new("name", "mail").expect("a good name");
        let value = RegistryValue::Queue(QueueSettings::default());
        let entry = RegistryEntry { name, value, revision: Revision(7), expires_at: None };
        let accepts = |text: &str, entry| IfMatch(Some(text.to_owned())).accepts(entry);
        for text in ["\"r7\"", "\"r6\", \"r7\"", "*"] {
            assert!(accepts(text, Some(&entry)), "{text}");
            assert!(!accepts(text, None), "{text}");
        }
        for text in ["\"r6\"", "r7", "W/\"r7\"", ""] {
            assert!(!accepts(text, Some(&entry)), "{text}");
        }
        assert!(IfMatch::ANY.accepts(None) && IfMatch::ANY.accepts(Some(&entry)));
    }
}
