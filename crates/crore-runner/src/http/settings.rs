//! What a handler says of its calls, read and checked.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;

use bytes::Bytes;
use crore_core::{Code, Invalid};
use crore_outbound::Url;
use crore_wire::words::{Period, Size};
use http::{HeaderName, Method};
use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde_json::Value;

use super::headers;
use crate::reach::Reach;
use crate::secret::Secret;
use crate::settings::read;
use crate::values::{Pairs, Values};

/// The most redirects that a handler may have followed.
const REDIRECTS: u8 = 10;

/// The settings as they are written.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    url: String,
    method: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, Values>,
    #[serde(default)]
    query: Pairs,
    body: Option<Value>,
    #[serde(default)]
    payload: Meaning,
    expect: Option<Vec<Statuses>>,
    timeout: Option<Period>,
    max_answer: Option<Size>,
    #[serde(default)]
    redirects: u8,
    idempotency_header: Option<String>,
}

/// What the payload of a job is to a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Meaning {
    /// Its body.
    #[default]
    Body,
    /// An object that says what is called, and how.
    Request,
}

/// What is sent as the body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Body {
    Payload,
    None,
    /// These bytes, of this media type.
    Literal(Bytes, &'static str),
}

/// The settings as they are used.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) url: Url,
    /// What the handler says; a payload may, if it does not.
    pub(super) method: Option<Method>,
    pub(super) headers: Vec<(HeaderName, Secret)>,
    pub(super) query: Vec<(String, Secret)>,
    pub(super) body: Body,
    pub(super) payload: Meaning,
    pub(super) expect: Vec<Statuses>,
    pub(super) timeout: Option<Period>,
    pub(super) max_answer: Size,
    pub(super) redirects: u8,
    pub(super) idempotency_header: Option<HeaderName>,
}

impl Plan {
    /// Reads settings; what is wrong is told with its field.
    pub(super) fn read(settings: &Value, reach: &Reach) -> Result<Self, Invalid> {
        let said: Settings = read(settings)?;
        let url = Url::parse("settings.url", &said.url)?;
        reach.check("settings.url", &url)?;
        let method =
            said.method.as_deref().map(|name| method("settings.method", name)).transpose()?;
        if said.redirects > REDIRECTS {
            let message = format!("`{}` is more than {REDIRECTS}", said.redirects);
            return Err(wrong("settings.redirects", message));
        }
        if said.timeout.is_some_and(|time| time.0.is_zero()) {
            return Err(wrong("settings.timeout", "`0s` is no time to answer in".to_owned()));
        }
        Ok(Self {
            url,
            headers: headers(&said.headers)?,
            query: said.query.0,
            body: body(said.body, said.payload, method.as_ref())?,
            method,
            payload: said.payload,
            expect: said.expect.unwrap_or_else(|| vec![Statuses(200..=299)]),
            timeout: said.timeout,
            max_answer: max_answer(said.max_answer, reach)?,
            redirects: said.redirects,
            idempotency_header: idempotency_header(said.idempotency_header.as_deref())?,
        })
    }

    pub(super) fn expects(&self, status: u16) -> bool {
        self.expect.iter().any(|Statuses(statuses)| statuses.contains(&status))
    }
}

fn wrong(field: &str, message: String) -> Invalid {
    Invalid::new(Code::Malformed, field, message)
}

/// The most that is taken for an answer: what the handler says, if the operator allows that much.
pub(crate) fn max_answer(said: Option<Size>, reach: &Reach) -> Result<Size, Invalid> {
    let most = reach.outbound().max_answer();
    match said {
        Some(size) if size > most => {
            let message = format!(
                "`{size}` is more than {most}, which `max-answer` under `[outbound]` allows"
            );
            Err(wrong("settings.max_answer", message))
        }
        said => Ok(said.unwrap_or(most)),
    }
}

/// A method that a call may have.
pub(super) fn method(field: &str, name: &str) -> Result<Method, Invalid> {
    match Method::from_bytes(name.as_bytes()) {
        Ok(method) if !matches!(method, Method::CONNECT | Method::TRACE) && is_known(&method) => {
            Ok(method)
        }
        _ => {
            let name = crore_core::code::excerpt(name);
            let message =
                format!("`{name}` is none of GET, HEAD, POST, PUT, PATCH, DELETE and OPTIONS");
            Err(wrong(field, message))
        }
    }
}

fn is_known(method: &Method) -> bool {
    method.is_safe()
        || matches!(*method, Method::POST | Method::PUT | Method::PATCH | Method::DELETE)
}

/// Whether a call by this method usually has a body.
pub(super) fn has_body(method: &Method) -> bool {
    matches!(*method, Method::POST | Method::PUT | Method::PATCH)
}

fn headers(said: &BTreeMap<String, Values>) -> Result<Vec<(HeaderName, Secret)>, Invalid> {
    let mut all = Vec::new();
    for (name, Values(values)) in said {
        let field = format!("settings.headers.{name}");
        let header = headers::name(&field, name)?;
        for secret in values {
            if !secret.is_reference() {
                let value = secret.resolve().unwrap_or_default();
                headers::value(&field, &value)?;
            }
            all.push((header.clone(), secret.clone()));
        }
    }
    Ok(all)
}

