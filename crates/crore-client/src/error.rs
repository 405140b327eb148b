//! Errors of the client.

use crore_wire::grpc::{RpcStatus, v1};
use crore_wire::worker::SessionEnd;
use prost::Message;

/// Error of a call to the server.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The server refused the call, and would refuse it again.
    #[error("{0}")]
    Refused(Problem),
    /// The server cannot be reached or is temporarily unavailable. A push stored nothing: retry it.
    #[error("{0}")]
    Unavailable(String),
    /// The connection broke before the server answered. The call may have taken effect or not.
    #[error("the connection broke before the server answered; the call may have taken effect")]
    Unknown,
    /// A value cannot be encoded or decoded, or an address or token is malformed.
    #[error("{0}")]
    Malformed(String),
}

/// Why the server refused a call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Problem {
    /// The stable error code.
    pub code: String,
    /// The field at fault, if there is one.
    pub field: Option<String>,
    /// The message for people.
    pub message: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.field {
            Some(field) => write!(f, "{field}: {} ({})", self.message, self.code),
            None => write!(f, "{} ({})", self.message, self.code),
        }
    }
}

impl From<v1::Problem> for Problem {
    fn from(problem: v1::Problem) -> Self {
        let field = (!problem.field.is_empty()).then_some(problem.field);
        Self { code: problem.code, field, message: problem.message }
    }
}

impl From<tonic::Status> for Error {
    fn from(status: tonic::Status) -> Self {
        let details = RpcStatus::decode(status.details()).ok();
        let problem = details.and_then(|details| details.details.into_iter().next());
        let problem = problem.and_then(|any| v1::Problem::decode(&*any.value).ok());
        use tonic::Code::{Cancelled, DeadlineExceeded, Internal, Unavailable, Unknown};
        match (status.code(), problem) {
            (Unavailable | DeadlineExceeded, _) => Self::Unavailable(status.message().to_owned()),
            (_, Some(problem)) => Self::Refused(problem.into()),
            // A status without details comes from the connection, not from the server.
            (Cancelled | Internal | Unknown, None) => {
                Self::Unavailable(status.message().to_owned())
            }
            (code, None) => Self::Refused(Problem {
                code: format!("{code:?}"),
                field: None,
                message: status.message().to_owned(),
            }),
        }
    }
}

impl From<SessionEnd> for Error {
    fn from(end: SessionEnd) -> Self {
        let SessionEnd { code, field, message, is_transient } = end;
        if is_transient {
            return Self::Unavailable(message);
        }
        // Without a code, the name of the gRPC status.
        let code = code.map_or("Aborted", |code| code.as_str()).to_owned();
        Self::Refused(Problem { code, field, message })
    }
}

impl From<tonic::transport::Error> for Error {
    fn from(error: tonic::transport::Error) -> Self {
        let mut text = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(error) = source {
            text = format!("{text}: {error}");
            source = error.source();
        }
        Self::Unavailable(text)
    }
}

impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Self {
        Self::Malformed(error.to_string())
    }
}
