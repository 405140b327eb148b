//! What every call of gRPC passes, and what is answered where there is none.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use crore_core::Code;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Method};
use tonic::Status;

use crate::http::{Fault, Gate};
use crate::telemetry::Context;

/// Whether a request speaks gRPC, or gRPC-Web.
pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map(http::HeaderValue::as_bytes);
    kind.is_some_and(|kind| kind.starts_with(b"application/grpc"))
}

/// Admits a call, or says why not in a status.
pub(crate) async fn admit(State(gate): State<Gate>, mut request: Request, next: Next) -> Response {
    if !is_grpc(request.headers()) || request.method() != Method::POST {
        let why = "this is a call of gRPC: POST, with the content type `application/grpc`";
        return Fault::new(Code::MediaType, why).into_response();
    }
    if let Some(context) = Context::of(request.headers()) {
        request.extensions_mut().insert(context);
    }
    let response = gate.pass(request, next).await;
    match response.extensions().get::<Fault>() {
        Some(fault) => told(fault.clone()),
        None => response,
    }
}

/// A fault as a status, by which it is also counted.
fn told(fault: Fault) -> Response {
    let mut response: Response = Status::from(fault.clone()).into_http();
    response.extensions_mut().insert(fault);
    response
}

/// The answer where there is no such call.
pub(crate) fn unimplemented() -> Response {
    Status::unimplemented("there is no such call here").into_http()
}
