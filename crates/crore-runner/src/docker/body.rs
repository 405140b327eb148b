//! What an engine is asked to make, from a handler's settings and a job.

use std::collections::HashMap;

use bollard::models::{ContainerCreateBody, HostConfig, HostConfigLogConfig};

use super::Image;
use super::config::Config;
use super::settings::{Give, Settings, check_image};
use crate::mask::Masks;
use crate::runner::{Failure, Task};

/// By which containers of crore are found: `docker ps --filter label=crore.job`.
pub(super) const JOB: &str = "crore.job";
const DELIVERY: &str = "crore.delivery";

/// What an engine is asked to make.
#[derive(Debug)]
pub(super) struct Body {
    pub(super) image: String,
    pub(super) body: ContainerCreateBody,
    /// What of it is to be told to nobody.
    pub(super) masks: Masks,
}

pub(super) async fn body(this: &Image, task: &Task) -> Result<Body, Failure> {
    let settings = &this.settings;
    let mut config = match settings.payload {
        Give::Config => Config::read(&task.payload.bytes)?,
        Give::Stdin | Give::Args | Give::None => Config::default(),
    };
    let image = image(this, config.image.take())?;
    let user = user(settings, config.user.take())?;
    let (env, masks) = env(settings, config.env, task).await?;
    let takes_stdin = settings.payload == Give::Stdin;
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
            (JOB.to_owned(), task.job.to_string()),
            (DELIVERY.to_owned(), task.delivery.to_string()),
        ])),
        host_config: Some(host(settings)),
        ..ContainerCreateBody::default()
    };
    Ok(Body { image, body, masks })
}

fn bad(message: String) -> Failure {
    Failure::fatal(message).with("reason", "payload")
}

/// That of the payload, if it names one; it has to be allowed like any other.
fn image(this: &Image, of_payload: Option<String>) -> Result<String, Failure> {
    if let Some(image) = of_payload {
        return match check_image(&image, &this.options) {
            Ok(()) => Ok(image),
            Err((_, message)) => Err(bad(format!("payload: `Image`: {message}"))),
        };
    }
    let missing = || bad("payload: `Image` is missing, and the handler names none".to_owned());
    this.settings.image.clone().ok_or_else(missing)
}

/// A job may not take rights that its handler has given up.
fn user(settings: &Settings, of_payload: Option<String>) -> Result<Option<String>, Failure> {
    match (&settings.user, of_payload) {
        (Some(user), Some(other)) if *user != other => {
            Err(bad(format!("payload: `User`: `{other}` is not the handler's, `{user}`")))
        }
        (user, other) => Ok(user.clone().or(other)),
    }
}

fn cmd(
    settings: &Settings,
    of_payload: Option<Vec<String>>,
    task: &Task,
) -> Result<Option<Vec<String>>, Failure> {
    let mut all = of_payload.unwrap_or_else(|| settings.cmd.clone());
    if settings.payload == Give::Args {
        let more: Vec<String> = serde_json::from_slice(&task.payload.bytes)
            .map_err(|error| bad(format!("payload: not a JSON array of strings: {error}")))?;
        all.extend(more);
    }
    // None at all would be the engine's word for no command, and not for that of the image.
    Ok((!all.is_empty()).then_some(all))
}

/// The last of a name holds: what the handler says goes before what the job says, and what crore
/// says before both.
async fn env(
    settings: &Settings,
    of_payload: Vec<String>,
    task: &Task,
) -> Result<(Vec<String>, Masks), Failure> {
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

/// What a container may have of the machine: nothing but what is limited here.
fn host(settings: &Settings) -> HostConfig {
    let limits = &settings.limits;
    let memory = limits.memory.map(|memory| i64::try_from(memory.0).unwrap_or(i64::MAX));
    HostConfig {
        network_mode: Some(settings.network.clone()),
        memory,
        // Memory and swap together: so there is no swap.
        memory_swap: memory,
        nano_cpus: limits.cpus.map(|cpus| (cpus * 1e9) as i64),
        pids_limit: limits.pids.map(i64::from),
        readonly_rootfs: Some(settings.read_only),
        privileged: Some(false),
        security_opt: Some(vec!["no-new-privileges".to_owned()]),
        // What it prints comes to us, and is kept by nobody else.
        log_config: Some(HostConfigLogConfig {
            typ: Some("none".to_owned()),
            ..HostConfigLogConfig::default()
        }),
        ..HostConfig::default()
    }
}
