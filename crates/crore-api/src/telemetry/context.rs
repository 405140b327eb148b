//! Trace context: reads W3C and B3 headers, and stores W3C. Malformed headers are ignored.

use std::fmt;
use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
const B3: HeaderName = HeaderName::from_static("b3");

/// Maximum length of a `tracestate`; a longer one is dropped, and the rest of the context is kept.
const MAX_STATE: usize = 512;

/// A trace context. A job stores it as text: the `traceparent`, and after a space the `tracestate`, if any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    /// Trace id.
    pub trace: u128,
    /// Span id of the parent.
    pub span: u64,
    /// Whether the trace is recorded.
    pub is_sampled: bool,
    /// Vendor data (`tracestate`).
    pub state: Option<Arc<str>>,
}

impl TraceContext {
    /// Reads the context of a request: W3C, or else B3 in a single header or in several.
    pub fn from_headers(headers: &HeaderMap) -> Option<Self> {
        // Most requests have none: one pass over their few headers is faster than seven lookups.
        if !headers.keys().any(|name| is_trace_header(name.as_str())) {
            return None;
        }
        w3c(headers).or_else(|| b3(headers)).or_else(|| b3_in_many(headers))
    }

    /// The context of a request, as a job stores it.
    pub fn text_from_headers(headers: &HeaderMap) -> Option<Arc<str>> {
        Self::from_headers(headers).map(|context| context.to_string().into())
    }

    /// Parses the context that a job stores.
    pub fn read(stored: &str) -> Option<Self> {
        let (parent, state) = match stored.split_once(' ') {
            Some((parent, state)) => (parent, Some(state)),
            None => (stored, None),
        };
        let context = traceparent(parent)?;
        Some(Self { state: state.and_then(well_formed), ..context })
    }

    /// The same trace with another span id.
    #[must_use]
    pub fn with_span(&self, span: u64) -> Self {
        Self { span, ..self.clone() }
    }

    /// The `traceparent` header.
    pub fn traceparent(&self) -> String {
        let Self { trace, span, is_sampled, .. } = self;
        format!("00-{trace:032x}-{span:016x}-{:02x}", u8::from(*is_sampled))
    }
}

impl fmt::Display for TraceContext {
    /// The form that a job stores.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.traceparent())?;
        match &self.state {
            Some(state) => write!(f, " {state}"),
            None => Ok(()),
        }
    }
}

/// Headers that pass a job's context on to a called worker: `traceparent`, `tracestate` and `b3`; none if the context
/// is malformed.
pub fn headers(stored: &str) -> HeaderMap {
    let Some(context) = TraceContext::read(stored) else { return HeaderMap::new() };
    let TraceContext { trace, span, is_sampled, state } = &context;
    let b3 = format!("{trace:032x}-{span:016x}-{}", u8::from(*is_sampled));
    let all = [(TRACEPARENT, Some(context.traceparent())), (B3, Some(b3))];
    let all = all.into_iter().chain([(TRACESTATE, state.as_ref().map(ToString::to_string))]);
    all.filter_map(|(name, text)| Some((name, HeaderValue::try_from(text?).ok()?))).collect()
}

/// Whether a header belongs to a trace context.
fn is_trace_header(name: &str) -> bool {
    matches!(name, "traceparent" | "b3") || name.starts_with("x-b3-")
}

fn w3c(headers: &HeaderMap) -> Option<TraceContext> {
    let mut all = headers.get_all(TRACEPARENT).iter();
    let (Some(parent), None) = (all.next(), all.next()) else { return None };
    let context = traceparent(parent.to_str().ok()?.trim())?;
    let states: Option<Vec<&str>> =
        headers.get_all(TRACESTATE).iter().map(|value| value.to_str().ok()).collect();
    let state = states.and_then(|states| well_formed(states.join(",").trim()));
    Some(TraceContext { state, ..context })
}

/// Parses `00-TRACE-SPAN-FLAGS`; fields that a later version appends are ignored.
fn traceparent(text: &str) -> Option<TraceContext> {
    let mut parts = text.split('-');
    let (version, trace, span, flags) =
        (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let is_newer = version != "00";
    if hex(version, 2)? == 0xff || (parts.next().is_some() && !is_newer) {
        return None;
    }
    let is_lower = !text.bytes().any(|byte| byte.is_ascii_uppercase());
    context(hex(trace, 32)?, hex(span, 16)?, hex(flags, 2)? & 1 == 1).filter(|_| is_lower)
}

/// Returns the `tracestate` if it is well-formed and short enough.
fn well_formed(state: &str) -> Option<Arc<str>> {
    let is_member = |member: &str| member.trim().is_empty() || member.contains('=');
    let is_plain = state.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    let fits = (1..=MAX_STATE).contains(&state.len()) && state.split(',').count() <= 32;
    (is_plain && fits && state.split(',').all(is_member)).then(|| state.into())
}

/// Parses `TRACE-SPAN-SAMPLED-PARENT`; the last two are optional. A single `0` carries no ids.
fn b3(headers: &HeaderMap) -> Option<TraceContext> {
    let text = headers.get(B3)?.to_str().ok()?.trim();
    let mut parts = text.split('-');
    let (trace, span) = (parts.next()?, parts.next()?);
    context(b3_trace(trace)?, hex(span, 16)?, is_sampled(parts.next())?)
}

fn b3_in_many(headers: &HeaderMap) -> Option<TraceContext> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let is_debug = text("x-b3-flags") == Some("1");
    let is_sampled = is_debug || is_sampled(text("x-b3-sampled"))?;
    context(b3_trace(text("x-b3-traceid")?)?, hex(text("x-b3-spanid")?, 16)?, is_sampled)
}

