//! Texts with a grammar of their own: limits, filters, schedules, durations, URLs, tokens …
//!
//! ```text
//! input = name of the reader, line feed, text [ line feed "===" line feed second text ]
//! ```

use std::fmt::{Debug, Display};
use std::str::FromStr;
use std::sync::Arc;

use crore_api::access::redacted;
use crore_api::negotiation::{Accept, content_type};
use crore_api::telemetry::{self, TraceContext};
use crore_core::limit::{Limit, keys_for, point_at};
use crore_core::restriction::{NamePattern, matches_stars};
use crore_core::schedule::{Missed, Timing, due};
use crore_core::settings::Reference;
use crore_core::{
    Encoding, Job, JobId, Live, Name, Payload, Restriction, Size, Span, Spec, State, Time,
};
use crore_core::{Fingerprint, SearchFilter};
use crore_doors::{AllowedHost, AllowedOrigin};
use crore_outbound::{AllowEntry, Target, Url};
use crore_runner::{Capability, Pattern, UrlPattern};
use crore_wire::api::Id;
use crore_wire::units::{Moment, Period};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};

use crate::memory::MemoryBound;
use crate::properties::{check_invalid, check_message};

/// The base covers time zone data and the conditions of a limit, whose length is bounded.
const MEMORY: MemoryBound = MemoryBound { base: 1 << 20, per_byte: 256 };

/// Separates the two texts of a reader that needs two.
const SEPARATOR: &str = "\n===\n";

pub(crate) fn run(input: &[u8]) {
    let Ok(input) = str::from_utf8(input) else { return };
    let Some((reader, text)) = input.split_once('\n') else { return };
    MEMORY.check(text.len(), || read(reader, text));
}

fn read(reader: &str, text: &str) {
    let (first, second) = text.split_once(SEPARATOR).unwrap_or((text, ""));
    match reader {
        "limit" => drop(limit(text)),
        "keys" => keys(first, second),
        "filter" => filter(first, second),
        "schedule" => schedule(text),
        "duration" => round_trip::<Period>(text),
        "size" => round_trip::<Size>(text),
        "instant" => round_trip::<Moment>(text),
        "id" => round_trip::<Id>(text),
        "name" => name(text),
        "pattern" => pattern(first, second),
        "url" => url(first, second),
        "target" => target(text),
        "token" => token(text),
        "trace" => trace(text),
        "header" => header(text),
        "setting" => setting(text),
        _ => {}
    }
}

/// A parsed value must be the same after printing and parsing it again.
fn round_trip<T>(text: &str)
where
    T: FromStr<Err: Display> + Display + PartialEq + Debug,
{
    let value = match text.parse::<T>() {
        Ok(value) => value,
        Err(error) => return check_message(&error.to_string()),
    };
    let printed = value.to_string();
    let again = printed.parse::<T>().map_err(|error| error.to_string());
    assert_eq!(again.as_ref(), Ok(&value), "{printed:?} is read differently");
}

fn limit(text: &str) -> Option<Limit> {
    match Limit::parse(text) {
        Ok(limit) => {
            assert_eq!(Limit::parse(&limit.to_string()).as_ref(), Ok(&limit));
            assert_eq!(limit.check(), Ok(()), "a parsed limit is valid");
            Some(limit)
        }
        Err(invalid) => {
            check_invalid(&invalid, Some(text));
            assert!(point_at(text, &invalid).len() <= 4000);
            None
        }
    }
}

/// The buckets of a job with this payload.
fn keys(text: &str, payload: &str) {
    let (Some(limit), Ok(name)) = (limit(text), Name::new("limit", "a")) else { return };
    for encoding in [Encoding::Json, Encoding::Msgpack, Encoding::Bytes] {
        let payload = Payload::new(encoding, payload.as_bytes());
        let keys = keys_for([(&name, &limit)].into_iter(), "queue", "kind", &payload);
        assert_eq!(!keys.is_empty(), limit.matcher.matches("queue", "kind", &payload));
        assert!(keys.iter().all(|key| key.value.as_ref().is_none_or(|value| value.len() <= 4096)));
    }
}

/// A filter, and whether it matches a dead job with this payload and error.
fn filter(text: &str, payload: &str) {
    let filter = match SearchFilter::parse("q", text) {
        Ok(filter) => filter,
        Err(invalid) => {
            check_invalid(&invalid, Some(text));
            return assert!(invalid.field == "q" && point_at(text, &invalid).len() <= 4000);
        }
    };
    let printed = filter.to_string();
    assert_eq!(SearchFilter::parse("q", &printed).as_ref(), Ok(&filter), "{printed:?}");
    let (Ok(name), now) = (Name::new("queue", "a"), Time::from_millis(1_790_000_000_000)) else {
        return;
    };
    let mut live = Live::pushed(now, now, 0);
    live.state = State::Dead;
    live.ended_at = Some(now);
    for encoding in [Encoding::Json, Encoding::Msgpack, Encoding::Bytes] {
        let payload = Payload::new(encoding, payload.as_bytes());
        let spec = Arc::new(Spec::new(name.clone(), name.clone(), payload));
        let job = Job { id: JobId(1), spec, live: live.clone() };
        if filter.matches(&job, now) {
            let (ended, due) = (filter.ended_range(now), filter.due_range(now));
            assert!(filter.states().contains(&State::Dead));
            assert!(filter.queues().is_none_or(|queues| queues.contains(&name)));
            assert!(filter.ids().is_none_or(|ids| ids.contains(&job.id)));
            assert!(ended.from <= now && now <= ended.to && due.from <= now && now <= due.to);
        }
    }
    let fingerprint = Fingerprint::of(payload);
    assert_eq!(fingerprint.to_string().parse(), Ok(fingerprint));
}

