//! The middleware of all pages: preferences, sessions, error pages and security headers.

use axum::extract::Request;
use axum::response::{IntoResponse, Redirect, Response};
use crore_api::Fault;
use crore_api::access::SessionToken;
use crore_api::middleware::Next;
use crore_core::Code;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use http::{HeaderMap, HeaderValue, Method};
use tokio::time::Instant;

use crate::Ui;
use crate::cookies;
use crate::language::Language;
use crate::pages::error;
use crate::range::ChartRange;
use crate::visitor::{Theme, Visitor};

/// Everything comes from this server; there is no inline script or style.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Headers of every response.
const HEADERS: [(HeaderName, &str); 4] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
    (REFERRER_POLICY, "same-origin"),
];

/// Passes a request to its page, and completes the response.
pub(crate) async fn around(ui: Ui, mut request: Request, next: Next) -> Response {
    let visitor = Visitor::of(&request);
    let (method, is_foreign) = (request.method().clone(), is_foreign(request.headers()));
    let mut response = match set_preference(&method, &visitor) {
        Some(redirect) => redirect,
        None => {
            let now = ui.api().now();
            let session = visitor.session();
            let token = session.and_then(|id| ui.sessions().token(id, now, !visitor.is_script()));
            if let Some(token) = token {
                request.extensions_mut().insert(SessionToken(token));
            }
            request.extensions_mut().insert(visitor.clone());
            let start = Instant::now();
            let response = next.run(request).await;
            if visitor.is_live() {
                ui.live_load().loaded(start.elapsed());
            }
            response
        }
    };
    if let Some(fault) = response.extensions().get::<Fault>().cloned() {
        response = match fault.code() {
            Code::TokenNeeded if method == Method::GET && is_foreign => error::reload(&visitor),
            Code::TokenNeeded if method == Method::GET && !visitor.is_script() => {
                to_login(&visitor)
            }
            _ => error::page(&visitor, &fault),
        };
    }
    if let Some(range) = visitor.parameter("range").and_then(ChartRange::of_name) {
        let root = visitor.links().root();
        visitor.cookie_scope(&root).set_preference(
            response.headers_mut(),
            cookies::RANGE,
            range.name(),
        );
    }
    with_headers(response)
}

fn with_headers(mut response: Response) -> Response {
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response.headers_mut().entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Whether a link on another site opened the page. The browser then sends no session cookie (`SameSite=Strict`); it does
/// when the page reloads itself.
fn is_foreign(headers: &HeaderMap) -> bool {
    let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    matches!(site, Some(b"cross-site" | b"same-site"))
}

fn to_login(visitor: &Visitor) -> Response {
    let login = visitor.links().with("login", &[("page", visitor.page())]);
    Redirect::to(&login).into_response()
}

/// Stores a language or theme that a link sets, and returns to the page.
fn set_preference(method: &Method, visitor: &Visitor) -> Option<Response> {
    if *method != Method::GET {
        return None;
    }
    let language = visitor.parameter("set-language").and_then(Language::of_code);
    let theme = visitor.parameter("set-theme");
    let (name, parameter, value) = match (language, theme) {
        (Some(language), _) => (cookies::LANGUAGE, "set-language", language.code()),
        (None, Some(theme)) => {
            (cookies::THEME, "set-theme", Theme::of_name(theme).map_or("system", Theme::name))
        }
        (None, None) => return None,
    };
    let mut response = Redirect::to(&visitor.here_with(parameter, "")).into_response();
    let root = visitor.links().root();
    visitor.cookie_scope(&root).set_preference(response.headers_mut(), name, value);
    Some(response)
}
