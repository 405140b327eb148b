//! What went wrong, as a status with our code in its details.

use crore_api::{Fault, grpc};
use crore_core::{Code, Invalid};
use crore_wire::grpc::{RpcStatus, unreadable, v1};
use prost::Message;
use tonic::Status;
use tonic::body::Body;

/// Something that may be there once is there already.
pub(crate) fn taken(field: &str, message: String) -> Status {
    let fault = Fault::from(Invalid::new(Code::Refused, field, message));
    grpc::status_of(tonic::Code::AlreadyExists, &fault, str::to_owned)
}

/// Somebody else was faster, and to try again may help.
pub(crate) fn aborted(error: crore::Error) -> Status {
    grpc::status_of(tonic::Code::Aborted, &Fault::from(error), str::to_owned)
}

/// A rule that a call of another's wire breaks: its field is named there as it is here.
pub(crate) fn as_named(invalid: Invalid) -> Status {
    let fault = Fault::from(invalid);
    grpc::status_of(grpc::code(fault.code()), &fault, str::to_owned)
}

/// What a call is answered that was refused before it had a message, and the fault that a status was made from, by
/// which it is counted and written down.
pub(super) fn noted(mut response: http::Response<Body>) -> http::Response<Body> {
    let status = response.extensions().get::<Status>();
    // Ours say what is wrong in their details. One without is tonic's, about bytes that are no frame, or none at all.
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

/// A rule that a call breaks.
pub(crate) fn invalid(invalid: Invalid) -> Status {
    Fault::from(invalid).into()
}

/// An error of the engine.
pub(crate) fn failed(error: crore::Error) -> Status {
    Fault::from(error).into()
}

/// Something that has to be said and is not.
pub(super) fn missing(field: &str) -> Status {
    invalid(Invalid::new(Code::Malformed, field, "has to be said"))
}