fn schedule(text: &str) {
    let timing = match Timing::parse("schedule", text) {
        Ok(timing) => timing,
        Err(invalid) => return check_invalid(&invalid, Some(text)),
    };
    assert_eq!(Timing::parse("schedule", &timing.to_string()).as_ref(), Ok(&timing));
    let start = Time::from_millis(1_790_000_000_000);
    let ticks = timing.preview(start, 3);
    assert!(ticks.is_sorted() && ticks.first().is_none_or(|first| *first > start));
    if let [first, .., last] = *ticks {
        assert_eq!(timing.last_between(start, first), Some(first));
        assert_eq!(timing.last_between(start, last), Some(last));
        let all = due(&timing, Missed::All, start, last, 10);
        assert!(format!("{all:?}").len() < 4000);
    }
}

fn name(text: &str) {
    match Name::new("queue", text) {
        Ok(name) => assert_eq!(name.as_str(), text),
        Err(invalid) => check_invalid(&invalid, None),
    }
}

fn pattern(pattern: &str, value: &str) {
    if let Err(invalid) = Restriction::new(&[pattern.to_owned()], &[value.to_owned()]) {
        check_invalid(&invalid, None);
    }
    let Ok(name) = Name::new("queue", value) else { return };
    match NamePattern::new("queues", pattern) {
        Ok(pattern) => {
            let literal = !pattern.as_str().contains('*');
            assert!(!(literal && pattern.matches(&name)) || pattern.as_str() == value);
        }
        Err(invalid) => check_invalid(&invalid, None),
    }
    assert!(matches_stars("*", value) && matches_stars(value, value));
}

/// The HTTP client must find the same host, port and path in a URL as the parser that checks it.
fn url(text: &str, reference: &str) {
    let url = match Url::parse("url", text) {
        Ok(url) => url,
        Err(invalid) => return check_invalid(&invalid, None),
    };
    same_uri(&url);
    match url.join("path", reference) {
        Ok(joined) => same_uri(&joined),
        Err(invalid) => check_invalid(&invalid, None),
    }
    let mut longer = url;
    match longer.append_query("query", "key", reference) {
        Ok(()) => same_uri(&longer),
        Err(invalid) => check_invalid(&invalid, None),
    }
    if let Ok(pattern) = reference.parse::<UrlPattern>() {
        assert_eq!(pattern.to_string().parse().as_ref(), Ok(&pattern));
    }
}

fn same_uri(url: &Url) {
    let uri = url.to_uri().expect("a URL that was read can be sent");
    let host = uri.host().unwrap_or_default();
    assert_eq!(host.trim_matches(['[', ']']).to_ascii_lowercase(), url.host());
    let default_port = if url.is_tls() { 443 } else { 80 };
    assert_eq!(uri.port_u16().unwrap_or(default_port), url.port());
    assert_eq!(uri.path(), url.path());
    assert_eq!(uri.scheme_str(), Some(if url.is_tls() { "https" } else { "http" }));
    let segments = url.path().replace("%2e", ".").replace("%2E", ".");
    assert!(!segments.split('/').any(|part| part == ".."), "a path leaves its folder: {url}");
    let again = Url::parse("url", &uri.to_string()).expect("a printed URL can be read");
    assert_eq!(again.to_uri(), Ok(uri));
}

fn target(text: &str) {
    match Target::parse("url", text) {
        Ok(target) => {
            let printed = target.to_string();
            assert_eq!(Target::parse("url", &printed).as_ref(), Ok(&target), "{printed}");
        }
        Err(invalid) => check_invalid(&invalid, None),
    }
}

/// The secret of a token, which follows its id, must not be shown.
fn token(text: &str) {
    let shown = redacted(text);
    let words = shown.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    for word in words {
        let secret = word.strip_prefix("crore_").and_then(|rest| rest.split_once('_'));
        assert!(secret.is_none_or(|(_, secret)| secret.is_empty()), "{shown}");
    }
    if !text.contains("crore_") {
        assert_eq!(shown, text);
    }
}

fn trace(text: &str) {
    assert!(telemetry::headers(text).len() <= 3);
    if let Some(context) = TraceContext::read(text) {
        assert_eq!(TraceContext::read(&context.to_string()).as_ref(), Some(&context));
    }
    for name in ["traceparent", "b3", "x-b3-traceid", "tracestate"] {
        let Ok(value) = HeaderValue::from_str(text) else { return };
        let mut headers = HeaderMap::new();
        headers.insert(name, value);
        if name == "x-b3-traceid" {
            headers.insert("x-b3-spanid", HeaderValue::from_static("00f067aa0ba902b7"));
        }
        if let Some(stored) = TraceContext::text_from_headers(&headers) {
            assert!(stored.len() <= 600 && TraceContext::read(&stored).is_some());
        }
    }
}

/// Content negotiation.
fn header(text: &str) {
    let Ok(value) = HeaderValue::from_str(text) else { return };
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, value.clone());
    headers.insert(CONTENT_TYPE, value);
    if let Err(fault) = Accept::of(&headers) {
        check_message(&fault.to_string());
    }
    if let Err(fault) = content_type(&headers) {
        check_message(&fault.to_string());
    }
}

/// Values of configuration keys.
fn setting(text: &str) {
    let _ = (text.parse::<Span>(), text.parse::<Pattern>(), text.parse::<Reference>());
    let _ = text.parse::<Capability>();
    for read in [
        text.parse::<AllowedHost>().map(|value| value.to_string()).ok(),
        text.parse::<AllowedOrigin>().map(|value| value.to_string()).ok(),
        text.parse::<AllowEntry>().map(|value| value.to_string()).ok(),
    ] {
        assert!(read.is_none_or(|printed| printed.len() <= text.len() + 64));
    }
}
