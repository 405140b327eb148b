//! Converts gRPC statuses to failures.

use std::error::Error;

use crore_wire::grpc::status_name;
use hyper_util::client::legacy;
use tonic::{Code, Status};

use crate::mask::Masks;
use crate::network::no_response;
use crate::runner::RunFailure;

/// Maximum length of a status message in a failure.
const MAX_TEXT: usize = 4096;

/// The failure of a call. `called` names the method in the error message.
pub(super) fn failure(called: &str, origin: &str, status: &Status, masks: &Masks) -> RunFailure {
    if let Some(error) = transport_error(status) {
        return no_response(origin, error);
    }
    let name = status_name(status.code());
    let text = masks.start_of(status.message().as_bytes(), MAX_TEXT);
    let error = match text.as_str() {
        "" => format!("`{called}` answered {name}"),
        text => format!("`{called}` answered {name}: {text}"),
    };
    let failure = match status.code() {
        Code::DeadlineExceeded | Code::Unavailable | Code::ResourceExhausted => {
            RunFailure::temporary(error)
        }
        Code::Cancelled | Code::Aborted => RunFailure::aborted(error),
        Code::Unknown => RunFailure::other(error),
        _ => RunFailure::fatal(error),
    };
    failure.with("status", name)
}

/// The transport error below a status that the server did not send: no connection, or it broke.
fn transport_error(status: &Status) -> Option<&(dyn Error + 'static)> {
    let causes = std::iter::successors(status.source(), |error| (*error).source());
    causes.into_iter().find(|error| error.is::<legacy::Error>() || error.is::<hyper::Error>())
}
