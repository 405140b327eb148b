//! Refuses a large response before it is encoded.

use axum::extract::FromRequestParts;
use http::request::Parts;

use crate::budget::{ByteAccount, ConnectionBytes, FREE_BYTES};
use crate::{Api, Fault, Grant};

/// The part of the budget for bytes in flight that is left for the response of a call.
#[derive(Debug)]
pub struct ResponseRoom(ByteAccount);

impl ResponseRoom {
    /// Refuses a response of this size if it exceeds the budget now.
    pub fn check(&self, bytes: usize) -> Result<(), Fault> {
        if bytes <= FREE_BYTES { Ok(()) } else { self.0.check_room(bytes) }
    }
}

impl FromRequestParts<Api> for ResponseRoom {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Fault> {
        let grant = Grant::from_extensions(&parts.extensions)?;
        let connection = ConnectionBytes::of(&parts.extensions);
        Ok(Self(api.budget().account(grant.who(), connection)))
    }
}
