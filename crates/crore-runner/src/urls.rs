//! Patterns for the URLs that an operator lets runners call.

use std::fmt;
use std::str::FromStr;

use crore_core::settings::{Setting, SettingValue, Shape};
use crore_outbound::Url;

use crate::pattern::{Pattern, parse_list};

/// A URL with `*` for any characters: `https://*.example.com/hooks/*`. Scheme, host and path match
/// separately, so a `*` in the host cannot match part of a path. Without a path it matches every
/// path; the query is ignored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UrlPattern {
    scheme: Pattern,
    host: Pattern,
    path: Pattern,
}

/// A text that is not a URL pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a URL pattern; write for example `https://*.example.com/hooks/*`, or `*`")]
pub struct InvalidUrlPattern(String);

impl FromStr for UrlPattern {
    type Err = InvalidUrlPattern;

    fn from_str(text: &str) -> Result<Self, InvalidUrlPattern> {
        let wrong = || InvalidUrlPattern(text.to_owned());
        let pattern = |part: &str| part.parse::<Pattern>().map_err(|_| wrong());
        if text == "*" {
            return Ok(Self { scheme: pattern("*")?, host: pattern("*")?, path: pattern("/*")? });
        }
        let (scheme, rest) = text.split_once("://").ok_or_else(wrong)?;
        let path = rest.find('/').unwrap_or(rest.len());
        let (host, path) = rest.split_at(path);
        let is_foreign =
            |c: char| c.is_control() || c.is_whitespace() || ['?', '#', '@', '\\'].contains(&c);
        if !matches!(scheme, "http" | "https" | "*") || text.contains(is_foreign) {
            return Err(wrong());
        }
        let path = if path.is_empty() { "/*" } else { path };
        let host = host.to_ascii_lowercase();
        Ok(Self { scheme: pattern(scheme)?, host: pattern(&host)?, path: pattern(path)? })
    }
}

impl fmt::Display for UrlPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme, self.host, self.path)
    }
}

impl UrlPattern {
    fn matches(&self, url: &Url) -> bool {
        let origin = url.origin();
        let Some((scheme, host)) = origin.split_once("://") else {
            return false;
        };
        // A pattern may name the default port of its scheme, which `origin` leaves out.
        let is_host =
            self.host.matches(host) || self.host.matches(&format!("{host}:{}", url.port()));
        self.scheme.matches(scheme) && is_host && self.path.matches(url.path())
    }
}

/// A list of patterns. It allows a URL that one of them matches; an empty list allows every URL.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Urls(Vec<UrlPattern>);

impl Setting for Urls {
    const SHAPE: Shape = Shape::Texts;

    fn read(given: &SettingValue) -> Result<Self, String> {
        parse_list::<UrlPattern, _>(given)
    }

    fn absent() -> Option<Self> {
        Some(Self::default())
    }
}

impl FromIterator<UrlPattern> for Urls {
    fn from_iter<I: IntoIterator<Item = UrlPattern>>(patterns: I) -> Self {
        Self(patterns.into_iter().collect())
    }
}

impl Urls {
    /// Whether `url` is allowed.
    pub fn allows(&self, url: &Url) -> bool {
        self.0.is_empty() || self.0.iter().any(|pattern| pattern.matches(url))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(pattern: &str, url: &str) -> bool {
        let pattern: UrlPattern = pattern.parse().expect(pattern);
        Urls::from_iter([pattern]).allows(&Url::parse("url", url).expect(url))
    }

    #[test]
    fn a_star_matches_within_one_part_of_the_url() {
        for (pattern, url, expected) in [
            ("*", "https://a.example.com/b", true),
            ("https://*.example.com/*", "https://a.example.com/b?c", true),
            ("https://*.example.com/*", "https://evil.net/x.example.com/b", false),
            ("https://*.example.com", "https://a.example.com/b", true),
            ("https://example.com/hooks/*", "https://EXAMPLE.com/hooks/1", true),
            ("https://example.com/hooks/*", "https://example.com/hooks/../admin", false),
            ("https://example.com/hooks/*", "https://example.com/hooks/%2e%2e/admin", false),
            ("https://example.com/*", "http://example.com/", false),
            ("*://example.com/*", "http://example.com/", true),
            ("https://example.com/*", "https://example.com:8443/", false),
            ("https://example.com:8443/*", "https://example.com:8443/", true),
            ("https://example.com:443/*", "https://example.com/", true),
            ("http://*:8080", "http://10.1.2.3:8080/a", true),
        ] {
            assert_eq!(allows(pattern, url), expected, "`{pattern}` and `{url}`");
        }
        assert!(Urls::default().allows(&Url::parse("url", "http://anybody/").expect("good")));
    }

    #[test]
    fn a_pattern_that_matches_nothing_is_invalid() {
        for bad in [
            "",
            "example.com",
            "ftp://example.com",
            "https://",
            "https://a?b=*",
            "https://u@a",
            "https://a b",
            "https://a\n/*",
        ] {
            assert!(bad.parse::<UrlPattern>().is_err(), "{bad}");
        }
        for good in ["https://a.example/*", "*://*/*"] {
            let read = good.parse::<UrlPattern>().expect(good);
            assert_eq!(read.to_string(), good);
        }
        for short in ["*", "https://a.example"] {
            let read = short.parse::<UrlPattern>().expect(short);
            assert_eq!(read.to_string().parse(), Ok(read));
        }
    }
}
