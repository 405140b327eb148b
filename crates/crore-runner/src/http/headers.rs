//! Headers that others name.

use crore_core::code::excerpt;
use crore_core::{Code, Invalid};
use http::{HeaderName, HeaderValue};

/// Headers that say how a call is sent, or to whom: they are ours to set.
const OURS: [&str; 10] = [
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

/// The name of a header that others may set.
pub(crate) fn name(field: &str, text: &str) -> Result<HeaderName, Invalid> {
    let wrong =
        |why: &str| Invalid::new(Code::Malformed, field, format!("`{}` {why}", excerpt(text)));
    let name = HeaderName::from_bytes(text.as_bytes()).map_err(|_| wrong("is no header"))?;
    if OURS.contains(&name.as_str()) {
        return Err(wrong("is set by crore itself"));
    }
    Ok(name)
}

/// A value that a header can have; one that it cannot is not told, for it may be a secret.
pub(crate) fn value(field: &str, text: &str) -> Result<HeaderValue, Invalid> {
    HeaderValue::from_str(text).map_err(|_| {
        let message = "a header cannot have a value with control characters";
        Invalid::new(Code::Malformed, field, message)
    })
}
