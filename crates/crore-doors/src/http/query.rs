//! What stands in the address: ids, names and parameters.

use axum::extract::{FromRequestParts, RawPathParams};
use crore_core::{GroupId, JobId, Name};
use crore_wire::api::Id;
use crore_wire::encoding::{invalid, located};
use http::request::Parts;
use serde::de::DeserializeOwned;

use super::fault::Fault;

/// The parameters behind the question mark.
#[derive(Debug)]
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Fault> {
        let query = parts.uri.query().unwrap_or_default();
        match serde_urlencoded::from_str(query) {
            Ok(value) => Ok(Self(value)),
            Err(error) => {
                let reader =
                    serde_urlencoded::Deserializer::new(form_urlencoded::parse(query.as_bytes()));
                let (path, message) = located::<T, _>(reader);
                let message = message.unwrap_or_else(|| error.to_string());
                Err(invalid(&path, &message).into())
            }
        }
    }
}

/// The one part of the path that is a name or an id.
#[derive(Debug)]
pub(crate) struct Segment(String);

impl<S: Send + Sync> FromRequestParts<S> for Segment {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Fault> {
        let nothing = || Fault::missing("what this address names");
        let params =
            RawPathParams::from_request_parts(parts, state).await.map_err(|_| nothing())?;
        params.iter().next().map(|(_, text)| Self(text.to_owned())).ok_or_else(nothing)
    }
}

impl Segment {
    /// The job that is meant. What cannot be an id is the id of no job.
    pub(crate) fn job(&self) -> Result<JobId, Fault> {
        self.0.parse::<Id>().map(Into::into).map_err(|_| Fault::missing("this job"))
    }

    /// The group that is meant.
    pub(super) fn group(&self) -> Result<GroupId, Fault> {
        self.0.parse::<Id>().map(Into::into).map_err(|_| Fault::missing("this group"))
    }

    /// The name that is meant.
    pub(super) fn name(&self, what: &str) -> Result<Name, Fault> {
        Ok(Name::new(what, &self.0)?)
    }
}

/// A name that may be there.
pub(super) fn name(field: &str, text: Option<&str>) -> Result<Option<Name>, Fault> {
    Ok(text.map(|text| Name::new(field, text)).transpose()?)
}
