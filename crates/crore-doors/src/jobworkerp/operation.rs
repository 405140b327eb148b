//! Translates jobworkerp's `operation` to a runner and its settings, and back.

use crore_core::{Code, Invalid, code::excerpt};
use crore_wire::grpc::jobworkerp::data::RunnerType;
use http::Uri;
use serde::Deserialize;
use serde_json::{Map, Value, json};

type SettingsMap = Map<String, Value>;

/// The runner of a type, and its settings.
pub(super) fn settings(
    runner_type: RunnerType,
    text: &str,
) -> Result<(&'static str, SettingsMap), Invalid> {
    if text.is_empty() {
        return Err(wrong("is required"));
    }
    let (runner, settings) = match runner_type {
        RunnerType::Command => ("command", json!({"program": text, "payload": "lines"})),
        RunnerType::Request => ("http", json!({"url": url(text)?, "payload": "request"})),
        RunnerType::GrpcUnary => {
            let GrpcOperation { url: to, path } = read(text)?;
            let method = path.trim_start_matches('/');
            if !method.contains('/') {
                let path = excerpt(&path);
                return Err(wrong(format!("path `{path}` has no service and method")));
            }
            ("grpc", json!({"url": url(&to)?, "method": method, "payload": "bytes"}))
        }
        RunnerType::Docker => ("docker", read::<DockerOperation>(text)?.settings()?),
        RunnerType::Plugin => ("plugin", json!({"plugin": text})),
        RunnerType::Builtin => {
            let why = "`BUILTIN` is reserved for the built-in worker -1";
            return Err(Invalid::new(Code::Malformed, "type", why));
        }
    };
    match settings {
        Value::Object(settings) => Ok((runner, settings)),
        _ => Err(wrong("is not an object")),
    }
}

/// The type of a runner, and its settings as an `operation`. A runner that jobworkerp does not know is shown as
/// `BUILTIN`, by its name.
pub(super) fn to_operation(runner: &str, settings: &SettingsMap) -> (RunnerType, String) {
    let text = |name: &str| settings.get(name).and_then(Value::as_str).unwrap_or_default();
    match runner {
        "command" => (RunnerType::Command, text("program").to_owned()),
        "http" => (RunnerType::Request, text("url").to_owned()),
        "grpc" => {
            let path = format!("/{}", text("method"));
            (RunnerType::GrpcUnary, json!({"url": text("url"), "path": path}).to_string())
        }
        "docker" => {
            let mut pull = Map::new();
            for (setting, field) in [("image", "FromImage"), ("platform", "Platform")] {
                if !text(setting).is_empty() {
                    pull.insert(field.to_owned(), text(setting).into());
                }
            }
            (RunnerType::Docker, Value::Object(pull).to_string())
        }
        "plugin" => (RunnerType::Plugin, text("plugin").to_owned()),
        other => (RunnerType::Builtin, other.to_owned()),
    }
}

fn wrong(message: impl Into<String>) -> Invalid {
    Invalid::new(Code::Malformed, "operation", message)
}

fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, Invalid> {
    let why = |error: serde_json::Error| wrong(format!("`{}`: {error}", excerpt(text)));
    serde_json::from_str(text).map_err(why)
}

/// Checks that a URL is http or https, with a host.
fn url(text: &str) -> Result<&str, Invalid> {
    let is_good =
        |url: &Uri| matches!(url.scheme_str(), Some("http" | "https")) && url.host().is_some();
    match text.parse().is_ok_and(|url| is_good(&url)) {
        true => Ok(text),
        false => Err(wrong(format!("`{}` is not an http or https URL", excerpt(text)))),
    }
}

/// Operation of a gRPC call.
#[derive(Debug, Deserialize)]
struct GrpcOperation {
    url: String,
    path: String,
}

/// Operation of a Docker worker: the image. Empty strings count as absent.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct DockerOperation {
    from_image: Option<String>,
    from_src: Option<String>,
    repo: Option<String>,
    tag: Option<String>,
    platform: Option<String>,
}

