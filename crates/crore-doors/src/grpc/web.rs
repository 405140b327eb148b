//! The outermost layer: checks the content type, translates gRPC-Web for browsers, which cannot read trailers, and
//! answers CORS for allowed origins.

use std::convert::Infallible;

use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use crore_api::Fault;
use crore_api::middleware::Next;
use crore_core::Code;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, CONTENT_TYPE, ORIGIN, VARY,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Version};
use tonic_web::GrpcWebLayer;
use tower::{Layer, ServiceExt, service_fn};

use crate::Doors;

/// Response headers that a page may read.
const EXPOSED_HEADERS: &str = "grpc-status, grpc-message, grpc-status-details-bin, x-request-id";
/// Seconds for which a browser may cache a preflight response.
const PREFLIGHT_MAX_AGE: &str = "7200";

/// Whether a request is gRPC-Web.
pub(super) fn is_web(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    kind.is_some_and(|kind| kind.starts_with(b"application/grpc-web"))
}

/// Adds CORS headers for allowed origins. The guard has already refused the others.
pub(super) async fn handle_cors(doors: Doors, request: Request, next: Next) -> Response {
    let Some(origin) = request.headers().get(ORIGIN).cloned() else {
        return translate(request, next).await;
    };
    if !doors.options().grpc.allow_origins.iter().any(|allowed| allowed.matches(&origin)) {
        return translate(request, next).await;
    }
    let has_request_method = request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD);
    let mut response = if has_request_method && request.method() == Method::OPTIONS {
        preflight_response(request.headers().get(ACCESS_CONTROL_REQUEST_HEADERS))
    } else {
        translate(request, next).await
    };
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED_HEADERS));
    headers.append(VARY, HeaderValue::from_static("origin"));
    response
}

/// Translates between gRPC-Web and gRPC.
async fn translate(request: Request, next: Next) -> Response {
    match CallProtocol::of(&request) {
        Some(CallProtocol::Grpc) => next.run(request).await,
        Some(CallProtocol::Web) => {
            let inner = service_fn(move |request: http::Request<tonic::body::Body>| {
                let next = next.clone();
                async move { Ok::<_, Infallible>(next.run(request.map(Body::new)).await) }
            });
            match GrpcWebLayer::new().layer(inner).oneshot(request).await {
                Ok(response) => response.map(Body::new),
                Err(never) => match never {},
            }
        }
        None => {
            let why = "gRPC calls are POST requests with `application/grpc` over HTTP/2, or with \
                       `application/grpc-web` or `application/grpc-web-text`";
            Fault::new(Code::MediaType, why).into_response()
        }
    }
}

/// The protocol of a call.
enum CallProtocol {
    Grpc,
    Web,
}

impl CallProtocol {
    /// `None`: not a gRPC request. The suffix `+proto` is optional.
    fn of(request: &Request) -> Option<Self> {
        let kind = request.headers().get(CONTENT_TYPE)?.to_str().ok()?;
        let is_grpc = matches!(kind, "application/grpc" | "application/grpc+proto");
        match kind.strip_suffix("+proto").unwrap_or(kind) {
            _ if request.method() != Method::POST => None,
            _ if is_grpc => (request.version() == Version::HTTP_2).then_some(Self::Grpc),
            "application/grpc-web" | "application/grpc-web-text" => Some(Self::Web),
            _ => None,
        }
    }
}

/// The response to a preflight request. An allowed page may send any header.
fn preflight_response(requested_headers: Option<&HeaderValue>) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("POST"));
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(PREFLIGHT_MAX_AGE));
    if let Some(requested_headers) = requested_headers {
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, requested_headers.clone());
    }
    response
}
