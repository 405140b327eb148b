use proptest::prelude::*;

use super::super::sample::filters;
use super::super::{MAX_FILTER, MAX_TERMS, MAX_VALUES, SearchFilter};
use crate::code::Code;
use crate::limit::point_at;

fn parse(text: &str) -> SearchFilter {
    SearchFilter::parse("q", text).unwrap_or_else(|error| panic!("{}", point_at(text, &error)))
}

/// Code, offset and message of the error.
fn error(text: &str) -> (Code, Option<usize>, String) {
    let error = SearchFilter::parse("q", text).expect_err(text);
    assert_eq!(error.field, "q");
    (error.code, error.at, error.message)
}

#[test]
fn the_canonical_text_is_unchanged() {
    for text in [
        "",
        "state:dead,cancelled kind:mail* -queue:low,\"a b\" payload.to=ada error~timeout age>1h",
        r#"label:eu,tenant=acme*,"a=b"="*" worker:w1 id:17,18 parent:3 replays:5 group:4 why:quarantined"#,
        r#"payload.items[2]."a b".to=ada,42,"42",null payload.n>=-1.5 -payload.x~"(a)","""#,
        "pushed<2026-11-18T00:00:00.000Z due<=+10m started>-1h -ended>=now attempt=1,2 priority<-5 crashes>0",
        "error=85944171f73967e8 error~\"connection refused\"",
    ] {
        assert_eq!(parse(text).to_string(), text);
    }
}

#[test]
fn other_texts_are_printed_canonically() {
    for (text, canonical) in [
        ("  state=dead\t\nkind=a ", "state:dead kind:a"),
        ("state!=dead -state!=done", "-state:dead state:done"),
        ("payload.to:ada payload.to!=ada", "payload.to=ada -payload.to=ada"),
        ("queue:\"mail\" payload.a=\"x\"", "queue:mail payload.a=x"),
        ("created>2026-11-18", "pushed>2026-11-18T00:00:00.000Z"),
        ("created>2026-11-18T01:00:00+01:00", "pushed>2026-11-18T00:00:00.000Z"),
        ("due<+0s due<-0s", "due<now due<now"),
        ("age>60m", "age>1h"),
        ("payload.a>1.0", "payload.a>1"),
        ("error:85944171F73967E8", "error=85944171f73967e8"),
    ] {
        assert_eq!(parse(text).to_string(), canonical, "{text}");
    }
}

#[test]
fn syntax_errors_point_at_the_character() {
    for (text, at, message) in [
        (
            "state:",
            6,
            "expected `waiting`, `scheduled`, `ready`, `running`, `done`, `dead` or `cancelled`, found the end",
        ),
        (
            "kind:a state:dead,ded",
            18,
            "expected `waiting`, `scheduled`, `ready`, `running`, `done`, `dead` or `cancelled`, found `ded`",
        ),
        ("queue:a,", 8, "expected a name, found the end"),
        ("queue: a", 6, "expected a name, found a space"),
        ("ä", 0, "expected a field ("),
        ("kind:ä timeout", 7, "expected a field ("),
        ("Kind:a", 0, "expected a field ("),
        ("state", 5, "expected an operator ("),
        ("state>dead", 5, "expected `:` after `state`, found `>dead`"),
        ("age:1h", 3, "expected `<`, `<=`, `>` or `>=` after `age`, found `:1h`"),
        ("age>1", 4, "expected a duration such as"),
        ("due<1h", 4, "expected an instant: "),
        ("due<2026-02-30", 4, "expected an instant: "),
        ("attempt~1", 7, "expected `=`, `<`, `<=`, `>` or `>=` after `attempt`"),
        ("attempt>1.5", 8, "expected a whole number"),
        ("id:x", 3, "expected an id, found `x`"),
        ("error:timeout", 6, "expected a fingerprint of 16 hexadecimal digits"),
        ("error<5", 5, "expected `~` and a text, or `=` and a fingerprint"),
        ("payload=1", 7, "expected `.` and a name, or `[` and an index"),
        ("kind:ä payload.a.=1", 17, "expected a name, in quotes"),
        ("payload.\"a=1", 8, "expected a closing `\""),
        ("payload.a>x", 10, "expected a number, found `x`"),
        ("kind:\"a\\q\"", 7, "expected an escape"),
        ("kind:\"a\"b", 8, "expected a space, found `b`"),
        ("kind:a(b", 6, "expected a space, found `(b`"),
        ("(state:dead)", 0, "expected a field ("),
        ("label:=x", 6, "expected the name of a label"),
        ("label:a=", 8, "expected the value of a label"),
        ("--state:dead", 1, "expected a field ("),
    ] {
        let (code, found, why) = error(text);
        assert_eq!((code, found), (Code::FilterSyntax, Some(at)), "{text}: {why}");
        assert!(why.starts_with(message), "{text}: {why}");
    }
}

