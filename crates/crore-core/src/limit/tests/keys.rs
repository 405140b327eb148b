use super::super::matcher::MatchContext;
use super::super::{Limit, LimitKey, keys_for};
use crate::name::Name;
use crate::payload::{Encoding, Payload};

fn limit(text: &str) -> Limit {
    Limit::parse(text).expect(text)
}

fn name(text: &str) -> Name {
    Name::new("limit", text).expect(text)
}

fn value(per: &str, payload: &Payload) -> Option<String> {
    let limit = limit(&format!("concurrency 1 per {per}"));
    let key = limit.key(&name("l"), "low", "mail", payload).expect("every job matches");
    key.value.map(|value| value.to_string())
}

fn json(value: &str) -> Payload {
    Payload::json(&format!(r#"{{"t":{value}}}"#))
}

#[test]
fn equal_values_share_a_bucket_and_others_do_not() {
    let msgpack =
        |value: &[u8]| Payload::new(Encoding::Msgpack, [&[0x81, 0xa1, b't'], value].concat());
    let one = value("payload.t", &json("1"));
    assert_eq!(one.as_deref(), Some("#1"));
    for same in [
        json("1.0"),
        json("10e-1"),
        msgpack(&[1]),
        msgpack(&[0xd3, 0, 0, 0, 0, 0, 0, 0, 1]),
        msgpack(&[0xca, 0x3f, 0x80, 0, 0]),
    ] {
        assert_eq!(value("payload.t", &same), one);
    }
    for other in ["\"1\"", "\"#1\"", "true", "1.5", "-1", "9007199254740993", "9007199254740992"] {
        assert_ne!(value("payload.t", &json(other)), one, "{other}");
    }
    assert_ne!(
        value("payload.t", &json("9007199254740993")),
        value("payload.t", &json("9007199254740992"))
    );
    assert_eq!(value("payload.t", &json("\"1\"")).as_deref(), Some("1"));
    assert_eq!(value("kind", &json("1")).as_deref(), Some("mail"));
    assert_eq!(value("queue", &json("1")).as_deref(), Some("low"));
}

#[test]
fn jobs_without_a_plain_value_share_one_bucket() {
    for none in ["null", "{}", "[1]", "{\"t\":1}"] {
        assert_eq!(value("payload.t", &json(none)), None, "{none}");
    }
    assert_eq!(value("payload.other", &json("1")), None);
    assert_eq!(value("payload.t", &Payload::json("{\"t\":1")), None);
    assert_eq!(value("payload.t", &Payload::new(Encoding::Bytes, &b"{\"t\":1}"[..])), None);
}

#[test]
fn a_job_has_the_keys_of_the_limits_that_match_it_by_name() {
    let limits = [
        (name("z"), limit("where kind = \"mail\" concurrency 1")),
        (name("b"), limit("where kind = \"sms\" concurrency 1")),
        (name("c"), limit("where payload.t >= 5 rate 1/s per payload.u[0]")),
        (name("a"), limit("rate 1/s per payload.t")),
    ];
    let payload = Payload::json(r#"{"u":["x"],"t":7}"#);
    let keys = keys_for(limits.iter().map(|(name, limit)| (name, limit)), "q", "mail", &payload);
    let key = |limit: &str, value: Option<&str>| LimitKey {
        limit: name(limit),
        value: value.map(Into::into),
    };
    assert_eq!(keys, [key("a", Some("#7")), key("c", Some("x")), key("z", None)]);
    for (name, limit) in &limits {
        let alone = limit.key(name, "q", "mail", &payload);
        assert_eq!(alone.as_ref(), keys.iter().find(|key| key.limit == *name));
    }
    let json = serde_json::to_string(&keys).expect("json");
    assert_eq!(serde_json::from_str::<Vec<LimitKey>>(&json).expect("keys"), keys);
}

#[test]
fn a_payload_is_parsed_only_for_conditions_on_its_fields() {
    let payload = json("1");
    let reads = |text: &str| {
        let limit = limit(text);
        let mut paths = Vec::new();
        limit.matcher.collect_paths(&mut paths);
        limit.per.iter().for_each(|field| field.collect_path(&mut paths));
        let facts = MatchContext::new("q", "mail", &payload, paths);
        super::super::charge::charges(&[(&name("l"), &limit)], &facts);
        facts.has_read()
    };
    assert!(!reads("where kind = \"mail\" concurrency 1 per queue"));
    assert!(!reads("where kind = \"sms\" and payload.t = 1 concurrency 1 per payload.t"));
    assert!(reads("where kind = \"mail\" and payload.t = 1 concurrency 1"));
    assert!(reads("concurrency 1 per payload.t"));
}
