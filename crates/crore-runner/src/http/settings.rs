//! Settings of the http runner.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;

use bytes::Bytes;
use crore_core::code::excerpt;
use crore_core::{Code, Invalid};
use crore_outbound::Url;
use crore_wire::units::{Period, Size};
use http::{HeaderName, Method};
use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde_json::Value;

use super::headers;
use crate::network::NetworkAccess;
use crate::secret::SecretRef;
use crate::settings::read;
use crate::values::{Pairs, SecretValues};

/// Maximum of the setting `redirects`.
const MAX_REDIRECTS: u8 = 10;

/// The settings as written.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct RawHttpSettings {
    url: String,
    method: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, SecretValues>,
    #[serde(default)]
    query: Pairs,
    body: Option<Value>,
    #[serde(default)]
    payload: HttpPayload,
    expect: Option<Vec<Statuses>>,
    timeout: Option<Period>,
    max_answer: Option<Size>,
    #[serde(default)]
    redirects: u8,
    idempotency_header: Option<String>,
}

/// How the payload is used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum HttpPayload {
    /// The payload is the request body.
    #[default]
    Body,
    /// The payload is an object that describes the request.
    Request,
}

/// The request body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HttpBody {
    Payload,
    None,
    /// Fixed bytes with their media type.
    Literal(Bytes, &'static str),
}

/// The checked settings.
#[derive(Debug)]
pub(super) struct HttpSettings {
    pub(super) url: Url,
    /// The handler's method. Without one, a payload may choose it.
    pub(super) method: Option<Method>,
    pub(super) headers: Vec<(HeaderName, SecretRef)>,
    pub(super) query: Vec<(String, SecretRef)>,
    pub(super) body: HttpBody,
    pub(super) payload: HttpPayload,
    pub(super) expect: Vec<Statuses>,
    pub(super) timeout: Option<Period>,
    pub(super) max_answer: Size,
    pub(super) redirects: u8,
    pub(super) idempotency_header: Option<HeaderName>,
}

impl HttpSettings {
    /// Reads and checks settings. An error names its field.
    pub(super) fn read(settings: &Value, network: &NetworkAccess) -> Result<Self, Invalid> {
        let raw: RawHttpSettings = read(settings)?;
        let url = Url::parse("settings.url", &raw.url)?;
        network.check("settings.url", &url)?;
        let method =
            raw.method.as_deref().map(|name| method("settings.method", name)).transpose()?;
        if raw.redirects > MAX_REDIRECTS {
            let message = format!("`{}` is more than {MAX_REDIRECTS}", raw.redirects);
            return Err(wrong("settings.redirects", message));
        }
        if raw.timeout.is_some_and(|time| time.0.is_zero()) {
            return Err(wrong("settings.timeout", "must be longer than `0s`".to_owned()));
        }
        Ok(Self {
            url,
            headers: headers(&raw.headers)?,
            query: raw.query.0,
            body: body(raw.body, raw.payload, method.as_ref())?,
            method,
            payload: raw.payload,
            expect: raw.expect.unwrap_or_else(|| vec![Statuses(200..=299)]),
            timeout: raw.timeout,
            max_answer: max_answer(raw.max_answer, network)?,
            redirects: raw.redirects,
            idempotency_header: idempotency_header(raw.idempotency_header.as_deref())?,
        })
    }

    pub(super) fn expects(&self, status: u16) -> bool {
        self.expect.iter().any(|Statuses(statuses)| statuses.contains(&status))
    }
}

fn wrong(field: &str, message: String) -> Invalid {
    Invalid::new(Code::Malformed, field, message)
}

/// Maximum size of a response: the handler's setting, within the operator's limit.
pub(crate) fn max_answer(
    configured: Option<Size>,
    network: &NetworkAccess,
) -> Result<Size, Invalid> {
    let max = network.outbound().max_answer();
    match configured {
        Some(size) if size > max => {
            let message =
                format!("`{size}` is more than `max-answer` under `[outbound]`, which is `{max}`");
            Err(wrong("settings.max_answer", message))
        }
        configured => Ok(configured.unwrap_or(max)),
    }
}

