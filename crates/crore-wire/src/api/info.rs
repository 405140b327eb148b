//! Description and health of the server.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Description of the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Info {
    /// `crore`.
    pub name: String,
    /// The version.
    pub version: String,
    /// Durability of acknowledged writes: `D0` memory only, `D1` survives a killed process, `D2` a power failure,
    /// `D3` the loss of a machine.
    pub durability: String,
    /// The enabled protocols.
    pub doors: Vec<String>,
}

/// Health of the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// Whether the server is healthy.
    pub ok: bool,
    /// The problems, if it is not.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub faults: Vec<String>,
}
