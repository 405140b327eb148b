//! What went wrong, as a status with our code in its details.

use crore_core::{Code, Invalid};
use crore_wire::grpc::{RpcStatus, v1};
use prost::Message;
use tonic::Status;

use crate::http::Fault;
use crate::status::grpc;

impl From<Fault> for Status {
    fn from(fault: Fault) -> Self {
        let problem = fault.problem();
        let said = v1::Problem {
            code: problem.code.to_string(),
            field: problem.field.clone().unwrap_or_default(),
            message: problem.detail.clone(),
        };
        let code = grpc(fault.code());
        let message = match said.field.as_str() {
            "" => said.message.clone(),
            field => format!("{field}: {}", said.message),
        };
        let details = RpcStatus::about(code as i32, &message, &said);
        Self::with_details(code, message, details.into())
    }
}

/// A status of ours as the fault that it was made from, by which it is counted and written down.
pub(super) fn noted<B>(mut response: http::Response<B>) -> http::Response<B> {
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
