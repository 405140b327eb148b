//! What a runner is told: `operation` there, a runner and its settings here.

use crore_core::{Code, Invalid, code::excerpt};
use crore_wire::grpc::jobworkerp::data::RunnerType;
use http::Uri;
use serde::Deserialize;
use serde_json::{Map, Value, json};

type Settings = Map<String, Value>;

/// The runner of a type, and what it is told.
pub(super) fn settings(sort: RunnerType, text: &str) -> Result<(&'static str, Settings), Invalid> {
    if text.is_empty() {
        return Err(wrong("has to be said"));
    }
    let (runner, settings) = match sort {
        RunnerType::Command => ("command", json!({"program": text, "payload": "lines"})),
        RunnerType::Request => ("http", json!({"url": url(text)?, "payload": "request"})),
        RunnerType::GrpcUnary => {
            let Call { url: to, path } = read(text)?;
            let method = path.trim_start_matches('/');
            if !method.contains('/') {
                let path = excerpt(&path);
                return Err(wrong(format!("path `{path}` has no service and method")));
            }
            ("grpc", json!({"url": url(&to)?, "method": method, "payload": "bytes"}))
        }
        RunnerType::Docker => ("docker", read::<Pull>(text)?.settings()?),
        RunnerType::Plugin => ("plugin", json!({"plugin": text})),
        RunnerType::Builtin => {
            let why = "`BUILTIN` is only for what the server brings along: worker -1";
            return Err(Invalid::new(Code::Malformed, "type", why));
        }
    };
    match settings {
        Value::Object(settings) => Ok((runner, settings)),
        _ => Err(wrong("is no object")),
    }
}

/// The type of a runner, and what it is told in the words of jobworkerp. A runner that it does not know is one that
/// the server brings along, by its name.
pub(super) fn said(runner: &str, settings: &Settings) -> (RunnerType, String) {
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
            if !text("image").is_empty() {
                pull.insert("FromImage".to_owned(), text("image").into());
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

/// A URL that can be called.
fn url(text: &str) -> Result<&str, Invalid> {
    let is_good =
        |url: &Uri| matches!(url.scheme_str(), Some("http" | "https")) && url.host().is_some();
    match text.parse().is_ok_and(|url| is_good(&url)) {
        true => Ok(text),
        false => Err(wrong(format!("`{}` is no URL of http or https", excerpt(text)))),
    }
}

/// What is called by gRPC.
#[derive(Debug, Deserialize)]
struct Call {
    url: String,
    path: String,
}

/// Which image is run. Empty texts say nothing.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Pull {
    from_image: Option<String>,
    from_src: Option<String>,
    repo: Option<String>,
    tag: Option<String>,
    platform: Option<String>,
}

impl Pull {
    fn settings(self) -> Result<Value, Invalid> {
        let some = |text: Option<String>| text.filter(|text| !text.is_empty());
        if some(self.from_src).is_some() || some(self.repo).is_some() {
            let why = "`FromSrc` and `Repo` import an image from elsewhere, which is not done here: \
                       import it once, and name it in `FromImage`";
            return Err(wrong(why));
        }
        if some(self.platform).is_some() {
            return Err(wrong("`Platform` cannot be chosen: the engine pulls for its own"));
        }
        let mut settings = Map::new();
        settings.insert("payload".to_owned(), "config".into());
        // What comes out there is both.
        settings.insert("stderr".to_owned(), "result".into());
        match (some(self.from_image), some(self.tag)) {
            (Some(image), None) => drop(settings.insert("image".to_owned(), image.into())),
            (Some(image), Some(tag)) => {
                let name = image.rsplit('/').next().unwrap_or_default();
                if name.contains([':', '@']) {
                    let why =
                        format!("`FromImage` `{}` has a tag, and `Tag` another", excerpt(&image));
                    return Err(wrong(why));
                }
                let between = if tag.contains(':') { '@' } else { ':' };
                settings.insert("image".to_owned(), format!("{image}{between}{tag}").into());
            }
            (None, Some(_)) => return Err(wrong("there is a `Tag`, but no `FromImage`")),
            (None, None) => {}
        }
        Ok(Value::Object(settings))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_has_its_runner_and_says_what_it_was_told() {
        for (sort, text, runner, told) in [
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
            let (named, settings) = settings(sort, text).expect(text);
            assert_eq!((named, Value::from(settings.clone())), (runner, told));
            assert_eq!(said(named, &settings), (sort, text.to_owned()));
        }
        let (_, tagged) = settings(
            RunnerType::Docker,
            r#"{"FromImage":"a:5000/b","Tag":"3","Platform":"","Other":1}"#,
        )
        .expect("good");
        assert_eq!(tagged["image"], "a:5000/b:3");
        assert_eq!(said("slack", &Map::new()), (RunnerType::Builtin, "slack".to_owned()));
    }

    #[test]
    fn what_cannot_be_run_is_refused_by_name() {
        for (sort, text, why) in [
            (RunnerType::Command, "", "has to be said"),
            (RunnerType::Request, "example.com", "no URL"),
            (RunnerType::Request, "ftp://example.com", "no URL"),
            (RunnerType::GrpcUnary, "http://localhost", "expected"),
            (RunnerType::GrpcUnary, r#"{"url":"http://a"}"#, "missing field `path`"),
            (RunnerType::GrpcUnary, r#"{"url":"http://a","path":"b"}"#, "no service"),
            (RunnerType::Docker, "busybox", "expected"),
            (RunnerType::Docker, r#"{"FromImage":1}"#, "invalid type"),
            (RunnerType::Docker, r#"{"FromSrc":"-"}"#, "FromSrc"),
            (RunnerType::Docker, r#"{"FromImage":"a","Platform":"linux/arm64"}"#, "Platform"),
            (RunnerType::Docker, r#"{"Tag":"1"}"#, "no `FromImage`"),
            (RunnerType::Docker, r#"{"FromImage":"a:1","Tag":"2"}"#, "another"),
        ] {
            let refused = settings(sort, text).expect_err(text);
            assert_eq!(refused.field, "operation", "{text}");
            assert!(refused.message.contains(why), "{text}: {}", refused.message);
        }
        let refused = settings(RunnerType::Builtin, "slack").expect_err("not theirs");
        assert_eq!(refused.field, "type");
    }
}
