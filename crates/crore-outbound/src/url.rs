//! A URL with path and query.
//!
//! Parsed strictly, so that it has one interpretation: [`Target`] parses the origin, dot segments are removed
//! from the path, and input that a browser would correct is refused.

use std::fmt;
use std::sync::{Arc, OnceLock};

use crore_core::{Code, Invalid};
use http::uri::{PathAndQuery, Uri};

use crate::target::Target;

/// Maximum length of a URL, in bytes.
const MAX_URL: usize = 8192;

/// A URL. `Display` and `Debug` omit the query, which may contain secrets. Clones share the text and the cached
/// [`Uri`].
#[derive(Clone, PartialEq, Eq)]
pub struct Url(Arc<UrlParts>);

struct UrlParts {
    target: Target,
    /// Begins with `/`; has no `.` or `..` segments.
    path: String,
    query: Option<String>,
    uri: OnceLock<Uri>,
}

impl PartialEq for UrlParts {
    fn eq(&self, other: &Self) -> bool {
        (&self.target, &self.path, &self.query) == (&other.target, &other.path, &other.query)
    }
}

impl Eq for UrlParts {}

impl Url {
    /// Parses a URL; errors name `field`.
    pub fn parse(field: &str, text: &str) -> Result<Self, Invalid> {
        check(field, text)?;
        let after = text.find("://").map_or(0, |at| at + 3);
        let rest = text.get(after..).unwrap_or_default();
        let end = rest.find(['/', '?']).map_or(text.len(), |at| after + at);
        let (origin, rest) = text.split_at_checked(end).unwrap_or((text, ""));
        let target = Target::parse(field, origin)?;
        Self::with_rest(target, field, rest)
    }

    /// Resolves a reference relative to this URL: `next`, `/from/the/start`, `?a=b`, or another URL. As in browsers,
    /// the last path segment is replaced unless the path ends with `/`.
    pub fn join(&self, field: &str, reference: &str) -> Result<Self, Invalid> {
        check(field, reference)?;
        let scheme = if self.is_tls() { "https" } else { "http" };
        let with_rest = |rest: &str| Self::with_rest(self.0.target.clone(), field, rest);
        if reference.starts_with("//") {
            return Self::parse(field, &format!("{scheme}:{reference}"));
        }
        if has_scheme(reference) {
            return Self::parse(field, reference);
        }
        if reference.is_empty() {
            return Ok(self.clone());
        }
        if reference.starts_with('/') {
            return with_rest(reference);
        }
        if reference.starts_with('?') {
            return with_rest(&format!("{}{reference}", self.path()));
        }
        let folder = self.path().rsplit_once('/').map_or("", |(folder, _)| folder);
        with_rest(&format!("{folder}/{reference}"))
    }

    fn of(target: Target, path: String, query: Option<String>) -> Self {
        Self(Arc::new(UrlParts { target, path, query, uri: OnceLock::new() }))
    }

    fn with_rest(target: Target, field: &str, rest: &str) -> Result<Self, Invalid> {
        let (path, query) = match rest.split_once('?') {
            Some((path, query)) => (path, Some(query.to_owned())),
            None => (rest, None),
        };
        let url = Self::of(target, remove_dot_segments(path), query);
        match url.path_and_query() {
            Ok(_) => url.check_length(field),
            Err(_) => Err(invalid_url(field, "has an invalid path or query")),
        }
    }

    /// A URL that was put together may be longer than one that was written.
    fn check_length(self, field: &str) -> Result<Self, Invalid> {
        let UrlParts { path, query, .. } = &*self.0;
        let len =
            self.origin().len() + path.len() + query.as_ref().map_or(0, |text| 1 + text.len());
        match len {
            0..=MAX_URL => Ok(self),
            _ => {
                Err(invalid_url(field, &format!("has {len} bytes, at most {MAX_URL} are allowed")))
            }
        }
    }

