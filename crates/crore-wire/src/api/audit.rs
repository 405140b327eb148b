//! Entries of the audit log.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::units::Moment;

/// Selects entries of the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct AuditQuery {
    /// Cursor: `next` of the previous page.
    #[param(min_length = 1, max_length = 64)]
    pub before: Option<String>,
    /// Page size, 1 to 1000. Default: 100.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<usize>,
}

/// A page of the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditPage {
    /// The entries, newest first. A page may have fewer than `limit`, and still have a successor.
    pub entries: Vec<AuditRecord>,
    /// Cursor of the next page, with older entries; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub next: Option<String>,
}

/// An entry of the audit log: a change, or a refused call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditRecord {
    /// When the call arrived.
    pub at: Moment,
    /// The caller.
    pub who: String,
    /// Address of the caller.
    pub from: String,
    /// Method and path.
    pub call: String,
    /// Scope that the call needs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub needs: Option<String>,
    /// Status of the response; absent if the caller disconnected before there was one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub status: Option<u16>,
    /// Code of the problem, if the call was refused.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub code: Option<String>,
    /// Details.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub about: Option<String>,
    /// Id of the request.
    pub request: String,
}
