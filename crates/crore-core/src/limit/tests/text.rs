use proptest::prelude::*;

use super::super::sample::limits;
use super::super::{Limit, MAX_TEXT, Rate, point_at};
use crate::code::Code;
use crate::time::Span;

fn parse(text: &str) -> Limit {
    Limit::parse(text).unwrap_or_else(|error| panic!("{}", point_at(text, &error)))
}

fn printed(text: &str) -> String {
    parse(text).to_string()
}

/// Code, offset and message of the error.
fn error(text: &str) -> (Code, Option<usize>, String) {
    let error = Limit::parse(text).expect_err(text);
    assert_eq!(error.field, "limit");
    (error.code, error.at, error.message)
}

#[test]
fn the_canonical_text_is_unchanged() {
    for text in [
        "rate 100/1m",
        "concurrency 0",
        "rate 7/1s burst 3 concurrency 5 per payload.tenant",
        "rate 100000/1m burst 5000 cost payload.tokens concurrency 5 per payload.key",
        r#"where kind = "mail" and payload.tenant in ("a", "b") and not (queue prefix "low" or payload.size >= 1000) rate 100/1m burst 20 concurrency 5 per payload.tenant"#,
        r#"where (kind = "a" or queue != "b") and not not payload.x[0]."y z" = null concurrency 1"#,
        r#"where kind = "a" and queue = "b" or kind = "c" concurrency 1 per kind"#,
        r#"where payload.in in (null, false, true, -0.5, 3, 1e30, "\n\u{0}\"\\é") concurrency 4294967295"#,
        "where payload.rate < -9223372036854775808 rate 1/31d",
    ] {
        assert_eq!(printed(text), text);
    }
}

#[test]
fn other_texts_are_printed_canonically() {
    for (text, canonical) in [
        ("rate 100/s", "rate 100/1s"),
        ("rate 5/1000ms burst 5", "rate 5/1s"),
        ("rate 1/90s", "rate 1/90s"),
        ("rate 1/48h", "rate 1/2d"),
        (
            "per kind\n\tconcurrency 2 burst 9 rate 3/ms",
            "rate 3/1ms burst 9 concurrency 2 per kind",
        ),
        ("where ((kind=\"a\"))concurrency 1", "where kind = \"a\" concurrency 1"),
        (
            "where (kind=\"a\" and kind=\"b\") or (kind=\"c\") concurrency 1",
            "where kind = \"a\" and kind = \"b\" or kind = \"c\" concurrency 1",
        ),
        (
            "where payload.x in(2,1,1.0,2e0) concurrency 1",
            "where payload.x in (1, 2) concurrency 1",
        ),
        ("where payload.\"x\" = -0.0 concurrency 1", "where payload.x = 0 concurrency 1"),
    ] {
        assert_eq!(printed(text), canonical);
    }
}

#[test]
fn a_burst_is_the_count_unless_it_is_given() {
    let rate = |text: &str| parse(text).rate.expect("a rate");
    let every = Span::from_secs(60);
    assert_eq!(rate("rate 100/1m"), Rate { count: 100, every, burst: 100 });
    assert_eq!(rate("rate 100/1m burst 20"), Rate { count: 100, every, burst: 20 });
}

