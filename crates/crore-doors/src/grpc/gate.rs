//! Who may call, and what is answered where there is nothing to call.

use axum::extract::Request;
use axum::response::Response;
use crore_api::Fault;
use crore_api::admission::{Gate, admit_any};
use crore_api::middleware::Next;
use crore_api::telemetry::Context;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue};
use tonic::Status;

use super::hurry::hurried;
use super::web::is_web;
use super::{Needs, count};
use crate::Doors;

/// Whether a request speaks gRPC, or gRPC-Web.
pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    kind.is_some_and(|kind| kind.starts_with(b"application/grpc"))
}

/// A call, and what it needs.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) doors: Doors,
    pub(super) call: &'static str,
    pub(super) needs: Needs,
}

/// Admits a call, or says why not in a status. How it ends is counted either way.
pub(super) async fn admit(entry: Entry, mut request: Request, next: Next) -> Response {
    if let Some(context) = Context::of(request.headers()) {
        request.extensions_mut().insert(context);
    }
    let Entry { doors, call, needs } = entry;
    let (metrics, api) = (doors.metrics().clone(), doors.api().clone());
    let request = hurried(call, api.options().body_time, request);
    let response = match needs {
        Needs::Nothing => next.run(request).await,
        Needs::Any => admit_any(api, request, next).await,
        Needs::One(scope) => Gate { api, scope }.pass(request, next).await,
    };
    let said = response.extensions();
    let response = match (said.get::<Status>(), said.get::<Fault>()) {
        (None, Some(fault)) => told(fault.clone()),
        _ => response,
    };
    count::counted(metrics, call, response)
}

/// A fault as a status, by which it is also counted.
fn told(fault: Fault) -> Response {
    let mut response: Response = Status::from(fault.clone()).into_http();
    response.extensions_mut().insert(fault);
    response
}

/// A fault before any call, for whoever asks in these headers.
pub(crate) fn refused(headers: &HeaderMap, fault: Fault) -> Response {
    in_kind(headers, told(fault))
}

/// The answer where there is no such call, for whoever asks in these headers.
pub(crate) fn unimplemented(headers: &HeaderMap) -> Response {
    in_kind(headers, Status::unimplemented("there is no such call here").into_http())
}

/// A status without messages looks alike in gRPC and gRPC-Web, but for its content type.
fn in_kind(headers: &HeaderMap, mut response: Response) -> Response {
    if let Some(kind) = headers.get(CONTENT_TYPE).filter(|_| is_web(headers)) {
        response.headers_mut().insert(CONTENT_TYPE, kind.clone());
    }
    response
}
