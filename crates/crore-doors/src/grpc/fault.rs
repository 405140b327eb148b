//! What went wrong, as a status with our code in its details.

use crore_core::{Code, Invalid};
use crore_wire::grpc::{RpcStatus, field, unreadable, v1};
use prost::Message;
use tonic::Status;
use tonic::body::Body;

use crate::http::Fault;
use crate::status::grpc;

impl From<Fault> for Status {
    fn from(fault: Fault) -> Self {
        said(grpc(fault.code()), &fault, field)
    }
}

/// A fault in a status that may not be its own, with its field as the messages name it.
fn said(code: tonic::Code, fault: &Fault, name: fn(&str) -> String) -> Status {
    let problem = fault.problem();
    let said = v1::Problem {
        code: problem.code.to_string(),
        field: problem.field.as_deref().map(name).unwrap_or_default(),
        message: problem.detail.clone(),
    };
    let message = match said.field.as_str() {
        "" => said.message.clone(),
        named => format!("{named}: {}", said.message),
    };
    let details = RpcStatus::about(code as i32, &message, &said);
    Status::with_details(code, message, details.into())
}

/// Something that may be there once is there already.
pub(crate) fn taken(field: &str, message: String) -> Status {
    let fault = Fault::from(Invalid::new(Code::Refused, field, message));
    said(tonic::Code::AlreadyExists, &fault, str::to_owned)
}

/// Somebody else was faster, and to try again may help.
pub(crate) fn aborted(error: crore::Error) -> Status {
    said(tonic::Code::Aborted, &Fault::from(error), str::to_owned)
}

/// A rule that a call of another's wire breaks: its field is named there as it is here.
pub(crate) fn as_named(invalid: Invalid) -> Status {
    let fault = Fault::from(invalid);
    said(grpc(fault.code()), &fault, str::to_owned)
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
