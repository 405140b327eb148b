//! Checks the headers in which a browser describes the page that made a request.

use crore_api::Fault;
use crore_core::Code;
use crore_core::code::excerpt;
use http::header::ORIGIN;
use http::{HeaderMap, Method, Request};

use super::host::HostAuthority;

/// Pages that a link on another site may open; opening them changes and reveals nothing.
const PAGES: [&str; 3] = ["/", "/docs", "/ui"];

/// Refuses cross-site requests. Clients other than browsers do not send these headers, and pass.
pub(super) fn check<B>(
    request: &Request<B>,
    is_ours: impl Fn(&HostAuthority) -> bool,
) -> Result<(), Fault> {
    for origin in request.headers().get_all(ORIGIN) {
        let text = origin.to_str().unwrap_or_default();
        if !authority(text).is_some_and(|origin| is_ours(&origin)) {
            return Err(refused(&format!("from `{}`", excerpt(text))));
        }
    }
    match header_text(request.headers(), "sec-fetch-site") {
        None | Some("none" | "same-origin") => Ok(()),
        Some(_) if is_navigation(request) => Ok(()),
        Some(site) => Err(refused(&format!("with `sec-fetch-site: {}`", excerpt(site)))),
    }
}

fn refused(what: &str) -> Fault {
    let detail = format!("request {what} refused: pages of other sites may not use this server");
    Fault::new(Code::CrossSite, detail)
}

/// Whether the request is a navigation to a page.
fn is_navigation<B>(request: &Request<B>) -> bool {
    let (headers, path) = (request.headers(), request.uri().path());
    let is_page = PAGES.contains(&path) || path.starts_with("/ui/");
    let is_link = header_text(headers, "sec-fetch-mode") == Some("navigate")
        && header_text(headers, "sec-fetch-dest") == Some("document");
    is_page && is_link && *request.method() == Method::GET && !headers.contains_key(ORIGIN)
}

/// A header as text; a value that is not text becomes `?`, which no check accepts.
fn header_text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().unwrap_or("?"))
}

/// The host and port of an origin such as `https://jobs.example.com`.
fn authority(origin: &str) -> Option<HostAuthority> {
    let rest = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"))?;
    HostAuthority::parse(rest)
}
