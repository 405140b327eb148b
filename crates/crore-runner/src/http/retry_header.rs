//! The `Retry-After` header.

use crore_core::Span;
use http::header::{DATE, HeaderMap, HeaderName, RETRY_AFTER};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;

/// Maximum delay that is honoured.
const MAX_DELAY: Span = Span::from_secs(24 * 60 * 60);

/// Parses `Retry-After`: seconds, or an instant of the server's clock, which is compared with the `Date` of
/// the response instead of the local clock.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Span> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let span = match text.parse() {
        Ok(seconds) => Span::from_secs(seconds),
        Err(_) => {
            let until = instant(headers, &RETRY_AFTER)?.as_millisecond();
            let now = instant(headers, &DATE)?.as_millisecond();
            Span::from_millis(u64::try_from(until - now).unwrap_or(0))
        }
    };
    Some(span.min(MAX_DELAY))
}

fn instant(headers: &HeaderMap, name: &HeaderName) -> Option<Timestamp> {
    let text = headers.get(name)?.to_str().ok()?;
    DateTimeParser::new().parse_timestamp(text.trim()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(pairs: &[(HeaderName, &'static str)]) -> Option<Span> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.insert(name, value.parse().expect("good"));
        }
        retry_after(&headers)
    }

    #[test]
    fn retry_after_is_seconds_or_a_date_and_at_most_a_day() {
        let date = (DATE, "Wed, 21 Oct 2026 07:28:00 GMT");
        let seconds = |n| Some(Span::from_secs(n));
        assert_eq!(after(&[(RETRY_AFTER, "120")]), seconds(120));
        assert_eq!(after(&[(RETRY_AFTER, "99999999999")]), Some(MAX_DELAY));
        let later = (RETRY_AFTER, "Wed, 21 Oct 2026 07:29:30 GMT");
        assert_eq!(after(&[date.clone(), later.clone()]), seconds(90));
        assert_eq!(
            after(&[date.clone(), (RETRY_AFTER, "Wed, 21 Oct 2026 07:00:00 GMT")]),
            seconds(0)
        );
        assert_eq!(after(&[later]), None, "without a `Date` the instant has no reference");
        for bad in ["", "-1", "1.5", "soon", "99999999999999999999999"] {
            assert_eq!(after(&[date.clone(), (RETRY_AFTER, bad)]), None, "{bad}");
        }
    }
}
