//! What a browser says about the page that made a request.

use crore_api::Fault;
use crore_core::Code;
use crore_core::code::excerpt;
use http::header::ORIGIN;
use http::{HeaderMap, Method, Request};

use super::host::Authority;

/// Pages that a link on another site may open: looking at them changes nothing and gives nothing away.
const PAGES: [&str; 3] = ["/", "/docs", "/ui"];

/// Refuses what a page of another site has made. Programs say nothing about pages, and pass.
pub(super) fn check<B>(
    request: &Request<B>,
    is_ours: impl Fn(&Authority) -> bool,
) -> Result<(), Fault> {
    for origin in request.headers().get_all(ORIGIN) {
        let text = origin.to_str().unwrap_or_default();
        if !authority(text).is_some_and(|origin| is_ours(&origin)) {
            return Err(refused(&format!("from `{}`", excerpt(text))));
        }
    }
    match said(request.headers(), "sec-fetch-site") {
        None | Some("none" | "same-origin") => Ok(()),
        Some(_) if opens_a_page(request) => Ok(()),
        Some(site) => Err(refused(&format!("that the browser calls `{}`", excerpt(site)))),
    }
}

fn refused(what: &str) -> Fault {
    let detail =
        format!("a request {what} is refused: no page of another site may use this server");
    Fault::new(Code::CrossSite, detail)
}

/// Whether somebody followed a link to a page.
fn opens_a_page<B>(request: &Request<B>) -> bool {
    let (headers, path) = (request.headers(), request.uri().path());
    let is_page = PAGES.contains(&path) || path.starts_with("/ui/");
    let is_link = said(headers, "sec-fetch-mode") == Some("navigate")
        && said(headers, "sec-fetch-dest") == Some("document");
    is_page && is_link && *request.method() == Method::GET && !headers.contains_key(ORIGIN)
}

/// What a header says; what is no text is not what we know.
fn said<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().unwrap_or("?"))
}

/// The host and port of an origin such as `https://jobs.example.com`.
fn authority(origin: &str) -> Option<Authority> {
    let rest = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"))?;
    Authority::parse(rest)
}