/// Parses a trace id of 64 or 128 bits.
fn b3_trace(text: &str) -> Option<u128> {
    hex(text, 32).or_else(|| hex(text, 16))
}

/// The sampling decision in B3; recorded if it is missing.
fn is_sampled(text: Option<&str>) -> Option<bool> {
    match text {
        None | Some("1" | "d" | "true") => Some(true),
        Some("0" | "false") => Some(false),
        Some(_) => None,
    }
}

fn context(trace: u128, span: u128, is_sampled: bool) -> Option<TraceContext> {
    let span = u64::try_from(span).ok()?;
    (trace != 0 && span != 0).then_some(TraceContext { trace, span, is_sampled, state: None })
}

/// Parses exactly this many hexadecimal digits.
fn hex(text: &str, digits: usize) -> Option<u128> {
    let is_hex = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex.then(|| u128::from_str_radix(text, 16).ok()).flatten()
}

#[cfg(test)]
#[expect(clippy::expect_used, reason = "tests may panic")]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    fn of(pairs: &[(&'static str, &str)]) -> Option<String> {
        let pairs = pairs.iter().map(|(name, value)| {
            (HeaderName::from_static(name), HeaderValue::from_str(value).expect("a value"))
        });
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(name, value);
        }
        TraceContext::from_headers(&headers).map(|context| context.to_string())
    }

    #[test]
    fn w3c_and_both_forms_of_b3_are_stored_as_w3c() {
        let parent = format!("00-{TRACE}-{SPAN}-01");
        let no = format!("00-{TRACE}-{SPAN}-00");
        assert_eq!(of(&[("traceparent", &parent)]), Some(parent.clone()));
        let state = [("traceparent", &*parent), ("tracestate", "a=1"), ("tracestate", "b=2")];
        assert_eq!(of(&state), Some(format!("{parent} a=1,b=2")));
        let newer = format!("cc-{TRACE}-{SPAN}-01-what-comes-later");
        assert_eq!(of(&[("traceparent", &newer)]), Some(parent.clone()));
        assert_eq!(of(&[("b3", &format!("{TRACE}-{SPAN}-1"))]), Some(parent.clone()));
        assert_eq!(of(&[("b3", &format!("{TRACE}-{SPAN}"))]), Some(parent.clone()));
        assert_eq!(of(&[("b3", &format!("{TRACE}-{SPAN}-0-{SPAN}"))]), Some(no.clone()));
        let many = [("x-b3-traceid", TRACE), ("x-b3-spanid", SPAN), ("x-b3-sampled", "0")];
        assert_eq!(of(&many), Some(no));
        let short = [("x-b3-traceid", "a3ce929d0e0e4736"), ("x-b3-spanid", SPAN)];
        assert_eq!(of(&short), Some(format!("00-0000000000000000a3ce929d0e0e4736-{SPAN}-01")));
        let both = [("traceparent", "nonsense"), ("b3", &*format!("{TRACE}-{SPAN}-1"))];
        assert_eq!(of(&both), Some(parent));
    }

    #[test]
    fn malformed_headers_are_ignored() {
        let zero = "0".repeat(32);
        for parent in [
            "",
            "00",
            "hello",
            &format!("00-{TRACE}-{SPAN}"),
            &format!("00-{TRACE}-{SPAN}-01-more"),
            &format!("ff-{TRACE}-{SPAN}-01"),
            &format!("00-{zero}-{SPAN}-01"),
            &format!("00-{TRACE}-0000000000000000-01"),
            &format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            &format!("00-+{}-{SPAN}-01", TRACE.get(1..).expect("long enough")),
        ] {
            assert_eq!(of(&[("traceparent", parent)]), None, "{parent}");
            assert_eq!(TraceContext::read(parent), None, "{parent}");
            assert!(headers(parent).is_empty());
        }
        let twice = format!("00-{TRACE}-{SPAN}-01");
        assert_eq!(of(&[("traceparent", &twice), ("traceparent", &twice)]), None);
        for single in ["0", "d", "1-2-3", &format!("{TRACE}-{SPAN}-x")] {
            assert_eq!(of(&[("b3", single)]), None, "{single}");
        }
    }

    #[test]
    fn an_invalid_tracestate_is_dropped() {
        let parent = format!("00-{TRACE}-{SPAN}-01");
        for state in [&*"a=1,".repeat(200), "no member", ""] {
            let kept = of(&[("traceparent", &parent), ("tracestate", state)]);
            assert_eq!(kept.as_ref(), Some(&parent), "{state}");
        }
    }

    #[test]
    fn called_workers_get_both_header_formats() {
        let sent = headers(&format!("00-{TRACE}-{SPAN}-01 a=1"));
        let text = |name: &str| sent.get(name).and_then(|value| value.to_str().ok());
        assert_eq!(text("traceparent"), Some(&*format!("00-{TRACE}-{SPAN}-01")));
        assert_eq!(text("tracestate"), Some("a=1"));
        assert_eq!(text("b3"), Some(&*format!("{TRACE}-{SPAN}-1")));
    }
}
