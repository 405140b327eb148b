//! Builds the request to create a container from a handler's settings and a job.

use std::collections::HashMap;

use bollard::models::{ContainerCreateBody, HostConfig, HostConfigLogConfig};

use super::ImageRunner;
use super::config::PayloadConfig;
use super::settings::{ContainerInput, ContainerSettings, check_image};
use crate::mask::Masks;
use crate::runner::{RunFailure, Task};

/// Label of all containers that crore creates: `docker ps --filter label=crore.job`.
pub(super) const JOB_LABEL: &str = "crore.job";
const DELIVERY_LABEL: &str = "crore.delivery";

/// A request to create a container.
#[derive(Debug)]
pub(super) struct CreateRequest {
    pub(super) image: String,
    pub(super) body: ContainerCreateBody,
    /// The secrets in it that must be masked.
    pub(super) masks: Masks,
}

pub(super) async fn create_request(
    this: &ImageRunner,
    task: &Task,
) -> Result<CreateRequest, RunFailure> {
    let settings = &this.settings;
    let mut config = match settings.payload {
        ContainerInput::Config => PayloadConfig::read(&task.payload.bytes)?,
        ContainerInput::Stdin | ContainerInput::Args | ContainerInput::None => {
            PayloadConfig::default()
        }
    };
    let image = image(this, config.image.take())?;
    let user = user(settings, config.user.take())?;
    let (env, masks) = env(settings, config.env, task).await?;
    let takes_stdin = settings.payload == ContainerInput::Stdin;
    let body = ContainerCreateBody {
        image: Some(image.clone()),
        cmd: cmd(settings, config.cmd.take(), task)?,
        entrypoint: config.entrypoint.take().or_else(|| settings.entrypoint.clone()),
        env: Some(env),
        user,
        working_dir: config.dir.take().or_else(|| settings.dir.clone()),
        attach_stdin: Some(takes_stdin),
        open_stdin: Some(takes_stdin),
        stdin_once: Some(takes_stdin),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        labels: Some(HashMap::from([
            (JOB_LABEL.to_owned(), task.job.to_string()),
            (DELIVERY_LABEL.to_owned(), task.delivery.to_string()),
        ])),
        host_config: Some(host_config(settings)),
        ..ContainerCreateBody::default()
    };
    Ok(CreateRequest { image, body, masks })
}

fn bad(message: String) -> RunFailure {
    RunFailure::fatal(message).with("reason", "payload")
}

/// The image of the payload, if it names one. It must be allowed like any other.
fn image(this: &ImageRunner, of_payload: Option<String>) -> Result<String, RunFailure> {
    if let Some(image) = of_payload {
        return match check_image(&image, &this.options) {
            Ok(()) => Ok(image),
            Err((_, message)) => Err(bad(format!("payload: `Image`: {message}"))),
        };
    }
    let missing = || bad("payload: `Image` is missing, and the handler names none".to_owned());
    this.settings.image.clone().ok_or_else(missing)
}

/// A job must not regain rights that its handler has dropped.
fn user(
    settings: &ContainerSettings,
    of_payload: Option<String>,
) -> Result<Option<String>, RunFailure> {
    match (&settings.user, of_payload) {
        (Some(user), Some(other)) if *user != other => Err(bad(format!(
            "payload: `User`: `{other}` differs from the handler's user, `{user}`"
        ))),
        (user, other) => Ok(user.clone().or(other)),
    }
}

fn cmd(
    settings: &ContainerSettings,
    of_payload: Option<Vec<String>>,
    task: &Task,
) -> Result<Option<Vec<String>>, RunFailure> {
    let mut all = of_payload.unwrap_or_else(|| settings.cmd.clone());
    if settings.payload == ContainerInput::Args {
        let more: Vec<String> = serde_json::from_slice(&task.payload.bytes)
            .map_err(|error| bad(format!("payload: not a JSON array of strings: {error}")))?;
        all.extend(more);
    }
    // To the engine an empty list means no command at all, instead of the image's own.
    Ok((!all.is_empty()).then_some(all))
}

/// The last value of a name wins: the handler's overrides the job's, and crore's overrides both.
async fn env(
    settings: &ContainerSettings,
    of_payload: Vec<String>,
    task: &Task,
) -> Result<(Vec<String>, Masks), RunFailure> {
    let (mut all, mut masks) = (of_payload, Masks::default());
    for (name, secret) in &settings.env {
        let value = masks.look_up(secret).await?;
        all.push(format!("{name}={value}"));
    }
    all.push(format!("CRORE_JOB={}", task.job));
    all.push(format!("CRORE_KIND={}", task.kind));
    all.push(format!("CRORE_ATTEMPT={}", task.attempt));
    all.extend(task.trace.iter().map(|trace| format!("TRACEPARENT={trace}")));
    Ok((all, masks))
}

/// Host resources of a container: only those that are granted here.
fn host_config(settings: &ContainerSettings) -> HostConfig {
    let limits = &settings.limits;
    let memory = limits.memory.map(|memory| i64::try_from(memory.0).unwrap_or(i64::MAX));
    HostConfig {
        network_mode: Some(settings.network.clone()),
        memory,
        // Limits memory and swap together, so there is no swap.
        memory_swap: memory,
        nano_cpus: limits.cpus.map(|cpus| (cpus * 1e9) as i64),
        pids_limit: limits.pids.map(i64::from),
        readonly_rootfs: Some(settings.read_only),
        privileged: Some(false),
        cap_drop: Some(vec!["ALL".to_owned()]),
        cap_add: Some(settings.capabilities.iter().map(ToString::to_string).collect()),
        security_opt: Some(vec!["no-new-privileges".to_owned()]),
        // The output comes over the attached stream; the engine stores none.
        log_config: Some(HostConfigLogConfig {
            typ: Some("none".to_owned()),
            ..HostConfigLogConfig::default()
        }),
        ..HostConfig::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::options::Options;

    #[test]
    fn a_container_has_no_capabilities_and_limited_resources_by_default() {
        let settings = |options: &Options| {
            ContainerSettings::read(&json!({ "image": "alpine" }), options).expect("right")
        };
        let config = host_config(&settings(&Options::default()));
        assert_eq!(config.cap_drop, Some(vec!["ALL".to_owned()]));
        assert_eq!(config.cap_add, Some(Vec::new()));
        assert_eq!((config.privileged, config.pids_limit), (Some(false), Some(1024)));
        assert_eq!((config.memory, config.memory_swap), (Some(2 << 30), Some(2 << 30)));
        let granted = ["CHOWN", "CAP_SETUID"].map(|one| one.parse().expect("a capability"));
        let options = Options { container_capabilities: granted.to_vec(), ..Options::default() };
        let config = host_config(&settings(&options));
        assert_eq!(config.cap_drop, Some(vec!["ALL".to_owned()]));
        assert_eq!(config.cap_add, Some(vec!["CHOWN".to_owned(), "SETUID".to_owned()]));
    }
}
