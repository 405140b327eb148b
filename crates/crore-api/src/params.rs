//! Parameters of the path and the query.

use std::collections::{BTreeMap, BTreeSet};

use axum::extract::{FromRef, FromRequestParts, RawPathParams};
use crore::store::StoreId;
use crore_core::code::excerpt;
use crore_core::version::KindVersions;
use crore_core::{Code, GroupId, Invalid, JobId, Name};
use crore_wire::api::Id;
use crore_wire::encoding::{invalid, locate_error};
use http::request::Parts;
use serde::de::DeserializeOwned;

use crate::{Api, Fault, job_uuid};

/// The query parameters.
#[derive(Debug)]
pub struct QueryParams<T>(pub T);

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for QueryParams<T> {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Fault> {
        let query = parts.uri.query().unwrap_or_default();
        match serde_urlencoded::from_str(query) {
            Ok(value) => Ok(Self(value)),
            Err(error) => {
                let reader =
                    serde_urlencoded::Deserializer::new(form_urlencoded::parse(query.as_bytes()));
                let (path, message) = locate_error::<T, _>(reader);
                let message = message.unwrap_or_else(|| error.to_string());
                Err(invalid(&path, &message).into())
            }
        }
    }
}

/// The parameter of the path: a name or an id.
#[derive(Debug)]
pub struct PathParam {
    text: String,
    store: StoreId,
}

impl<S: Send + Sync> FromRequestParts<S> for PathParam
where
    Api: FromRef<S>,
{
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Fault> {
        let not_found = || Fault::missing("this resource");
        let params =
            RawPathParams::from_request_parts(parts, state).await.map_err(|_| not_found())?;
        let (_, text) = params.iter().next().ok_or_else(not_found)?;
        let store = Api::from_ref(state).engine().status().store_id();
        Ok(Self { text: text.to_owned(), store })
    }
}

impl PathParam {
    /// The id of a job, which the path names by its id or its UUID. Any other text is treated as a missing job.
    pub fn job(&self) -> Result<JobId, Fault> {
        let id = self.text.parse::<Id>().ok().map(Into::into);
        let id = id.or_else(|| job_uuid::job_of(self.store, &self.text));
        id.ok_or_else(|| Fault::missing("this job"))
    }

    /// The id of a group.
    pub fn group(&self) -> Result<GroupId, Fault> {
        self.text.parse::<Id>().map(Into::into).map_err(|_| Fault::missing("this group"))
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The name of a resource.
    pub fn name(&self, what: &str) -> Result<Name, Fault> {
        Ok(Name::new(what, &self.text)?)
    }
}

/// An optional name.
pub fn optional_name(field: &str, text: Option<&str>) -> Result<Option<Name>, Fault> {
    Ok(text.map(|text| Name::new(field, text)).transpose()?)
}

/// The versions of kinds that a worker runs. If it names its kinds, it names the kind of each version.
pub fn kind_versions(
    versions: &BTreeMap<String, String>,
    kinds: Option<&[Name]>,
) -> Result<KindVersions, Invalid> {
    let pairs = versions.iter().map(|(kind, version)| (kind.as_str(), version.as_str()));
    let versions = KindVersions::parse(pairs)?;
    let kinds: Option<BTreeSet<&Name>> = kinds.map(|kinds| kinds.iter().collect());
    let is_other = |kind: &Name| kinds.as_ref().is_some_and(|kinds| !kinds.contains(kind));
    let other = versions.iter().find(|(kind, _)| is_other(kind)).map(|(kind, _)| kind);
    match other {
        None => Ok(versions),
        Some(kind) => {
            let kind = excerpt(kind.as_str());
            let why = format!("`kinds` does not name `{kind}`; add it, or omit its version");
            Err(Invalid::new(Code::Malformed, format!("versions.{kind}"), why))
        }
    }
}

/// A list of names.
pub fn names(field: &str, texts: &[String]) -> Result<Vec<Name>, Invalid> {
    let name = |(n, text): (usize, &String)| {
        Name::new(field, text)
            .map_err(|invalid| Invalid { field: format!("{field}[{n}]"), ..invalid })
    };
    texts.iter().enumerate().map(name).collect()
}
