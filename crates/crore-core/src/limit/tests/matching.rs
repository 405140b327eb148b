use proptest::prelude::*;

use super::super::sample::limits;
use super::super::{Limit, Matcher};
use crate::payload::{Encoding, Payload};

fn matcher(condition: &str) -> Matcher {
    Limit::parse(&format!("where {condition} concurrency 1")).expect(condition).matcher
}

/// The same value in both encodings.
fn payloads(json: &str) -> [Payload; 2] {
    let value: serde_json::Value = serde_json::from_str(json).expect("json");
    let msgpack = rmp_serde::to_vec(&value).expect("msgpack");
    [Payload::json(json), Payload::new(Encoding::Msgpack, msgpack)]
}

const JOB: &str = r#"{
    "tenant": "acme", "size": 1000, "share": 0.5, "big": 9007199254740993, "huge": 18446744073709551615,
    "on": true, "none": null, "tags": ["a", {"b": [1, 2.0]}], "a b": {"": "deep"}, "one": 1.0, "neg": -3
}"#;

#[test]
fn conditions_are_evaluated() {
    let table = [
        (r#"kind = "mail""#, true),
        (r#"kind = "Mail""#, false),
        (r#"kind != "mail""#, false),
        (r#"kind prefix "ma""#, true),
        (r#"queue prefix "mail""#, false),
        (r#"queue in ("low", "high")"#, true),
        (r#"payload.tenant = "acme""#, true),
        (r#"payload.tenant prefix """#, true),
        (r#"payload.tenant in ("b", "acme", 1)"#, true),
        (r#"payload.tenant in ("b", 1)"#, false),
        (r#"payload.tenant > 0"#, false),
        (r#"payload.size = 1000"#, true),
        (r#"payload.size = 1e3"#, true),
        (r#"payload.size = "1000""#, false),
        (r#"payload.size prefix "1""#, false),
        (r#"payload.size >= 1000 and payload.size <= 1000.0"#, true),
        (r#"payload.size < 1000 or payload.size > 1000"#, false),
        (r#"payload.size > 999.5 and payload.size < 1000.5"#, true),
        (r#"payload.one in (1)"#, true),
        (r#"payload.neg < -2.5"#, true),
        (r#"payload.share = 0.5"#, true),
        (r#"payload.big = 9007199254740993"#, true),
        (r#"payload.big = 9007199254740992"#, false),
        (r#"payload.big > 9007199254740992.0"#, true),
        (r#"payload.huge < 18446744073709551616.0"#, true),
        (r#"payload.huge > 9223372036854775807"#, true),
        (r#"payload.on = true"#, true),
        (r#"payload.on = 1"#, false),
        (r#"payload.none = null"#, true),
        (r#"payload.none < 1 or payload.none >= 1"#, false),
        (r#"payload.tags[0] = "a""#, true),
        (r#"payload.tags[1].b[1] = 2"#, true),
        (r#"payload.tags[2] = "a""#, false),
        (r#"payload.tags."0" = "a""#, false),
        (r#"payload."a b"."" = "deep""#, true),
        (r#"payload.tags = "a" or payload.tags = null"#, false),
        (r#"payload.tags != "a""#, true),
        (r#"payload.nothing = null"#, false),
        (r#"payload.nothing != null"#, true),
        (r#"payload.nothing < 1"#, false),
        (r#"payload.nothing in (null)"#, false),
        (r#"payload.nothing prefix """#, false),
        (r#"payload.tenant.deeper != 1"#, true),
        (r#"not payload.nothing = 1"#, true),
        (r#"kind = "x" and kind = "x" or kind = "mail""#, true),
        (r#"kind = "mail" or kind = "x" and kind = "x""#, true),
        (r#"(kind = "mail" or kind = "x") and kind = "x""#, false),
        (r#"not kind = "x" and kind = "mail""#, true),
        (r#"not (kind = "x" or kind = "mail")"#, false),
    ];
    for payload in payloads(JOB) {
        for (condition, holds) in table {
            assert_eq!(matcher(condition).matches("low", "mail", &payload), holds, "{condition}");
        }
    }
    assert!(Matcher::default().matches("", "", &Payload::new(Encoding::Bytes, &[][..])));
}

#[test]
fn an_incomplete_payload_has_no_fields() {
    let one = matcher("payload.a = 1");
    let job = |encoding, bytes: &[u8]| one.matches("q", "k", &Payload::new(encoding, bytes));
    assert!(job(Encoding::Json, br#" {"a":1} "#));
    assert!(job(Encoding::Json, br#"{"a":2,"a":1}"#));
    assert!(!job(Encoding::Json, br#"{"a":1,"a":2}"#));
    assert!(!job(Encoding::Json, br#"{"a":1,"a":{}}"#));
    for bad in [&br#"{"a":1"#[..], br#"{"a":1}}"#, br#"{"a":1,"b":}"#, b"{\"a\":1,\"b\":\"\xff\"}"]
    {
        assert!(!job(Encoding::Json, bad), "{bad:?}");
    }
    for encoding in [Encoding::Text, Encoding::Bytes, Encoding::Protobuf] {
        assert!(!job(encoding, br#"{"a":1}"#));
    }
    assert!(job(Encoding::Msgpack, &[0x81, 0xa1, b'a', 1]));
    assert!(job(Encoding::Msgpack, &[0x83, 7, 2, 0x91, 1, 3, 0xa1, b'a', 1]));
    for bad in [&[0x81, 0xa1, b'a'][..], &[0x81, 0xa1, b'a', 1, 1], &[0x82, 0xa1, b'a', 1]] {
        assert!(!job(Encoding::Msgpack, bad), "{bad:?}");
    }
}

#[test]
fn values_that_only_messagepack_has_equal_nothing() {
    let values: [&[u8]; 4] = [
        &[0xcb, 0x7f, 0xf8, 0, 0, 0, 0, 0, 0], // NaN
        &[0xc4, 1, b'x'],                      // binary
        &[0xd4, 5, b'x'],                      // an extension type
        &[0xa1, 0xff],                         // a string that is not UTF-8
    ];
    for value in values {
        let bytes = [&[0x81, 0xa1, b'a'], value].concat();
        let payload = Payload::new(Encoding::Msgpack, bytes);
        for condition in ["= 0", "< 0", ">= 0", "= null", "= \"x\"", "prefix \"\""] {
            let matcher = matcher(&format!("payload.a {condition}"));
            assert!(!matcher.matches("q", "k", &payload), "{condition} {value:?}");
        }
        assert!(!matcher("payload.a[0] = 5").matches("q", "k", &payload), "{value:?}");
        assert!(matcher("payload.a != 0").matches("q", "k", &payload), "{value:?}");
    }
}

#[test]
fn fields_are_seen_down_to_64_levels_in_both_encodings() {
    let deepest = matcher(&format!("payload{} = 1", "[0]".repeat(64)));
    let first = matcher("payload[1] = 1");
    for n in [64, 65, 10_000] {
        let nested = "[".repeat(n) + "1" + &"]".repeat(n);
        let packed = [vec![0x91; n], vec![1]].concat();
        let beside = [Payload::json(&format!("[{nested},1]")), {
            Payload::new(Encoding::Msgpack, [vec![0x92], packed.clone(), vec![1]].concat())
        }];
        for payload in [Payload::json(&nested), Payload::new(Encoding::Msgpack, packed)] {
            assert_eq!(deepest.matches("q", "k", &payload), n == 64);
        }
        assert!(beside.iter().all(|payload| !first.matches("q", "k", payload)), "{n}");
    }
}

proptest! {
    #[test]
    fn random_bytes_are_read_without_panic(
        limit in limits(),
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        near in "[\\[\\]{}\",:0-9a-bet.-]{0,60}",
    ) {
        for encoding in Encoding::ALL {
            for bytes in [&bytes[..], near.as_bytes()] {
                let payload = Payload::new(encoding, bytes);
                limit.matcher.matches("q", "k", &payload);
                matcher("payload.a[0] = 1 or payload[0].a = 1").matches("q", "k", &payload);
            }
        }
    }

    #[test]
    fn fields_are_read_only_from_valid_payloads(
        bytes in prop::collection::vec(prop_oneof![0x80..0x84_u8, 0x90..0x94_u8, 0xa0..0xa2_u8, any::<u8>()], 0..30),
    ) {
        let payload = Payload::new(Encoding::Msgpack, bytes);
        let seen = ["payload.\"\"", "payload[0]"].into_iter().any(|field| {
            let condition = format!("{field} in (null, true, false) or {field} < 0 or {field} >= 0");
            matcher(&condition).matches("q", "k", &payload)
        });
        prop_assert!(!seen || payload.check("payload", 1024, 64).is_ok());
    }
}