#[test]
fn values_out_of_range_are_refused_by_their_position() {
    for (text, code, at) in [
        ("id:0", Code::FilterRange, 3),
        ("id:1,9223372036854775808", Code::FilterRange, 5),
        ("id:99999999999999999999", Code::FilterRange, 3),
        ("priority>99999999999999999999", Code::FilterRange, 9),
        ("payload.a>1e999", Code::FilterRange, 10),
        ("payload.a[99999999999]=1", Code::FilterRange, 10),
        ("kind:\"\"", Code::NameEmpty, 5),
        ("kind:\"a\\n\"", Code::NameControl, 5),
    ] {
        let (found, offset, why) = error(text);
        assert_eq!((found, offset), (code, Some(at)), "{text}: {why}");
    }
    let long = format!("state:dead kind:{}", "k".repeat(256));
    assert_eq!((error(&long).0, error(&long).1), (Code::NameTooLong, Some(16)));
    let long = format!("label:a={}", "k".repeat(256));
    assert_eq!((error(&long).0, error(&long).1), (Code::FilterRange, Some(8)));
}

#[test]
fn the_size_of_a_filter_is_bounded() {
    let (code, at, _) = error(&"x".repeat(100_000));
    assert_eq!((code, at), (Code::FilterTooLong, Some(MAX_FILTER)));
    let (code, at, _) = error(&"(".repeat(1000));
    assert_eq!((code, at), (Code::FilterSyntax, Some(0)));
    let nested = format!("state:dead {}kind:a{}", "(".repeat(1000), ")".repeat(1000));
    assert_eq!((error(&nested).0, error(&nested).1), (Code::FilterSyntax, Some(11)));
    let (code, at, _) = error(&"age>1h ".repeat(MAX_TERMS + 1));
    assert_eq!((code, at), (Code::FilterTooLong, Some(7 * MAX_TERMS)));
    let (code, at, _) = error(&format!("id:{}", "1,".repeat(MAX_VALUES + 1)));
    assert_eq!((code, at), (Code::FilterTooLong, Some(3 + 2 * MAX_VALUES)));
    let (code, at, _) = error(&format!("payload{}=1", ".a".repeat(65)));
    assert_eq!((code, at), (Code::FilterTooLong, Some(7 + 2 * 64)));
    let (code, at, _) = error(&format!("error~\"{}\"", "\u{1}".repeat(2000)));
    assert_eq!((code, at), (Code::FilterTooLong, Some(2008)));
    assert!(SearchFilter::parse("q", &"age>1h ".repeat(MAX_TERMS)).is_ok());
}

proptest! {
    #[test]
    fn a_printed_filter_parses_to_the_same(filter in filters()) {
        let text = filter.to_string();
        prop_assume!(text.len() <= MAX_FILTER);
        prop_assert_eq!(SearchFilter::parse("q", &text), Ok(filter), "{}", text);
    }

    #[test]
    fn any_text_is_parsed_or_refused_inside(text in "[-a-z:=!<>~,\"()\\\\ .0-9\\[\\]*äT+Z]{0,40}") {
        match SearchFilter::parse("q", &text) {
            Ok(filter) => prop_assert_eq!(SearchFilter::parse("q", &filter.to_string()), Ok(filter)),
            Err(error) => prop_assert!(error.at.is_some_and(|at| at <= text.chars().count())),
        }
    }
}
