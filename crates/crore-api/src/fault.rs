//! Errors as responses.

use std::fmt;
use std::sync::Arc;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use crore_core::{Code, Invalid, JobId};
use crore_wire::Format;
use crore_wire::api::Problem;
use http::HeaderValue;
use http::header::{CONTENT_TYPE, RETRY_AFTER};

use crate::status::status;

/// An error response. It is encoded as JSON first; the admission middleware re-encodes it if the caller
/// accepts another format.
#[derive(Debug, Clone)]
pub struct Fault(Arc<(Code, Problem)>);

impl Fault {
    /// An error that is not about a field.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self(Arc::new((code, Problem::new(code, status(code).as_u16(), detail))))
    }

    /// A missing resource.
    pub fn missing(what: impl Into<String>) -> Self {
        Self::new(Code::NotFound, format!("{} does not exist", what.into()))
    }

    /// Adds the id of the conflicting job.
    pub fn with_job(self, id: JobId) -> Self {
        let (code, problem) = &*self.0;
        Self(Arc::new((*code, Problem { id: Some(id.into()), ..problem.clone() })))
    }

    /// The error code.
    pub fn code(&self) -> Code {
        self.0.0
    }

    /// The response body.
    pub fn problem(&self) -> &Problem {
        &self.0.1
    }

    fn body(&self, format: Format) -> (HeaderValue, Body) {
        let kind = HeaderValue::from_static(format.problem_type());
        (kind, Body::from(format.encode(self.problem())))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem().detail)
    }
}

impl std::error::Error for Fault {}

impl From<Invalid> for Fault {
    fn from(invalid: Invalid) -> Self {
        let code = invalid.code;
        Self(Arc::new((code, Problem::invalid(invalid, status(code).as_u16()))))
    }
}

impl From<crore::Error> for Fault {
    fn from(error: crore::Error) -> Self {
        let code = error.code();
        match error {
            crore::Error::Invalid(invalid) => invalid.into(),
            crore::Error::KeyReused { first: Some(first), .. } => {
                Self::new(code, error.to_string()).with_job(first)
            }
            // Messages of the store may contain file names; they belong in the operator's log only.
            crore::Error::Store(_) => Self::new(code, code.explain().trim()),
            other => Self::new(code, other.to_string()),
        }
    }
}

impl From<crate::access::Error> for Fault {
    fn from(error: crate::access::Error) -> Self {
        match error {
            crate::access::Error::Engine(error) => error.into(),
            error @ crate::access::Error::NoRandomness => {
                Self::new(Code::Unavailable, error.to_string())
            }
        }
    }
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        let (kind, body) = self.body(Format::Json);
        let mut response = Response::new(body);
        *response.status_mut() = status(self.0.0);
        response.headers_mut().insert(CONTENT_TYPE, kind);
        if matches!(self.0.0, Code::TooMany | Code::Stopping | Code::Unavailable) {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response.extensions_mut().insert(self);
        response
    }
}

/// Encodes an error response in another format; other responses are returned unchanged.
pub fn in_format(format: Format, mut response: Response) -> Response {
    if format == Format::Json {
        return response;
    }
    if let Some(fault) = response.extensions().get::<Fault>().cloned() {
        let (kind, body) = fault.body(format);
        *response.body_mut() = body;
        response.headers_mut().insert(CONTENT_TYPE, kind);
        response.headers_mut().remove(http::header::CONTENT_LENGTH);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn store_messages_are_not_sent_to_callers() {
        let secret = || "log-00000007 in /srv/jobs";
        let io = std::io::Error::other(secret());
        for error in [
            crore::store::Error::Corrupt { what: secret().to_owned() },
            crore::store::Error::Foreign { what: secret().to_owned() },
            crore::store::Error::Full { what: secret().to_owned() },
            crore::store::Error::Unavailable(io.into()),
        ] {
            let code = error.code();
            let fault = Fault::from(crore::Error::Store(error));
            let json = serde_json::to_string(fault.problem()).expect("a text");
            assert!(!json.contains("log-") && !json.contains("/srv"), "{json}");
            assert!(json.contains(code.as_str()) && json.contains("detail"), "{json}");
        }
    }
}
