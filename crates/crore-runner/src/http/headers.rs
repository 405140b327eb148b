//! Checks of headers from settings and payloads.

use crore_core::code::excerpt;
use crore_core::{Code, Invalid};
use http::{HeaderName, HeaderValue};

/// Headers about the transfer or the destination, which crore sets itself.
const RESERVED: [&str; 10] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Parses a header name that settings or payloads may set.
pub(crate) fn name(field: &str, text: &str) -> Result<HeaderName, Invalid> {
    let wrong =
        |why: &str| Invalid::new(Code::Malformed, field, format!("`{}` {why}", excerpt(text)));
    let name =
        HeaderName::from_bytes(text.as_bytes()).map_err(|_| wrong("is not a header name"))?;
    if RESERVED.contains(&name.as_str()) {
        return Err(wrong("is set by crore itself"));
    }
    Ok(name)
}

/// Parses a header value. The error omits the value, which may be a secret.
pub(crate) fn value(field: &str, text: &str) -> Result<HeaderValue, Invalid> {
    HeaderValue::from_str(text).map_err(|_| {
        let message = "a header cannot have a value with control characters";
        Invalid::new(Code::Malformed, field, message)
    })
}
