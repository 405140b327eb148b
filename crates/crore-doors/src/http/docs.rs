//! A page to try the API.

use axum::response::{Html, IntoResponse, Response};
use http::HeaderValue;
use http::header::CONTENT_SECURITY_POLICY;

/// The page brings everything with it, and may talk to this server alone.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);

/// The page.
pub(super) async fn page() -> Response {
    let mut response = Html(include_str!("docs.html")).into_response();
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, POLICY);
    response
}
