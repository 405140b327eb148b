//! A page to try the API from a browser.

use axum::response::{Html, IntoResponse, Response};
use http::HeaderValue;
use http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};

/// The page loads everything from this server only.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'",
);

pub(super) async fn page() -> Response {
    let mut response = Html(include_str!("docs.html")).into_response();
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, POLICY);
    response
}

pub(super) async fn script() -> Response {
    ([(CONTENT_TYPE, "text/javascript; charset=utf-8")], include_str!("docs.js")).into_response()
}

pub(super) async fn style() -> Response {
    ([(CONTENT_TYPE, "text/css; charset=utf-8")], include_str!("docs.css")).into_response()
}
