//! Authorization of calls, and responses to unknown calls.

use axum::extract::Request;
use axum::response::Response;
use crore_api::Fault;
use crore_api::admission::{Gate, admit_any_call};
use crore_api::middleware::Next;
use crore_api::telemetry::TraceContext;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue};
use tonic::Status;

use super::web::is_web;
use super::{RequiredAccess, response_body};
use crate::Doors;

/// Whether a request is gRPC or gRPC-Web.
pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    kind.is_some_and(|kind| kind.starts_with(b"application/grpc"))
}

/// A call with its requirement.
#[derive(Debug, Clone)]
pub(super) struct RoutedCall {
    pub(super) doors: Doors,
    pub(super) call: &'static str,
    pub(super) needs: RequiredAccess,
}

/// Admits a call, or responds with a status. Either way the call is counted when it ends.
pub(super) async fn admit(entry: RoutedCall, mut request: Request, next: Next) -> Response {
    if let Some(context) = TraceContext::from_headers(request.headers()) {
        request.extensions_mut().insert(context);
    }
    let RoutedCall { doors, call, needs } = entry;
    let (metrics, api) = (doors.metrics().clone(), doors.api().clone());
    let response = match needs {
        RequiredAccess::Public => next.run(request).await,
        RequiredAccess::AnyScope => admit_any_call(api, request, next).await,
        RequiredAccess::Scope(scopes) => Gate { api, scopes }.pass_call(request, next).await,
    };
    let extensions = response.extensions();
    let response = match (extensions.get::<Status>(), extensions.get::<Fault>()) {
        (None, Some(fault)) => fault_response(fault.clone()),
        _ => response,
    };
    response_body::guard(metrics, call, response)
}

/// A fault as a status. The fault stays attached to the response, for metrics and the request log.
fn fault_response(fault: Fault) -> Response {
    let mut response: Response = Status::from(fault.clone()).into_http();
    response.extensions_mut().insert(fault);
    response
}

/// The response to a request that is refused before it reaches a call.
pub(crate) fn refused(headers: &HeaderMap, fault: Fault) -> Response {
    with_content_type(headers, fault_response(fault))
}

/// The response to an unknown call.
pub(crate) fn unimplemented(headers: &HeaderMap) -> Response {
    with_content_type(headers, Status::unimplemented("unknown method").into_http())
}

/// Sets the content type of gRPC-Web; apart from that, a status without messages is the same as in gRPC.
fn with_content_type(headers: &HeaderMap, mut response: Response) -> Response {
    if let Some(kind) = headers.get(CONTENT_TYPE).filter(|_| is_web(headers)) {
        response.headers_mut().insert(CONTENT_TYPE, kind.clone());
    }
    response
}