impl DockerOperation {
    fn settings(self) -> Result<Value, Invalid> {
        let some = |text: Option<String>| text.filter(|text| !text.is_empty());
        let (from_image, repo) = (some(self.from_image), some(self.repo));
        // `Repo` names an image that is imported; an engine that pulls one ignores it.
        if some(self.from_src).is_some() || repo.is_some() && from_image.is_none() {
            let why = "`FromSrc`, and `Repo` without `FromImage`, import an image, which is not supported: \
                       import it beforehand and name it in `FromImage`";
            return Err(wrong(why));
        }
        let mut settings = Map::new();
        if let Some(platform) = some(self.platform) {
            settings.insert("platform".to_owned(), platform.into());
        }
        settings.insert("payload".to_owned(), "config".into());
        // jobworkerp returns stdout and stderr together.
        settings.insert("stderr".to_owned(), "result".into());
        match (from_image, some(self.tag)) {
            (Some(image), None) => drop(settings.insert("image".to_owned(), image.into())),
            (Some(image), Some(tag)) => {
                let name = image.rsplit('/').next().unwrap_or_default();
                if name.contains([':', '@']) {
                    let why = format!(
                        "`FromImage` `{}` already has a tag; remove `Tag`",
                        excerpt(&image)
                    );
                    return Err(wrong(why));
                }
                let between = if tag.contains(':') { '@' } else { ':' };
                settings.insert("image".to_owned(), format!("{image}{between}{tag}").into());
            }
            (None, Some(_)) => return Err(wrong("`Tag` requires `FromImage`")),
            (None, None) => {}
        }
        Ok(Value::Object(settings))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_maps_to_its_runner_and_back() {
        for (runner_type, text, runner, expected) in [
            (
                RunnerType::Command,
                "/bin/ls",
                "command",
                json!({"program": "/bin/ls", "payload": "lines"}),
            ),
            (
                RunnerType::Request,
                "https://example.com/a/",
                "http",
                json!({"url": "https://example.com/a/", "payload": "request"}),
            ),
            (
                RunnerType::GrpcUnary,
                r#"{"path":"/a.B/C","url":"http://localhost:9000"}"#,
                "grpc",
                json!({"url": "http://localhost:9000", "method": "a.B/C", "payload": "bytes"}),
            ),
            (
                RunnerType::Docker,
                r#"{"FromImage":"busybox:latest"}"#,
                "docker",
                json!({"image": "busybox:latest", "payload": "config", "stderr": "result"}),
            ),
            (RunnerType::Docker, "{}", "docker", json!({"payload": "config", "stderr": "result"})),
            (RunnerType::Plugin, "HelloPlugin", "plugin", json!({"plugin": "HelloPlugin"})),
        ] {
            let (named, settings) = settings(runner_type, text).expect(text);
            assert_eq!((named, Value::from(settings.clone())), (runner, expected));
            assert_eq!(to_operation(named, &settings), (runner_type, text.to_owned()));
        }
        let (_, tagged) = settings(
            RunnerType::Docker,
            r#"{"FromImage":"a:5000/b","Tag":"3","Platform":"","Other":1}"#,
        )
        .expect("good");
        assert_eq!(tagged["image"], "a:5000/b:3");
        let text = r#"{"FromImage":"a","Repo":"b","Platform":"linux/arm64"}"#;
        let (_, foreign) = settings(RunnerType::Docker, text).expect("good");
        assert_eq!((&foreign["image"], &foreign["platform"]), (&json!("a"), &json!("linux/arm64")));
        let text = r#"{"FromImage":"a","Platform":"linux/arm64"}"#;
        assert_eq!(to_operation("docker", &foreign), (RunnerType::Docker, text.to_owned()));
        assert_eq!(to_operation("slack", &Map::new()), (RunnerType::Builtin, "slack".to_owned()));
    }

    #[test]
    fn invalid_operations_are_refused() {
        for (runner_type, text, why) in [
            (RunnerType::Command, "", "is required"),
            (RunnerType::Request, "example.com", "not an http"),
            (RunnerType::Request, "ftp://example.com", "not an http"),
            (RunnerType::GrpcUnary, "http://localhost", "expected"),
            (RunnerType::GrpcUnary, r#"{"url":"http://a"}"#, "missing field `path`"),
            (RunnerType::GrpcUnary, r#"{"url":"http://a","path":"b"}"#, "no service"),
            (RunnerType::Docker, "busybox", "expected"),
            (RunnerType::Docker, r#"{"FromImage":1}"#, "invalid type"),
            (RunnerType::Docker, r#"{"FromSrc":"-"}"#, "FromSrc"),
            (RunnerType::Docker, r#"{"Repo":"a"}"#, "Repo"),
            (RunnerType::Docker, r#"{"Tag":"1"}"#, "requires `FromImage`"),
            (RunnerType::Docker, r#"{"FromImage":"a:1","Tag":"2"}"#, "already has a tag"),
        ] {
            let refused = settings(runner_type, text).expect_err(text);
            assert_eq!(refused.field, "operation", "{text}");
            assert!(refused.message.contains(why), "{text}: {}", refused.message);
        }
        let refused = settings(RunnerType::Builtin, "slack").expect_err("refused");
        assert_eq!(refused.field, "type");
    }
}
