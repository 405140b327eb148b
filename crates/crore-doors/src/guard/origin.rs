//! Pages of other sites that may call.

use std::fmt;
use std::str::FromStr;

use crore_core::code::excerpt;
use http::HeaderValue;

use super::host::Authority;

/// Where a page comes from, as its browser says it: `https://app.example.com`, or
/// `http://localhost:5173`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin(String);

impl Origin {
    /// Whether this is what a browser says.
    pub(crate) fn is(&self, said: &HeaderValue) -> bool {
        said.as_bytes() == self.0.as_bytes()
    }
}

impl FromStr for Origin {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            let text = excerpt(text);
            format!(
                "`{text}` is no origin such as `https://app.example.com`, with or without a port"
            )
        };
        let (scheme, rest) = text.split_once("://").ok_or_else(wrong)?;
        let usual = match scheme {
            "http" => 80,
            "https" => 443,
            _ => return Err(wrong()),
        };
        let mut authority = Authority::parse(rest).ok_or_else(wrong)?;
        // A browser leaves out the port that belongs to the scheme.
        authority.port = authority.port.filter(|port| *port != usual);
        Ok(Self(format!("{scheme}://{authority}")))
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_read_as_a_browser_says_it() {
        for (text, said) in [
            ("https://App.Example.com", "https://app.example.com"),
            ("https://app.example.com:443", "https://app.example.com"),
            ("http://localhost:5173", "http://localhost:5173"),
            ("http://[::1]:80", "http://[::1]"),
        ] {
            let origin: Origin = text.parse().expect("an origin");
            assert!(origin.is(&HeaderValue::from_static(said)), "{origin}");
            assert!(!origin.is(&HeaderValue::from_static("https://app.example.com.evil")));
        }
        for text in ["", "*", "null", "app.example.com", "ftp://a", "https://", "https://a/b"] {
            assert!(text.parse::<Origin>().is_err(), "{text}");
        }
    }
}