fn body(said: Option<Value>, payload: Meaning, method: Option<&Method>) -> Result<Body, Invalid> {
    let said = match (said, payload) {
        (Some(_), Meaning::Request) => {
            let message = "is said by the payload, if that is a `request`".to_owned();
            return Err(wrong("settings.body", message));
        }
        (said, _) => said,
    };
    Ok(match said {
        None if method.is_none_or(has_body) => Body::Payload,
        None => Body::None,
        Some(Value::String(word)) if word == "payload" => Body::Payload,
        Some(Value::String(word)) if word == "none" => Body::None,
        Some(Value::String(text)) => Body::Literal(text.into(), "text/plain; charset=utf-8"),
        Some(value) => Body::Literal(value.to_string().into(), "application/json"),
    })
}

fn idempotency_header(said: Option<&str>) -> Result<Option<HeaderName>, Invalid> {
    match said {
        None => Ok(Some(HeaderName::from_static("idempotency-key"))),
        Some("") => Ok(None),
        Some(name) => headers::name("settings.idempotency_header", name).map(Some),
    }
}

/// Statuses of answers: one, or those from one to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Statuses(RangeInclusive<u16>);

impl<'de> Deserialize<'de> for Statuses {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        struct Reader;

        impl Visitor<'_> for Reader {
            type Value = Statuses;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a status such as `404`, or a range such as `\"200-299\"`")
            }

            fn visit_u64<E: de::Error>(self, status: u64) -> Result<Statuses, E> {
                let unknown = || E::invalid_value(de::Unexpected::Unsigned(status), &self);
                let one = u16::try_from(status).map_err(|_| unknown())?;
                statuses(one, one).ok_or_else(unknown)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Statuses, E> {
                let (first, last) = text.split_once('-').unwrap_or((text, text));
                let range = first.parse().ok().zip(last.parse().ok());
                let range = range.and_then(|(first, last)| statuses(first, last));
                range.ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }

        reader.deserialize_any(Reader)
    }
}

fn statuses(first: u16, last: u16) -> Option<Statuses> {
    (100 <= first && first <= last && last <= 599).then_some(Statuses(first..=last))
}

#[cfg(test)]
mod tests {
    use crore_outbound::{Options, Outbound};
    use serde_json::json;

    use super::*;
    use crate::urls::Urls;

    fn plan(settings: &Value) -> Result<Plan, Invalid> {
        let urls: Urls = ["https://*.example/*".parse().expect("good")].into_iter().collect();
        Plan::read(settings, &Reach::new(Outbound::new(Options::default()), urls))
    }

    fn with(name: &str, value: &Value) -> Value {
        let mut settings = json!({ "url": "https://a.example/b" });
        settings[name] = value.clone();
        settings
    }

    #[test]
    fn what_is_not_said_is_usual() {
        let plan = plan(&with("timeout", &json!("3s"))).expect("good");
        assert_eq!((plan.method.clone(), plan.redirects), (None, 0));
        assert_eq!((&plan.body, plan.payload), (&Body::Payload, Meaning::Body));
        assert!(plan.expects(200) && plan.expects(299) && !plan.expects(302));
        assert_eq!(plan.idempotency_header.expect("one").as_str(), "idempotency-key");
        assert_eq!(plan.max_answer, Size(1 << 20));
    }

    #[test]
    fn a_body_is_the_payload_where_there_is_one_or_what_is_said() {
        let body = |settings: Value| plan(&settings).expect("good").body;
        assert_eq!(body(with("method", &json!("PUT"))), Body::Payload);
        assert_eq!(body(with("method", &json!("GET"))), Body::None);
        assert_eq!(body(with("body", &json!("none"))), Body::None);
        let text = Body::Literal("hello".into(), "text/plain; charset=utf-8");
        assert_eq!(body(with("body", &json!("hello"))), text);
        let object = Body::Literal(r#"{"a":1}"#.into(), "application/json");
        assert_eq!(body(with("body", &json!({ "a": 1 }))), object);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_field() {
        for (name, value, field) in [
            ("url", json!("ftp://a.example/"), "settings.url"),
            ("url", json!("https://a.example:22/"), "settings.url"),
            ("url", json!("https://user:pw@a.example/"), "settings.url"),
            ("url", json!("https://elsewhere.test/"), "settings.url"),
            ("method", json!("TRACE"), "settings.method"),
            ("method", json!("get"), "settings.method"),
            ("headers", json!({ "Host": "b" }), "settings.headers.Host"),
            ("headers", json!({ "Content-Length": "3" }), "settings.headers.Content-Length"),
            ("headers", json!({ "a b": "3" }), "settings.headers.a b"),
            ("headers", json!({ "A": "b\r\nc: d" }), "settings.headers.A"),
            ("headers", json!({ "A": 1 }), "settings.headers.A"),
            ("query", json!("a=b"), "settings.query"),
            ("expect", json!([99]), "settings.expect[0]"),
            ("expect", json!([200, "299-200"]), "settings.expect[1]"),
            ("timeout", json!("0s"), "settings.timeout"),
            ("max_answer", json!("2MiB"), "settings.max_answer"),
            ("redirects", json!(11), "settings.redirects"),
            ("idempotency_header", json!("a b"), "settings.idempotency_header"),
            ("payload", json!("arguments"), "settings.payload"),
            ("urll", json!(1), "settings.urll"),
        ] {
            let error = plan(&with(name, &value)).expect_err(field);
            assert_eq!(error.field, field, "{error}");
        }
        let mut both = with("payload", &json!("request"));
        both["body"] = json!("none");
        assert_eq!(plan(&both).expect_err("one of them").field, "settings.body");
        assert_eq!(plan(&json!({})).expect_err("no url").field, "settings");
    }
}
