//! Origins of other sites that may call.

use std::fmt;
use std::str::FromStr;

use crore_core::code::excerpt;
use http::HeaderValue;

use super::host::HostAuthority;

/// An origin as a browser sends it: `https://app.example.com`, or `http://localhost:5173`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedOrigin(String);

impl AllowedOrigin {
    /// Whether the header has exactly this origin.
    pub(crate) fn matches(&self, header: &HeaderValue) -> bool {
        header.as_bytes() == self.0.as_bytes()
    }
}

impl FromStr for AllowedOrigin {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            let text = excerpt(text);
            format!("`{text}` is not an origin; expected one such as `https://app.example.com`")
        };
        let (scheme, rest) = text.split_once("://").ok_or_else(wrong)?;
        let default_port = match scheme {
            "http" => 80,
            "https" => 443,
            _ => return Err(wrong()),
        };
        let mut authority = HostAuthority::parse(rest).ok_or_else(wrong)?;
        // Browsers leave out the default port of the scheme.
        authority.port = authority.port.filter(|port| *port != default_port);
        Ok(Self(format!("{scheme}://{authority}")))
    }
}

impl fmt::Display for AllowedOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_matches_the_header_of_a_browser() {
        for (text, header) in [
            ("https://App.Example.com", "https://app.example.com"),
            ("https://app.example.com:443", "https://app.example.com"),
            ("http://localhost:5173", "http://localhost:5173"),
            ("http://[::1]:80", "http://[::1]"),
        ] {
            let origin: AllowedOrigin = text.parse().expect("an origin");
            assert!(origin.matches(&HeaderValue::from_static(header)), "{origin}");
            assert!(!origin.matches(&HeaderValue::from_static("https://app.example.com.evil")));
        }
        for text in ["", "*", "null", "app.example.com", "ftp://a", "https://", "https://a/b"] {
            assert!(text.parse::<AllowedOrigin>().is_err(), "{text}");
        }
    }
}