/// Parses a method that a call may use.
pub(super) fn method(field: &str, name: &str) -> Result<Method, Invalid> {
    match Method::from_bytes(name.as_bytes()) {
        Ok(method) if !matches!(method, Method::CONNECT | Method::TRACE) && is_known(&method) => {
            Ok(method)
        }
        _ => {
            let name = excerpt(name);
            let message = format!(
                "unknown method `{name}`; expected GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS"
            );
            Err(wrong(field, message))
        }
    }
}

fn is_known(method: &Method) -> bool {
    method.is_safe()
        || matches!(*method, Method::POST | Method::PUT | Method::PATCH | Method::DELETE)
}

/// Whether requests of this method usually have a body.
pub(super) fn has_body(method: &Method) -> bool {
    matches!(*method, Method::POST | Method::PUT | Method::PATCH)
}

fn headers(raw: &BTreeMap<String, SecretValues>) -> Result<Vec<(HeaderName, SecretRef)>, Invalid> {
    let mut all = Vec::new();
    for (name, SecretValues(values)) in raw {
        let field = format!("settings.headers.{}", excerpt(name));
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

fn body(
    template: Option<Value>,
    payload: HttpPayload,
    method: Option<&Method>,
) -> Result<HttpBody, Invalid> {
    let template = match (template, payload) {
        (Some(_), HttpPayload::Request) => {
            let message =
                "must be absent if `payload` is `request`, which has its own body".to_owned();
            return Err(wrong("settings.body", message));
        }
        (template, _) => template,
    };
    Ok(match template {
        None if method.is_none_or(has_body) => HttpBody::Payload,
        None => HttpBody::None,
        Some(Value::String(word)) if word == "payload" => HttpBody::Payload,
        Some(Value::String(word)) if word == "none" => HttpBody::None,
        Some(Value::String(text)) => HttpBody::Literal(text.into(), "text/plain; charset=utf-8"),
        Some(value) => HttpBody::Literal(value.to_string().into(), "application/json"),
    })
}

fn idempotency_header(configured: Option<&str>) -> Result<Option<HeaderName>, Invalid> {
    match configured {
        None => Ok(Some(HeaderName::from_static("idempotency-key"))),
        Some("") => Ok(None),
        Some(name) => headers::name("settings.idempotency_header", name).map(Some),
    }
}

/// One status, or an inclusive range.
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

    fn plan(settings: &Value) -> Result<HttpSettings, Invalid> {
        let urls: Urls = ["https://*.example/*".parse().expect("good")].into_iter().collect();
        HttpSettings::read(settings, &NetworkAccess::new(Outbound::new(Options::default()), urls))
    }

    fn with(name: &str, value: &Value) -> Value {
        let mut settings = json!({ "url": "https://a.example/b" });
        settings[name] = value.clone();
        settings
    }

    #[test]
    fn absent_settings_have_defaults() {
        let plan = plan(&with("timeout", &json!("3s"))).expect("good");
        assert_eq!((plan.method.clone(), plan.redirects), (None, 0));
        assert_eq!((&plan.body, plan.payload), (&HttpBody::Payload, HttpPayload::Body));
        assert!(plan.expects(200) && plan.expects(299) && !plan.expects(302));
        assert_eq!(plan.idempotency_header.expect("one").as_str(), "idempotency-key");
        assert_eq!(plan.max_answer, Size(1 << 20));
    }

    #[test]
    fn the_body_is_the_payload_or_the_configured_value() {
        let body = |settings: Value| plan(&settings).expect("good").body;
        assert_eq!(body(with("method", &json!("PUT"))), HttpBody::Payload);
        assert_eq!(body(with("method", &json!("GET"))), HttpBody::None);
        assert_eq!(body(with("body", &json!("none"))), HttpBody::None);
        let text = HttpBody::Literal("hello".into(), "text/plain; charset=utf-8");
        assert_eq!(body(with("body", &json!("hello"))), text);
        let object = HttpBody::Literal(r#"{"a":1}"#.into(), "application/json");
        assert_eq!(body(with("body", &json!({ "a": 1 }))), object);
    }

    #[test]
    fn errors_name_the_field() {
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
