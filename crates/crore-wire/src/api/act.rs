//! Acts of people: cancel, retry, delete and change.

use crore_core::job::When;
use crore_core::{Invalid, Name};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::words::State;
use super::{Id, Labels};
use crate::words::{Moment, Period};

/// What is to be otherwise with a job; what is left out stays.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// The queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<super::Name>)]
    pub queue: Option<String>,
    /// The priority.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Not before this instant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due: Option<Moment>,
    /// Not before this long from now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Period>,
}

impl Change {
    /// The queue that is meant, if one is.
    pub fn queue(&self) -> Result<Option<Name>, Invalid> {
        self.queue.as_deref().map(|queue| Name::new("queue", queue)).transpose()
    }

    /// When it is due, if that is said.
    pub fn due(&self) -> Result<Option<When>, Invalid> {
        super::push::when(self.due, self.delay)
    }
}

/// What became of an act on one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Acted {
    /// The job.
    pub id: Id,
    /// Its state now; without it, it is gone.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub state: Option<State>,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verb {
    /// They are not to run; running ones are asked to stop.
    Cancel,
    /// They are to run again, or now.
    Retry,
    /// They are to be gone.
    Delete,
    /// Something of them is to be otherwise: `change`.
    Change,
}

/// Which jobs are meant; at least one of these has to be said, or `all`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Filter {
    /// In one of these states.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub states: Vec<State>,
    /// In this queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Of this kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// With all of these labels.
    #[serde(default)]
    pub labels: Labels,
    /// Pushed before this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pushed_before: Option<Moment>,
    /// All that there are.
    #[serde(default)]
    pub all: bool,
}

/// An act on all jobs that match.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"act": "retry", "filter": {"kind": "mail", "states": ["dead"]}, "dry_run": true}))]
pub struct ActOnAll {
    /// What is to be done.
    pub act: Verb,
    /// Which jobs are meant.
    #[serde(deserialize_with = "crate::object::one")]
    pub filter: Filter,
    /// What is to be otherwise, for `change`.
    #[serde(
        default,
        deserialize_with = "crate::object::maybe",
        skip_serializing_if = "Option::is_none"
    )]
    pub change: Option<Change>,
    /// Whether it is only counted.
    #[serde(default)]
    pub dry_run: bool,
}

/// How far an act on many has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Progress {
    /// Jobs that were looked at.
    pub seen: u64,
    /// Jobs that match.
    pub matched: u64,
    /// Jobs with which it was done; in a dry run, with which it would be.
    pub done: u64,
}
