//! What a status means to a job.

use std::error::Error;

use hyper_util::client::legacy;
use tonic::{Code, Status};

use crate::mask::Masks;
use crate::reach::unanswered;
use crate::runner::Failure;

/// How much of a status stands in a failure.
const TEXT: usize = 4096;

/// Why a call did not go well. `called` says what was called, for people.
pub(super) fn failure(called: &str, origin: &str, status: &Status, masks: &Masks) -> Failure {
    if let Some(error) = unspoken(status) {
        return unanswered(origin, error);
    }
    let name = name(status.code());
    let text = masks.start_of(status.message().as_bytes(), TEXT);
    let error = match text.as_str() {
        "" => format!("`{called}` answered {name}"),
        text => format!("`{called}` answered {name}: {text}"),
    };
    let failure = match status.code() {
        Code::DeadlineExceeded | Code::Unavailable | Code::ResourceExhausted => {
            Failure::again(error)
        }
        Code::Cancelled | Code::Aborted => Failure::aborted(error),
        Code::Unknown => Failure::other(error),
        _ => Failure::fatal(error),
    };
    failure.with("status", name)
}

/// The error below a status that nobody has said: there was no connection, or it broke.
fn unspoken(status: &Status) -> Option<&(dyn Error + 'static)> {
    let causes = std::iter::successors(status.source(), |error| (*error).source());
    causes.into_iter().find(|error| error.is::<legacy::Error>() || error.is::<hyper::Error>())
}

/// A status by its name, as the specification of gRPC writes it.
pub(super) const fn name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}