    /// Appends a pair to the query, percent-encoded. `field` is named if the URL becomes too long.
    pub fn append_query(&mut self, field: &str, name: &str, value: &str) -> Result<(), Invalid> {
        let UrlParts { target, path, query, .. } = &*self.0;
        let mut pairs =
            form_urlencoded::Serializer::for_suffix(query.clone().unwrap_or_default(), 0);
        let query = pairs.append_pair(name, value).finish();
        *self = Self::of(target.clone(), path.clone(), Some(query)).check_length(field)?;
        Ok(())
    }

    /// Whether TLS is used.
    pub fn is_tls(&self) -> bool {
        self.0.target.tls
    }

    /// The host as written, in lower case.
    pub fn host(&self) -> String {
        self.0.target.host.to_ascii_lowercase()
    }

    /// The port, explicit or default.
    pub fn port(&self) -> u16 {
        self.0.target.port
    }

    /// The path, with its leading `/`.
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// Scheme, host and port; a default port is omitted.
    pub fn origin(&self) -> String {
        let (scheme, default_port) = if self.is_tls() { ("https", 443) } else { ("http", 80) };
        let host = self.host();
        let host = if host.contains(':') { format!("[{host}]") } else { host };
        match self.port() {
            port if port == default_port => format!("{scheme}://{host}"),
            port => format!("{scheme}://{host}:{port}"),
        }
    }

    /// Whether both URLs have the same origin.
    pub fn is_same_origin(&self, other: &Self) -> bool {
        self.origin() == other.origin()
    }

    /// The URL as a [`Uri`], cached.
    pub fn to_uri(&self) -> Result<Uri, Invalid> {
        if let Some(uri) = self.0.uri.get() {
            return Ok(uri.clone());
        }
        let uri = self.make_uri()?;
        Ok(self.0.uri.get_or_init(|| uri).clone())
    }

    fn make_uri(&self) -> Result<Uri, Invalid> {
        let invalid = || invalid_url("url", "is invalid");
        let path = self.path_and_query().map_err(|_| invalid())?;
        let mut parts = self.origin().parse::<Uri>().map_err(|_| invalid())?.into_parts();
        parts.path_and_query = Some(path);
        Uri::from_parts(parts).map_err(|_| invalid())
    }

    fn path_and_query(&self) -> Result<PathAndQuery, http::uri::InvalidUri> {
        match &self.0.query {
            Some(query) => format!("{}?{query}", self.path()).parse(),
            None => self.path().parse(),
        }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.origin(), self.path())
    }
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Url({self})")
    }
}

fn invalid_url(field: &str, why: &str) -> Invalid {
    Invalid::new(Code::OutboundDenied, field, format!("url {why}"))
}

fn check(field: &str, text: &str) -> Result<(), Invalid> {
    if text.len() > MAX_URL || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(invalid_url(
            field,
            "is too long, or has characters other than printable ASCII",
        ));
    }
    if text.contains(['\\', '#']) {
        return Err(invalid_url(field, "has a `\\` or a `#`"));
    }
    Ok(())
}

/// Whether a reference begins with a scheme.
fn has_scheme(reference: &str) -> bool {
    let start = reference.split(['/', '?']).next().unwrap_or_default();
    start.contains(':')
}

