//! Errors in gRPC: a status with crore's error code in its details.

use crore_core::Code;
use crore_wire::grpc::{RpcStatus, message_field, v1};
use http::StatusCode;
use tonic::Status;

use crate::Fault;
use crate::status::status;

impl From<Fault> for Status {
    fn from(fault: Fault) -> Self {
        status_of(code(fault.code()), &fault, message_field)
    }
}

/// A status with a given code; `name` translates field names into those of the door's messages.
pub fn status_of(code: tonic::Code, fault: &Fault, name: fn(&str) -> String) -> Status {
    let problem = fault.problem();
    let detail = v1::Problem {
        code: problem.code.to_string(),
        field: problem.field.as_deref().map(name).unwrap_or_default(),
        message: problem.detail.clone(),
    };
    let message = match detail.field.as_str() {
        "" => detail.message.clone(),
        named => format!("{named}: {}", detail.message),
    };
    let details = RpcStatus::about(code as i32, &message, &detail);
    Status::with_details(code, message, details.into())
}

/// The gRPC code of an error code, derived from its HTTP status.
pub fn code(code: Code) -> tonic::Code {
    if code == Code::KeyReused {
        return tonic::Code::AlreadyExists;
    }
    match status(code) {
        StatusCode::UNAUTHORIZED => tonic::Code::Unauthenticated,
        StatusCode::FORBIDDEN | StatusCode::MISDIRECTED_REQUEST => tonic::Code::PermissionDenied,
        StatusCode::NOT_FOUND => tonic::Code::NotFound,
        StatusCode::METHOD_NOT_ALLOWED => tonic::Code::Unimplemented,
        StatusCode::REQUEST_TIMEOUT => tonic::Code::DeadlineExceeded,
        StatusCode::CONFLICT | StatusCode::PRECONDITION_FAILED => tonic::Code::FailedPrecondition,
        StatusCode::PAYLOAD_TOO_LARGE
        | StatusCode::TOO_MANY_REQUESTS
        | StatusCode::INSUFFICIENT_STORAGE => tonic::Code::ResourceExhausted,
        StatusCode::SERVICE_UNAVAILABLE => tonic::Code::Unavailable,
        status if status.is_server_error() => tonic::Code::Internal,
        _ => tonic::Code::InvalidArgument,
    }
}
