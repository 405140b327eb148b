//! A payload in the format of the engine's create request: `Image`, `Cmd`, `Env`, `User`, `WorkingDir`,
//! `Entrypoint`. A client that pushes jobs is not the operator: every other field, above all those that reach
//! the host, is refused by name.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::runner::RunFailure;

/// The fields that a payload may set.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PayloadConfig {
    pub(super) image: Option<String>,
    pub(super) cmd: Option<Vec<String>>,
    pub(super) env: Vec<String>,
    pub(super) user: Option<String>,
    pub(super) dir: Option<String>,
    pub(super) entrypoint: Option<Vec<String>>,
}

/// Fields that are ignored: crore sets them itself.
const IGNORED: [&str; 5] =
    ["AttachStdin", "AttachStdout", "AttachStderr", "OpenStdin", "StdinOnce"];

impl PayloadConfig {
    pub(super) fn read(payload: &[u8]) -> Result<Self, RunFailure> {
        let object: Map<String, Value> = serde_json::from_slice(payload)
            .map_err(|error| bad(format!("payload: not a JSON object: {error}")))?;
        let mut config = Self::default();
        for (name, value) in object {
            if is_unset(&value) || IGNORED.contains(&&*name) {
                continue;
            }
            match &*name {
                "Image" => config.image = Some(field(&name, value)?),
                "Cmd" => config.cmd = Some(words(&name, value)?),
                "Env" => config.env = variables(field(&name, value)?)?,
                "User" => config.user = Some(field(&name, value)?),
                "WorkingDir" => config.dir = Some(field(&name, value)?),
                "Entrypoint" => config.entrypoint = Some(words(&name, value)?),
                _ => return Err(refused(&name, &value)),
            }
        }
        Ok(config)
    }
}

fn is_unset(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Object(inner) => inner.values().all(is_unset),
        Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Bool(true) => false,
    }
}

fn field<'de, T: Deserialize<'de>>(name: &str, value: Value) -> Result<T, RunFailure> {
    T::deserialize(value).map_err(|error| bad(format!("payload: `{name}`: {error}")))
}

/// One word, or a list of words.
fn words(name: &str, value: Value) -> Result<Vec<String>, RunFailure> {
    if let Value::String(word) = value {
        return Ok(vec![word]);
    }
    field(name, value)
}

fn variables(all: Vec<String>) -> Result<Vec<String>, RunFailure> {
    match all.iter().find(|one| one.find('=').is_none_or(|at| at == 0)) {
        None => Ok(all),
        Some(one) => Err(bad(format!("payload: `Env`: `{one}` is not `NAME=value`"))),
    }
}

fn refused(name: &str, value: &Value) -> RunFailure {
    let inner = value.as_object().and_then(|inner| {
        let (inner, _) = inner.iter().find(|(_, value)| !is_unset(value))?;
        Some(format!("{name}.{inner}"))
    });
    let name = inner.as_deref().unwrap_or(name);
    let message = format!(
        "payload: `{name}` is not allowed in a payload; only the handler sets what a container may use"
    );
    RunFailure::fatal(message).with("reason", "payload")
}

fn bad(message: String) -> RunFailure {
    RunFailure::fatal(message).with("reason", "payload")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(payload: &Value) -> Result<PayloadConfig, String> {
        PayloadConfig::read(payload.to_string().as_bytes()).map_err(|failure| failure.error)
    }

    #[test]
    fn create_request_is_read() {
        let all = json!({
            "Image": "busybox:latest", "Cmd": ["ls", " -l"], "Env": ["A=b=c"], "User": "1000",
            "WorkingDir": "/tmp", "Entrypoint": "sh", "AttachStdout": true, "Tty": false,
            "HostConfig": { "Privileged": false, "Binds": null }, "Volumes": {},
        });
        let words = |words: &[&str]| Some(words.iter().map(ToString::to_string).collect());
        let expected = PayloadConfig {
            image: Some("busybox:latest".into()),
            cmd: words(&["ls", " -l"]),
            env: vec!["A=b=c".into()],
            user: Some("1000".into()),
            dir: Some("/tmp".into()),
            entrypoint: words(&["sh"]),
        };
        assert_eq!(read(&all), Ok(expected));
        assert_eq!(read(&json!({})), Ok(PayloadConfig::default()));
    }

    #[test]
    fn settings_that_would_reach_the_host_are_refused_with_their_field() {
        let cases = [
            (json!({ "HostConfig": { "Privileged": true } }), "`HostConfig.Privileged`"),
            (json!({ "HostConfig": { "Binds": ["/:/host"] } }), "`HostConfig.Binds`"),
            (json!({ "HostConfig": { "Mounts": [{ "Type": "bind" }] } }), "`HostConfig.Mounts`"),
            (json!({ "HostConfig": { "PidMode": "host" } }), "`HostConfig.PidMode`"),
            (json!({ "HostConfig": { "IpcMode": "host" } }), "`HostConfig.IpcMode`"),
            (json!({ "HostConfig": { "NetworkMode": "host" } }), "`HostConfig.NetworkMode`"),
            (json!({ "HostConfig": { "UsernsMode": "host" } }), "`HostConfig.UsernsMode`"),
            (json!({ "HostConfig": { "CgroupnsMode": "host" } }), "`HostConfig.CgroupnsMode`"),
            (json!({ "HostConfig": { "Devices": [{}] } }), "`HostConfig.Devices`"),
            (json!({ "HostConfig": { "CapAdd": ["ALL"] } }), "`HostConfig.CapAdd`"),
            (json!({ "HostConfig": { "SecurityOpt": ["x"] } }), "`HostConfig.SecurityOpt`"),
            (json!({ "HostConfig": { "VolumesFrom": ["x"] } }), "`HostConfig.VolumesFrom`"),
            (json!({ "HostConfig": { "Memory": 0 } }), "`HostConfig.Memory`"),
            (json!({ "HostConfig": [] }), "`HostConfig`"),
            (
                json!({ "NetworkingConfig": { "EndpointsConfig": { "a": 1 } } }),
                "`NetworkingConfig.E",
            ),
            (json!({ "Volumes": { "/x": [] } }), "`Volumes./x`"),
            (json!({ "Tty": true }), "`Tty`"),
            (json!({ "privileged": true }), "`privileged`"),
        ];
        for (payload, name) in cases {
            let error = read(&payload).expect_err("it is refused");
            assert!(error.starts_with(&format!("payload: {name}")), "{error}");
        }
    }

    #[test]
    fn malformed_payload_is_reported() {
        let cases = [
            (json!([]), "payload: not a JSON object"),
            (json!({ "Cmd": [1] }), "payload: `Cmd`"),
            (json!({ "Image": 3 }), "payload: `Image`"),
            (json!({ "Env": ["A"] }), "payload: `Env`: `A` is not `NAME=value`"),
            (json!({ "Env": ["=a"] }), "payload: `Env`: `=a` is not `NAME=value`"),
        ];
        for (payload, start) in cases {
            let error = read(&payload).expect_err("it is invalid");
            assert!(error.starts_with(start), "{error}");
        }
    }
}
