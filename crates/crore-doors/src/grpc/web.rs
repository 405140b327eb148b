//! What comes first: whether this is gRPC at all, gRPC-Web for browsers, which see no trailers, and CORS for pages of
//! other sites that may call.

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

/// What a page may read of an answer, besides its body.
const SEEN: &str = "grpc-status, grpc-message, grpc-status-details-bin, x-request-id";
/// For how many seconds a browser need not ask again whether a page may call.
const REMEMBERED: &str = "7200";

/// Whether a request speaks gRPC-Web.
pub(super) fn is_web(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    kind.is_some_and(|kind| kind.starts_with(b"application/grpc-web"))
}

/// Lets calls in, and tells browsers of pages that may call. Pages that may not are turned away before they come here.
pub(super) async fn meet(doors: Doors, request: Request, next: Next) -> Response {
    let Some(origin) = request.headers().get(ORIGIN).cloned() else {
        return translate(request, next).await;
    };
    if !doors.options().grpc.allow_origins.iter().any(|allowed| allowed.is(&origin)) {
        return translate(request, next).await;
    }
    let asks = request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD);
    let mut response = if asks && request.method() == Method::OPTIONS {
        allowed(request.headers().get(ACCESS_CONTROL_REQUEST_HEADERS))
    } else {
        translate(request, next).await
    };
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(SEEN));
    headers.append(VARY, HeaderValue::from_static("origin"));
    response
}

/// Translates what speaks gRPC-Web into gRPC and back.
async fn translate(request: Request, next: Next) -> Response {
    match Speaks::of(&request) {
        Some(Speaks::Grpc) => next.run(request).await,
        Some(Speaks::Web) => {
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
            let why = "this is a call of gRPC: POST, with `application/grpc` over HTTP/2, or with \
                       `application/grpc-web` or `application/grpc-web-text`";
            Fault::new(Code::MediaType, why).into_response()
        }
    }
}

/// How a call is made.
enum Speaks {
    Grpc,
    Web,
}

impl Speaks {
    /// `None`: in a way that means nothing here. Messages are protobuf, which may be said.
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

/// The answer to a browser that asks before it calls. A page that may call may say what it likes.
fn allowed(asked: Option<&HeaderValue>) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("POST"));
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(REMEMBERED));
    if let Some(asked) = asked {
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, asked.clone());
    }
    response
}
