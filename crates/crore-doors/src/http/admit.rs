//! The one function through which every call passes.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::fault::{Fault, in_format};
use super::wants::Wants;
use crate::{Doors, Scope};

/// What a call has to pass.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    pub(crate) doors: Doors,
    /// What its caller has to be allowed.
    pub(crate) scope: Scope,
}

/// Admits a call, or says why not; whatever goes wrong behind it is said in the caller's encoding.
pub(super) async fn admit(State(gate): State<Gate>, request: Request, next: Next) -> Response {
    let wants = match Wants::of(request.headers()) {
        Ok(wants) => wants,
        Err(fault) => return fault.into_response(),
    };
    if let Err(fault) = gate.check(&request) {
        return in_format(wants.format_or_json(), fault.into_response());
    }
    in_format(wants.format_or_json(), next.run(request).await)
}

impl Gate {
    /// Whether the caller may make this call now.
    pub(crate) fn check(&self, _request: &Request) -> Result<(), Fault> {
        match (self.scope, self.doors.engine().is_stopping()) {
            // A server that ends takes nothing new; looking and reporting go on as long as they can.
            (Scope::Push | Scope::Operate | Scope::Define | Scope::Admin, true) => {
                Err(crore::Error::Stopping.into())
            }
            _ => Ok(()),
        }
    }
}
