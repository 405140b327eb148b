//! Secrets in the settings of handlers: masked where a handler is shown.

use serde_json::{Map, Value};

/// Stands for a masked value.
pub const MASK: &str = "***";

/// Settings of the runners whose texts may be secrets: headers and query parameters (http), metadata (grpc), variables
/// (command, docker), the login for pulls (docker), and the credentials of slack. A custom runner that uses these names
/// gets the same treatment.
const SECRET_FIELDS: [&str; 7] =
    ["headers", "query", "metadata", "env", "registry", "webhook", "token"];

/// The settings with inline secrets masked. References (`env:NAME`, `file:/path`) stay, and so do names.
#[must_use]
pub fn masked(settings: &Map<String, Value>) -> Map<String, Value> {
    let mask = |(name, value): (&String, &Value)| {
        let shown = match (name.as_str(), value) {
            ("query", Value::Array(pairs)) => Value::Array(pairs.iter().map(mask_pair).collect()),
            (name, value) if SECRET_FIELDS.contains(&name) => mask_texts(value),
            (_, value) => without_user_info(value),
        };
        (name.clone(), shown)
    };
    settings.iter().map(mask).collect()
}

/// The path of a value that is a mask, if any: a caller has sent back settings as they were shown to it.
pub fn find_mask(settings: &Map<String, Value>) -> Option<String> {
    let secret = settings.iter().filter(|(name, _)| SECRET_FIELDS.contains(&name.as_str()));
    secret.into_iter().find_map(|(name, value)| find_in(name.clone(), value))
}

fn find_in(path: String, value: &Value) -> Option<String> {
    match value {
        Value::String(text) => (text == MASK).then_some(path),
        Value::Array(items) => {
            items.iter().enumerate().find_map(|(n, item)| find_in(format!("{path}[{n}]"), item))
        }
        Value::Object(fields) => {
            fields.iter().find_map(|(name, value)| find_in(format!("{path}.{name}"), value))
        }
        _ => None,
    }
}

fn mask_texts(value: &Value) -> Value {
    match value {
        Value::String(text) if is_reference(text) => value.clone(),
        Value::String(_) => MASK.into(),
        Value::Array(items) => Value::Array(items.iter().map(mask_texts).collect()),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.clone(), mask_texts(value))).collect()
        }
        other => other.clone(),
    }
}

/// A name and a value: the name stays.
fn mask_pair(pair: &Value) -> Value {
    match pair.as_array().map(Vec::as_slice) {
        Some([name, value]) => Value::Array(vec![name.clone(), mask_texts(value)]),
        _ => mask_texts(pair),
    }
}

/// Whether a text refers to a secret that is stored elsewhere.
fn is_reference(text: &str) -> bool {
    let is_variable = |name: &str| {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        name.chars().all(is_word) && name.starts_with(|c: char| is_word(c) && !c.is_ascii_digit())
    };
    text.strip_prefix("env:").is_some_and(is_variable) || text.starts_with("file:/")
}

fn without_user_info(value: &Value) -> Value {
    match value {
        Value::String(text) => mask_user_info(text).into(),
        Value::Array(items) => Value::Array(items.iter().map(without_user_info).collect()),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.clone(), without_user_info(value))).collect()
        }
        other => other.clone(),
    }
}

/// The text with the user and password of its URL masked, if it is one.
pub fn mask_user_info(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    match authority.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}://{MASK}@{host}{path}"),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(settings: Value) -> Value {
        let Value::Object(settings) = settings else { panic!("an object") };
        Value::Object(masked(&settings))
    }

    #[test]
    fn inline_secrets_are_masked_and_references_and_names_stay() {
        let settings = json!({
            "url": "https://ada:lovelace@example.com/a@b?c=d@e",
            "method": "POST",
            "headers": {"authorization": "Bearer abc", "x-key": ["one", "env:CRORE_SECRET_KEY"]},
            "query": [["key", "secret"], ["page", "file:/run/secrets/page"]],
            "env": {"PASSWORD": "hunter2", "MODE": "env: production"},
            "registry": {"address": "r.example", "user": "ada", "password": "env:REGISTRY"},
            "webhook": "https://hooks.example/secret",
            "token": "xoxb-1",
            "retries": 3,
        });
        assert_eq!(
            shown(settings),
            json!({
                "url": "https://***@example.com/a@b?c=d@e",
                "method": "POST",
                "headers": {"authorization": "***", "x-key": ["***", "env:CRORE_SECRET_KEY"]},
                "query": [["key", "***"], ["page", "file:/run/secrets/page"]],
                "env": {"PASSWORD": "***", "MODE": "***"},
                "registry": {"address": "***", "user": "***", "password": "env:REGISTRY"},
                "webhook": "***",
                "token": "***",
                "retries": 3,
            })
        );
    }

    #[test]
    fn a_mask_that_comes_back_is_found() {
        let settings = json!({"headers": {"a": "1", "b": ["x", "***"]}, "title": "***"});
        let found = |settings: Value| settings.as_object().and_then(find_mask);
        assert_eq!(found(settings).as_deref(), Some("headers.b[1]"));
        assert_eq!(found(json!({"title": "***", "env": {"A": "b"}})), None);
    }
}
