//! Settings of the grpc runner.

use std::collections::BTreeMap;

use crore_core::code::excerpt;
use crore_core::{Code, Invalid};
use crore_outbound::Url;
use crore_wire::units::{Period, Size};
use http::HeaderName;
use http::uri::PathAndQuery;
use serde::Deserialize;
use serde_json::Value;

use crate::http::{header_name, header_value, max_answer};
use crate::network::NetworkAccess;
use crate::secret::SecretRef;
use crate::settings::read;
use crate::values::SecretValues;

/// The settings as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawGrpcSettings {
    url: String,
    #[serde(alias = "path")]
    method: String,
    #[serde(default)]
    payload: GrpcPayload,
    #[serde(default)]
    metadata: BTreeMap<String, SecretValues>,
    deadline: Option<Period>,
    max_answer: Option<Size>,
}

/// How the payload is encoded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum GrpcPayload {
    /// The message, byte for byte.
    #[default]
    Bytes,
    /// The message as JSON; its type is looked up by server reflection.
    Json,
}

/// The checked settings.
#[derive(Debug)]
pub(super) struct GrpcSettings {
    /// Server and method in one URL, for error messages and URL patterns.
    pub(super) url: Url,
    /// `package.Service`.
    pub(super) service: String,
    pub(super) method: String,
    pub(super) path: PathAndQuery,
    pub(super) payload: GrpcPayload,
    pub(super) metadata: Vec<(HeaderName, SecretRef)>,
    pub(super) deadline: Option<Period>,
    pub(super) max_answer: Size,
}

impl GrpcSettings {
    /// Reads and checks settings. An error names its field.
    pub(super) fn read(settings: &Value, network: &NetworkAccess) -> Result<Self, Invalid> {
        let raw: RawGrpcSettings = read(settings)?;
        let base = Url::parse("settings.url", &raw.url)?;
        if base.path() != "/" || raw.url.contains('?') {
            return Err(wrong("settings.url", "must have no path and no query".to_owned()));
        }
        let (service, method) = split(&raw.method)?;
        let url = base.join("settings.method", &format!("/{service}/{method}"))?;
        network.check("settings.url", &url)?;
        let path = url.path().parse();
        let path =
            path.map_err(|_| wrong("settings.method", "cannot be used in a request".to_owned()))?;
        if raw.deadline.is_some_and(|time| time.0.is_zero()) {
            return Err(wrong("settings.deadline", "must be longer than `0s`".to_owned()));
        }
        Ok(Self {
            url,
            service,
            method,
            path,
            payload: raw.payload,
            metadata: metadata(&raw.metadata)?,
            deadline: raw.deadline,
            max_answer: max_answer(raw.max_answer, network)?,
        })
    }
}

fn wrong(field: &str, message: String) -> Invalid {
    Invalid::new(Code::Malformed, field, message)
}

/// Splits `package.Service/Method`, which may start with `/`.
fn split(text: &str) -> Result<(String, String), Invalid> {
    let is_name = |name: &str| {
        let is_part = |part: &str| {
            let mut bytes = part.bytes();
            bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
                && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        };
        name.split('.').all(is_part)
    };
    match text.strip_prefix('/').unwrap_or(text).split_once('/') {
        Some((service, method)) if is_name(service) && is_name(method) && !method.contains('.') => {
            Ok((service.to_owned(), method.to_owned()))
        }
        _ => {
            let message =
                format!("`{}` is not of the form `package.Service/Method`", excerpt(text));
            Err(wrong("settings.method", message))
        }
    }
}

fn metadata(raw: &BTreeMap<String, SecretValues>) -> Result<Vec<(HeaderName, SecretRef)>, Invalid> {
    let mut all = Vec::new();
    for (name, SecretValues(values)) in raw {
        let field = format!("settings.metadata.{name}");
        let header = header_name(&field, name)?;
        if header.as_str().starts_with("grpc-") || header == http::header::CONTENT_TYPE {
            return Err(wrong(&field, format!("`{name}` is set by crore itself")));
        }
        for secret in values {
            if !secret.is_reference() {
                header_value(&field, &secret.resolve().unwrap_or_default())?;
            }
            all.push((header.clone(), secret.clone()));
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use crore_outbound::{Options, Outbound};
    use serde_json::json;

    use super::*;
    use crate::urls::Urls;

    fn plan(settings: &Value) -> Result<GrpcSettings, Invalid> {
        let urls: Urls = ["http://a.example/shop.*".parse().expect("good")].into_iter().collect();
        GrpcSettings::read(settings, &NetworkAccess::new(Outbound::new(Options::default()), urls))
    }

    #[test]
    fn a_method_may_begin_with_a_slash() {
        for written in [json!({ "method": "shop.Till/Pay" }), json!({ "path": "/shop.Till/Pay" })] {
            let mut settings = written;
            settings["url"] = json!("http://a.example");
            let plan = plan(&settings).expect("good");
            assert_eq!((&*plan.service, &*plan.method), ("shop.Till", "Pay"));
            assert_eq!(plan.path, "/shop.Till/Pay");
            assert_eq!((plan.payload, plan.max_answer), (GrpcPayload::Bytes, Size(1 << 20)));
        }
    }

    #[test]
    fn errors_name_the_field() {
        for (name, value, field) in [
            ("url", json!("http://a.example/api"), "settings.url"),
            ("url", json!("http://a.example/?a"), "settings.url"),
            ("url", json!("unix:/run/x.sock"), "settings.url"),
            ("url", json!("http://b.example"), "settings.url"),
            ("method", json!("bank.Till/Pay"), "settings.url"),
            ("method", json!("Pay"), "settings.method"),
            ("method", json!("shop.Till/Pay/Now"), "settings.method"),
            ("method", json!("shop..Till/Pay"), "settings.method"),
            ("method", json!("shop.Till/../Pay"), "settings.method"),
            ("method", json!("shop.Till/Pay?x"), "settings.method"),
            ("metadata", json!({ "grpc-timeout": "1S" }), "settings.metadata.grpc-timeout"),
            ("metadata", json!({ "te": "x" }), "settings.metadata.te"),
            ("metadata", json!({ "a": "\r\n" }), "settings.metadata.a"),
            ("payload", json!("body"), "settings.payload"),
            ("deadline", json!("0s"), "settings.deadline"),
            ("deadline", json!("soon"), "settings.deadline"),
            ("max_answer", json!("5MiB"), "settings.max_answer"),
            ("methods", json!(1), "settings.methods"),
        ] {
            let mut settings = json!({ "url": "http://a.example", "method": "shop.Till/Pay" });
            settings[name] = value;
            let error = plan(&settings).expect_err(field);
            assert_eq!(error.field, field, "{error}");
        }
    }
}