#[test]
fn syntax_errors_point_at_the_character() {
    for (text, at, message) in [
        ("", 0, "expected `rate` or `concurrency`, found the end"),
        ("  ", 2, "expected `rate` or `concurrency`, found the end"),
        ("per kind", 8, "expected `rate` or `concurrency`, found the end"),
        ("concurrency 1 cost payload.n", 19, "expected a `rate` for this cost, found none"),
        (
            "rate 1/s cost kind",
            14,
            "expected a field of the payload, such as `payload.tokens`, found `kind`",
        ),
        ("rate 1/s cost payload.a cost payload.b", 24, "expected `cost` once, found it again"),
        (
            "rat 1/s",
            0,
            "expected `where`, `rate`, `burst`, `cost`, `concurrency` or `per`, found `rat`",
        ),
        (
            "rate 1/s where",
            9,
            "expected `rate`, `burst`, `cost`, `concurrency` or `per`, found `where`",
        ),
        (
            "where",
            5,
            "expected a field (`kind`, `queue` or `payload`), `not` or `(`, found the end",
        ),
        (
            "where rate 1/s",
            6,
            "expected a field (`kind`, `queue` or `payload`), `not` or `(`, found `rate`",
        ),
        (
            "where kind",
            10,
            "expected `=`, `!=`, `<`, `<=`, `>`, `>=`, `in` or `prefix`, found the end",
        ),
        ("where kind == \"é\"", 12, "expected a text in quotes, found `=`"),
        (
            "where kind = \"é\" und",
            17,
            "expected `and`, `or`, `rate`, `burst`, `cost`, `concurrency` or `per`, found `und`",
        ),
        (
            "where kind = \"éé\" § rate",
            18,
            "expected `and`, `or`, `rate`, `burst`, `cost`, `concurrency` or `per`, found `§`",
        ),
        ("where kind = \"日本", 13, "expected a closing `\"`"),
        (
            "where kind = \"日\\x\"",
            15,
            "expected an escape: `\\\"`, `\\\\`, `\\n`, `\\r`, `\\t` or `\\u{…}`",
        ),
        (
            "where kind = \"\\u{d800}\"",
            14,
            "expected an escape: `\\\"`, `\\\\`, `\\n`, `\\r`, `\\t` or `\\u{…}`",
        ),
        (
            "where kind = \"\\é\"",
            14,
            "expected an escape: `\\\"`, `\\\\`, `\\n`, `\\r`, `\\t` or `\\u{…}`",
        ),
        ("where kind = 5", 13, "expected a text in quotes, found `5`"),
        (
            "where kind < \"a\"",
            11,
            "expected `=`, `!=`, `in` or `prefix`, since this field is text, found `<`",
        ),
        ("where payload = 1", 14, "expected `.` and a name, or `[` and an index, found `=`"),
        (
            "where payload.0 = 1",
            14,
            "expected a name, in quotes unless it is a plain word, found `0`",
        ),
        ("where payload[-1] = 1", 14, "expected an index, found `-1`"),
        ("where payload[1 = 1", 16, "expected `]`, found `=`"),
        ("where payload.x < \"1\"", 18, "expected a number, found the text `1`"),
        ("where payload.x = 1x", 18, "expected a number, found `1x`"),
        ("where payload.x = -", 18, "expected a number, found `-`"),
        ("where payload.x = 1.", 18, "expected a number, found `1.`"),
        ("where payload.x = -.5", 18, "expected a number, found `-.5`"),
        ("where payload.x = 1.e5", 18, "expected a number, found `1.e5`"),
        ("where payload.x = 1e", 18, "expected a number, found `1e`"),
        ("where payload.x = 1.2.3", 18, "expected a number, found `1.2.3`"),
        ("where payload.x = 1_000", 18, "expected a number, found `1_000`"),
        ("where payload.x = 0x1", 18, "expected a number, found `0x1`"),
        ("where payload.x = -inf", 18, "expected a number, found `-inf`"),
        (
            "where payload.x = no",
            18,
            "expected a text in quotes, a number, `true`, `false` or `null`, found `no`",
        ),
        ("where payload.x in 1", 19, "expected `(`, found `1`"),
        (
            "where payload.x in ()",
            20,
            "expected a text in quotes, a number, `true`, `false` or `null`, found `)`",
        ),
        ("where payload.x in (1 2)", 22, "expected `,` or `)`, found `2`"),
        ("where payload.x prefix 1", 23, "expected a text in quotes, found `1`"),
        ("where (kind = \"a\" rate 1/s", 18, "expected `and`, `or` or `)`, found `rate`"),
        (
            "where kind = \"a\") rate 1/s",
            16,
            "expected `and`, `or`, `rate`, `burst`, `cost`, `concurrency` or `per`, found `)`",
        ),
        ("rate 1/s rate 1/s", 9, "expected `rate` once, found it again"),
        ("rate x/s", 5, "expected a whole number, found `x`"),
        ("rate 1.5/s", 5, "expected a whole number, found `1.5`"),
        ("rate 1 s", 7, "expected `/` and a duration, found `s`"),
        ("rate 1/1", 7, "expected a duration such as `500ms`, `1s`, `1m`, `1h` or `1d`, found `1`"),
        (
            "rate 1/1w",
            7,
            "expected a duration such as `500ms`, `1s`, `1m`, `1h` or `1d`, found `1w`",
        ),
        (
            "rate 1/-s",
            7,
            "expected a duration such as `500ms`, `1s`, `1m`, `1h` or `1d`, found `-s`",
        ),
        ("concurrency 1 burst 2", 20, "expected a `rate` for this burst, found none"),
        (
            "concurrency 1 per size",
            18,
            "expected a field (`kind`, `queue` or `payload`), found `size`",
        ),
    ] {
        let found = error(text);
        assert_eq!(
            (found.2.as_str(), found.1, found.0),
            (message, Some(at), Code::LimitSyntax),
            "{text}"
        );
    }
}

#[test]
fn numbers_out_of_range_are_pointed_at() {
    for (text, at) in [
        ("rate 0/s", 5),
        ("rate 4294967296/1h", 5),
        ("rate 1001/1ms", 5),
        ("rate 1/0s", 7),
        ("rate 1/32d", 7),
        ("rate 1/99999999999999999999s", 7),
        ("rate 1/18446744073709551615d", 7),
        ("burst 0 rate 1/s", 6),
        ("rate 1/1d burst 3661", 16),
        ("concurrency 4294967296", 12),
        ("where payload.x = 9223372036854775808 concurrency 1", 18),
        ("where payload.\"é\" < 1e999 concurrency 1", 20),
        ("where payload[4294967296] = 1 concurrency 1", 14),
    ] {
        let (code, found, message) = error(text);
        assert_eq!((code, found), (Code::LimitRange, Some(at)), "{text}: {message}");
    }
    assert_eq!(parse("rate 1/1d burst 3660").rate.map(|rate| rate.burst), Some(3660));
}

