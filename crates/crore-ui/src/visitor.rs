//! Facts about a request that every page needs, before and after the caller is admitted.

use std::sync::Arc;

use axum::extract::Request;
use crore_api::access::SecureConnection;
use http::HeaderMap;
use http::header::{ACCEPT, HeaderName};

use crate::cookies::{self, CookieScope, cookie, session_name};
use crate::language::Language;
use crate::links::Links;
use crate::range::ChartRange;

/// The header of requests that update a page, and are not made by a person.
const LIVE: HeaderName = HeaderName::from_static("x-crore-live");
/// The content type of a stream of events.
const EVENT_STREAM: &str = "text/event-stream";

/// A visitor of the pages: preferences, links and session. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Visitor(Arc<VisitorFacts>);

#[derive(Debug)]
struct VisitorFacts {
    language: Language,
    theme: Option<Theme>,
    range: ChartRange,
    links: Links,
    /// The name of the session cookie, and the id in it, which may be unknown.
    session_name: String,
    session: Option<String>,
    path: String,
    /// The path below `/ui/`, and the query, as they were sent.
    page: String,
    parameters: Vec<(String, String)>,
    host: String,
    is_secure: bool,
    is_live: bool,
    is_stream: bool,
}

/// A theme that the visitor has chosen; without one, that of the browser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Theme {
    Light,
    Dark,
}

impl Theme {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }

    pub(crate) fn of_name(name: &str) -> Option<Self> {
        [Self::Light, Self::Dark].into_iter().find(|theme| theme.name() == name)
    }
}

impl Visitor {
    pub(crate) fn of(request: &Request) -> Self {
        let (headers, uri) = (request.headers(), request.uri());
        let query = uri.query().unwrap_or_default();
        let parameters: Vec<(String, String)> =
            form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        let range = value(&parameters, "range").or_else(|| cookie(headers, cookies::RANGE));
        let language = cookie(headers, cookies::LANGUAGE).and_then(Language::of_code);
        let session_name = session_name(named_host(request).unwrap_or_default());
        Self(Arc::new(VisitorFacts {
            language: language.unwrap_or_else(|| Language::preferred(headers)),
            theme: cookie(headers, cookies::THEME).and_then(Theme::of_name),
            range: range.and_then(ChartRange::of_name).unwrap_or(ChartRange::Hour),
            links: Links::of(headers),
            session: cookie(headers, &session_name).map(str::to_owned),
            session_name,
            path: uri.path().to_owned(),
            page: page(uri),
            parameters,
            host: named_host(request).unwrap_or("127.0.0.1:9000").to_owned(),
            is_secure: is_secure(request),
            is_live: headers.contains_key(LIVE),
            is_stream: headers.get_all(ACCEPT).iter().any(|accept| accept == EVENT_STREAM),
        }))
    }

    pub(crate) fn language(&self) -> Language {
        self.0.language
    }

    pub(crate) fn theme(&self) -> Option<Theme> {
        self.0.theme
    }

    pub(crate) fn range(&self) -> ChartRange {
        self.0.range
    }

    pub(crate) fn links(&self) -> &Links {
        &self.0.links
    }

    pub(crate) fn session(&self) -> Option<&str> {
        self.0.session.as_deref()
    }

    /// Whether a script made the request to update a page.
    pub(crate) fn is_live(&self) -> bool {
        self.0.is_live
    }

    /// Whether a script made the request: to update a page, or for a stream.
    pub(crate) fn is_script(&self) -> bool {
        self.0.is_live || self.0.is_stream
    }

    /// The path below `/ui/` and the query, to return to after a login.
    pub(crate) fn page(&self) -> &str {
        &self.0.page
    }

    /// The address of the server, as the visitor knows it.
    pub(crate) fn server_url(&self) -> String {
        let scheme = if self.0.is_secure { "https" } else { "http" };
        format!("{scheme}://{}{}", self.0.host, self.0.links.prefix())
    }

    /// A parameter of the query.
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        value(&self.0.parameters, name)
    }

    /// All parameters of the query with this name.
    pub(crate) fn parameters(&self, name: &str) -> impl Iterator<Item = &str> {
        let all = self.0.parameters.iter();
        all.filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The link to this page with a parameter replaced. The position in a list and messages are left out.
    pub(crate) fn here_with(&self, name: &str, value: &str) -> String {
        const TRANSIENT: [&str; 2] = ["cursor", "done"];
        let kept = self.0.parameters.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let kept = kept.filter(|(key, _)| *key != name && !TRANSIENT.contains(key));
        let all: Vec<(&str, &str)> = kept.chain([(name, value)]).collect();
        self.0.links.here(&self.0.path, &all)
    }

    /// How cookies of this visitor are stored. `path` is that of the pages.
    pub(crate) fn cookie_scope<'a>(&'a self, path: &'a str) -> CookieScope<'a> {
        CookieScope { path, session: &self.0.session_name, is_secure: self.0.is_secure }
    }
}

/// The host that the request names; a plausible one only.
fn named_host(request: &Request) -> Option<&str> {
    let header = request.headers().get(http::header::HOST).and_then(|host| host.to_str().ok());
    let named = request.uri().authority().map(http::uri::Authority::as_str).or(header);
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:[]".contains(&byte);
    named.filter(|host| !host.is_empty() && host.bytes().all(is_plain))
}

fn page(uri: &http::Uri) -> String {
    let all = uri.path_and_query().map_or("", http::uri::PathAndQuery::as_str);
    all.trim_start_matches("/ui/").to_owned()
}

fn value<'a>(parameters: &'a [(String, String)], name: &str) -> Option<&'a str> {
    parameters.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

/// Whether the browser uses TLS, to this server or to a proxy in front of it.
fn is_secure(request: &Request) -> bool {
    let is_https = |headers: &HeaderMap| {
        headers.get("x-forwarded-proto").is_some_and(|scheme| scheme.as_bytes() == b"https")
    };
    request.extensions().get::<SecureConnection>().is_some() || is_https(request.headers())
}
