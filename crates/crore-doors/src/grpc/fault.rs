//! Errors as gRPC statuses, with crore's error code in the details.

use crore_api::{Fault, grpc};
use crore_core::{Code, Invalid};
use crore_wire::grpc::{RpcStatus, unreadable, v1};
use prost::Message;
use tonic::Status;
use tonic::body::Body;

/// `ALREADY_EXISTS` for a name or key that is in use.
pub(crate) fn already_exists(field: &str, message: String) -> Status {
    let fault = Fault::from(Invalid::new(Code::Refused, field, message));
    grpc::status_of(tonic::Code::AlreadyExists, &fault, str::to_owned)
}

/// `ABORTED`: a concurrent change won; the caller may retry.
pub(crate) fn aborted(error: crore::Error) -> Status {
    grpc::status_of(tonic::Code::Aborted, &Fault::from(error), str::to_owned)
}

/// An invalid argument whose field names are already those of the door's messages.
pub(crate) fn invalid_unmapped(invalid: Invalid) -> Status {
    let fault = Fault::from(invalid);
    grpc::status_of(grpc::code(fault.code()), &fault, str::to_owned)
}

/// Adds the fault behind a status to the response, for metrics and the request log. Replaces tonic's error for an
/// unreadable frame with an error of crore.
pub(super) fn with_fault(mut response: http::Response<Body>) -> http::Response<Body> {
    let status = response.extensions().get::<Status>();
    // Our statuses have details. One without them is tonic's: the bytes are not a frame, or there are none.
    let is_frameless =
        |status: &&Status| status.code() == tonic::Code::Internal && status.details().is_empty();
    if let Some(status) = status.filter(is_frameless) {
        let status = unreadable(status.message());
        response = status.clone().into_http();
        response.extensions_mut().insert(status);
    }
    let fault = response.extensions().get::<Status>().and_then(|status| {
        let details = RpcStatus::decode(status.details()).ok()?;
        let problem = v1::Problem::decode(&*details.details.first()?.value).ok()?;
        let code = Code::ALL.iter().find(|code| code.as_str() == problem.code)?;
        Some(Fault::new(*code, problem.message))
    });
    if let Some(fault) = fault {
        response.extensions_mut().insert(fault);
    }
    response
}

/// An invalid argument.
pub(crate) fn invalid(invalid: Invalid) -> Status {
    Fault::from(invalid).into()
}

/// An error of the engine.
pub(crate) fn failed(error: crore::Error) -> Status {
    Fault::from(error).into()
}

/// A required field that is missing.
pub(super) fn missing(field: &str) -> Status {
    invalid(Invalid::new(Code::Malformed, field, "is required"))
}