#[test]
fn long_texts_are_refused_at_the_first_excess_character() {
    let padded = |n: usize| "concurrency 1".to_owned() + &" ".repeat(n - 13);
    assert_eq!(printed(&padded(MAX_TEXT)), "concurrency 1");
    let (code, at, _) = error(&padded(100_000));
    assert_eq!((code, at), (Code::LimitTooLong, Some(MAX_TEXT)));
    let wide = "é".repeat(50_000);
    assert_eq!(error(&wide).1, Some(MAX_TEXT / 2));
    let dense = |n: usize| format!("where payload.x in({}0) concurrency 1", "1,".repeat(n));
    assert!(Limit::parse(&dense(8000)).is_ok());
    let spread: Vec<_> = (0..3100).map(|n| (1000 + n).to_string()).collect();
    let spread = format!("where payload.x in({}) concurrency 1", spread.join(","));
    assert!(spread.len() <= MAX_TEXT);
    let (code, at, message) = error(&spread);
    assert_eq!((code, at), (Code::LimitTooLong, None), "{message}");
}

#[test]
fn nested_conditions_are_refused_at_the_first_excess_level() {
    let test = r#"kind = "a""#;
    let nested = |open: &str, close: &str, n: usize| {
        format!("where {}{test}{} concurrency 1", open.repeat(n), close.repeat(n))
    };
    for (open, close) in [("(", ")"), ("not ", ""), ("not (kind = \"b\" or ", ")")] {
        let levels = if open.len() > 4 { 2 } else { 1 };
        let limit = parse(&nested(open, close, 64 / levels));
        assert_eq!(parse(&limit.to_string()), limit);
        let (code, at, _) = error(&nested(open, close, 64 / levels + 1));
        assert_eq!((code, at), (Code::LimitTooDeep, Some(6 + 64 / levels * open.len())));
    }
    let parentheses = "where ".to_owned() + &"(".repeat(1000);
    assert_eq!(error(&parentheses).0, Code::LimitTooDeep);
    let steps = |n: usize| format!("where payload{} = 1 concurrency 1", "[0]".repeat(n));
    assert_eq!(printed(&steps(64)), steps(64));
    let (code, at, _) = error(&steps(65));
    assert_eq!((code, at), (Code::LimitTooDeep, Some(13 + 64 * 3)));
    let wide = vec![test; 1000].join(" and ");
    assert!(Limit::parse(&format!("where {wide} concurrency 1")).is_ok());
}

#[test]
fn a_limit_is_stored_as_its_text() {
    let limit = parse("rate 5/s");
    let json = serde_json::to_string(&limit).expect("json");
    assert_eq!(json, r#""rate 5/1s""#);
    assert_eq!(serde_json::from_str::<Limit>(&json).expect("limit"), limit);
    let deep = format!("\"where {}\"", "(".repeat(1000));
    assert!(serde_json::from_str::<Limit>(&deep).is_err());
    let none = Limit { rate: None, ..limit.clone() };
    assert!(serde_json::to_string(&none).is_err());
    let never = Limit { rate: Some(Rate { count: 0, every: Span::MAX, burst: 0 }), ..limit };
    assert_eq!(never.check().expect_err("out of range").code, Code::LimitRange);
}

proptest! {
    #[test]
    fn a_printed_limit_parses_to_the_same_limit(limit in limits()) {
        let text = limit.to_string();
        prop_assume!(text.len() <= MAX_TEXT);
        prop_assert_eq!(Limit::parse(&text).map_err(|error| point_at(&text, &error)), Ok(limit));
    }

    #[test]
    fn an_error_offset_lies_inside_the_text(limit in limits(), at: usize, c: char) {
        let mut chars: Vec<char> = limit.to_string().chars().collect();
        let at = at % chars.len();
        chars[at] = c;
        let text: String = chars.iter().collect();
        match Limit::parse(&text) {
            Ok(limit) => prop_assert_eq!(Limit::parse(&limit.to_string()), Ok(limit)),
            Err(error) => {
                prop_assert!(error.at.is_none_or(|at| at <= chars.len()));
                prop_assert!(point_at(&text, &error).ends_with(&error.message));
            }
        }
    }

    #[test]
    fn any_text_is_read_without_panic(text: String, words in "(where |kind|[ ()=<\"\\\\a1.-]){0,40}") {
        for text in [text, words] {
            if let Err(error) = Limit::parse(&text) {
                point_at(&text, &error);
            }
        }
    }
}
