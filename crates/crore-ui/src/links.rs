//! Links between pages, below the path prefix of a reverse proxy.

use form_urlencoded::Serializer;
use http::HeaderMap;

/// Headers in which a reverse proxy names the path prefix that it has removed.
const PREFIX_HEADERS: [&str; 2] = ["x-forwarded-prefix", "x-script-name"];
/// Maximum length of a prefix.
const MAX_PREFIX: usize = 200;

/// Builds links.
#[derive(Debug, Clone, Default)]
pub(crate) struct Links {
    prefix: String,
}

impl Links {
    /// Links for a request. An implausible prefix is ignored.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let named = PREFIX_HEADERS.iter().find_map(|name| headers.get(*name)?.to_str().ok());
        let prefix =
            named.map(|text| text.trim().trim_end_matches('/')).filter(|text| is_sane(text));
        Self { prefix: prefix.unwrap_or_default().to_owned() }
    }

    /// The prefix, without a slash at its end.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The path of the pages, with a slash at its end.
    pub(crate) fn root(&self) -> String {
        format!("{}/ui/", self.prefix)
    }

    /// The link to a page: its path below `/ui/`.
    pub(crate) fn to(&self, path: &str) -> String {
        format!("{}/ui/{path}", self.prefix)
    }

    /// The link to the thing with this name in a list.
    pub(crate) fn item(&self, list: &str, name: &str) -> String {
        format!("{}/ui/{list}/{}", self.prefix, segment(name))
    }

    /// The link to a job.
    pub(crate) fn job(&self, id: impl std::fmt::Display) -> String {
        self.to(&format!("jobs/{id}"))
    }

    /// The link to a queue.
    pub(crate) fn queue(&self, name: &str) -> String {
        self.item("queues", name)
    }

    /// The link to the jobs that match a filter.
    pub(crate) fn jobs(&self, filter: &str) -> String {
        self.with("jobs", &[("q", filter)])
    }

    /// The link to a page with parameters; empty ones are left out.
    pub(crate) fn with(&self, path: &str, parameters: &[(&str, &str)]) -> String {
        let query = query(parameters);
        let mark = if query.is_empty() { "" } else { "?" };
        format!("{}{mark}{query}", self.to(path))
    }

    /// The link to the path of a request, below the prefix.
    pub(crate) fn here(&self, path: &str, parameters: &[(&str, &str)]) -> String {
        self.with(path.trim_start_matches("/ui/"), parameters)
    }
}

/// A query of the parameters that are not empty.
fn query(parameters: &[(&str, &str)]) -> String {
    let mut query = Serializer::new(String::new());
    query.extend_pairs(parameters.iter().filter(|(_, value)| !value.is_empty()));
    query.finish()
}

/// Escapes a name for a path.
fn segment(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'~' => out.push(byte.into()),
            // A name of dots would be a relative path.
            b'.' if !name.bytes().all(|byte| byte == b'.') => out.push('.'),
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// Whether a text is the absolute path of a prefix.
fn is_sane(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~/".contains(&byte);
    text.len() <= MAX_PREFIX
        && text.starts_with('/')
        && text.bytes().all(is_plain)
        && !text.contains("//")
        && !text.split('/').any(|part| part == "." || part == "..")
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn links(name: &'static str, value: &'static str) -> Links {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_static(value));
        Links::of(&headers)
    }

    #[test]
    fn links_are_below_a_plausible_prefix() {
        assert_eq!(links("x-forwarded-prefix", "/ops/crore/").job(7), "/ops/crore/ui/jobs/7");
        assert_eq!(links("x-script-name", "/a").root(), "/a/ui/");
        for bad in ["https://evil", "//evil", "/a//b", "/../x", "a", "/a b", "/a\"", "/a?b", "/"] {
            assert_eq!(links("x-forwarded-prefix", bad).root(), "/ui/", "{bad}");
        }
    }

    #[test]
    fn names_and_parameters_are_escaped() {
        let links = Links::default();
        assert_eq!(links.queue("a/b ?<ä"), "/ui/queues/a%2Fb%20%3F%3C%C3%A4");
        assert_eq!(links.queue(".."), "/ui/queues/%2E%2E");
        assert_eq!(links.with("jobs", &[("q", "a=b&c"), ("cursor", "")]), "/ui/jobs?q=a%3Db%26c");
    }
}
