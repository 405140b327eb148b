//! What server this is, and how it is.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What server this is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Info {
    /// `crore`.
    pub name: String,
    /// Its version.
    pub version: String,
    /// What survives what: `D0` memory only, `D1` a kill, `D2` a power cut, `D3` the loss of a host.
    pub durability: String,
    /// The doors that are open.
    pub doors: Vec<String>,
}

/// How the server is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// Whether all is well.
    pub ok: bool,
    /// What is not.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub faults: Vec<String>,
}