/// Removes dot segments: `/a/./b/../c` becomes `/a/c`. A dot may be written as `%2e`.
fn remove_dot_segments(path: &str) -> String {
    let mut segments = Vec::new();
    let mut parts = path.strip_prefix('/').unwrap_or(path).split('/').peekable();
    while let Some(part) = parts.next() {
        let plain = part.replace("%2e", ".").replace("%2E", ".");
        let is_dot = match plain.as_str() {
            "." => true,
            ".." => {
                segments.pop();
                true
            }
            _ => false,
        };
        if !is_dot {
            segments.push(part);
        } else if parts.peek().is_none() {
            segments.push("");
        }
    }
    format!("/{}", segments.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse("url", text).expect(text)
    }

    fn sent(url: &Url) -> String {
        url.to_uri().expect("it was checked").to_string()
    }

    #[test]
    fn a_url_is_sent_as_it_was_written_and_shown_without_its_query() {
        for (text, as_sent, shown) in [
            ("http://worker", "http://worker/", "http://worker/"),
            ("https://Worker:443/a/?k=v&k=w", "https://worker/a/?k=v&k=w", "https://worker/a/"),
            ("http://[::1]:8080/@me", "http://[::1]:8080/@me", "http://[::1]:8080/@me"),
            ("http://worker?a=b", "http://worker/?a=b", "http://worker/"),
            (
                "http://worker:8080/a/../b/%2e%2E/./c/.",
                "http://worker:8080/c/",
                "http://worker:8080/c/",
            ),
            ("http://worker/../../etc", "http://worker/etc", "http://worker/etc"),
        ] {
            let url = url(text);
            assert_eq!((sent(&url), url.to_string()), (as_sent.to_owned(), shown.to_owned()));
        }
    }

    #[test]
    fn ambiguous_urls_are_refused_with_their_field() {
        for bad in [
            "",
            "worker:8080/a",
            "/worker",
            "file:///etc/passwd",
            "gopher://worker",
            "unix:/run/docker.sock",
            "http://user@allowed@evil/",
            "http://user:secret@worker/",
            "http://allowed#@evil",
            "http://evil\\@allowed",
            "http://worker:22/",
            "http://worker:/",
            "http://wörker/",
            "http://worker/a\r\nHost: evil",
            "http://wor ker/",
            "http://worker/\0",
            "http://worker/?a=\"<\n",
            "http://?a",
        ] {
            let error = Url::parse("settings.url", bad).expect_err(bad);
            let actual = (error.code, error.field.as_str());
            assert_eq!(actual, (Code::OutboundDenied, "settings.url"), "{bad}");
        }
    }

    #[test]
    fn relative_references_resolve_as_in_browsers() {
        let base = url("http://worker:8080/a/b?x=1");
        for (reference, leads) in [
            ("", "http://worker:8080/a/b?x=1"),
            ("c", "http://worker:8080/a/c"),
            ("c/", "http://worker:8080/a/c/"),
            ("../c?y=2", "http://worker:8080/c?y=2"),
            ("/c", "http://worker:8080/c"),
            ("?y=2", "http://worker:8080/a/b?y=2"),
            ("//other/c", "http://other/c"),
            ("https://other/c", "https://other/c"),
            ("../../../../c", "http://worker:8080/c"),
        ] {
            let joined = base.join("path", reference).expect(reference);
            assert_eq!(sent(&joined), leads, "{reference}");
            assert_eq!(joined.is_same_origin(&base), !leads.contains("other"), "{reference}");
        }
        assert_eq!(
            sent(&url("http://worker/a/").join("path", "c").expect("good")),
            "http://worker/a/c"
        );
        for bad in
            ["javascript:alert(1)", "file:/etc", "a\\b", "a b", "//u@h/", "/a\r\nb", "http:c"]
        {
            assert!(base.join("path", bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn query_pairs_are_percent_encoded() {
        let (mut some, mut none) = (url("http://worker/a?x=1"), url("http://worker"));
        some.append_query("query", "key", "a b&c=d").expect("short");
        some.append_query("query", "ü", "").expect("short");
        assert_eq!(sent(&some), "http://worker/a?x=1&key=a+b%26c%3Dd&%C3%BC=");
        none.append_query("query", "a", "b").expect("short");
        assert_eq!(sent(&none), "http://worker/?a=b");
        assert!(!format!("{none:?}{none}").contains('b'), "a query is not shown");
    }

    #[test]
    fn a_url_that_becomes_too_long_is_refused_and_unchanged() {
        let before = url("http://worker/a?x=1");
        let room = MAX_URL - "http://worker/a?x=1&key=".len();
        let mut longer = before.clone();
        longer.append_query("query", "key", &"v".repeat(room)).expect("the maximum");
        assert_eq!(Url::parse("url", &sent(&longer)).as_ref(), Ok(&longer));
        let mut unchanged = before.clone();
        let refused = unchanged.append_query("query", "key", &"v".repeat(room + 1));
        assert_eq!(refused.expect_err("too long").field, "query");
        assert_eq!(unchanged, before);
        let folder = url(&format!("http://worker/{}/", "a".repeat(5000)));
        let joined = folder.join("path", &"b".repeat(5000));
        assert_eq!(joined.expect_err("too long together").field, "path");
    }
}
