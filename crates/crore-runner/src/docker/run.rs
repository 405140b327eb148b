//! One job: pulls the image, then creates, feeds, reads and removes a container.

use std::io;
use std::pin::pin;
use std::time::Duration;

use bollard::errors::Error;
use bollard::models::ContainerCreateBody;
use futures_util::StreamExt;
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use super::ImageRunner;
use super::container::Container;
use super::container_output::OutputCollector;
use super::create_request::{CreateRequest, create_request};
use super::engine::{failure, is_missing};
use super::host_registry::HOST_LABEL;
use super::settings::{ContainerInput, ContainerSettings, PullPolicy};
use crate::context::RunContext;
use crate::output::{OutputLimitExceeded, exit_code, with_stderr};
use crate::runner::{Output, RunFailure, Task};

/// The exit code after SIGKILL.
const KILLED: i64 = 137;

/// How a container ended.
enum ContainerEnd {
    Exit(i64),
    OutputLimit,
    Lost(Error),
}

pub(super) async fn run(
    this: &ImageRunner,
    task: &Task,
    context: &RunContext,
) -> Result<Output, RunFailure> {
    let creating = async {
        let CreateRequest { image, body, masks } = create_request(this, task).await?;
        let container = create(this, &image, body, context).await?;
        Ok::<_, RunFailure>((container, masks))
    };
    let (container, masks) = tokio::select! {
        biased;
        () = context.stopped() => return Err(RunFailure::stopped()),
        created = creating => created?,
    };
    let settings = &this.settings;
    let mut collector = OutputCollector::new(settings, &masks, context);
    let ended = run_until_stopped(&container, settings, task, &mut collector, context).await;
    let (output, stderr) = collector.end();
    let result = match ended {
        None => Err(RunFailure::stopped()),
        Some(ContainerEnd::Exit(code)) if settings.success.has(code) => Ok(Output::bytes(output)),
        Some(ContainerEnd::Exit(code)) => {
            let memory = code == KILLED && container.was_out_of_memory().await;
            Err(exit_failure(code, memory, settings, &stderr))
        }
        Some(ContainerEnd::OutputLimit) => {
            Err(OutputLimitExceeded.into_failure(settings.max_output, &stderr))
        }
        Some(ContainerEnd::Lost(error)) => Err(failure("could not run the container", &error)),
    };
    container.remove().await;
    result
}

/// Creates a container; pulls its image if the settings require it or the image is missing.
async fn create(
    this: &ImageRunner,
    image: &str,
    mut body: ContainerCreateBody,
    context: &RunContext,
) -> Result<Container, RunFailure> {
    let connection = this.engine.connection().await?;
    if let (Some(owner), Some(labels)) = (&connection.registration, &mut body.labels) {
        labels.insert(HOST_LABEL.to_owned(), owner.name().to_owned());
    }
    let settings = &this.settings;
    let (docker, pull, platform) =
        (&connection.docker, settings.pull, settings.platform.as_deref());
    if pull == PullPolicy::Always {
        let is_ours = settings.image.as_deref() == Some(image);
        let pulling = || connection.pull(image, settings, context);
        if is_ours {
            this.pulled.get_or_try_init(pulling).await?;
        } else {
            pulling().await?;
        }
    }
    let retry_body = (pull == PullPolicy::Missing).then(|| body.clone());
    match (Container::create(docker, body, platform).await, retry_body) {
        (Err(error), Some(body)) if is_missing(&error) => {
            connection.pull(image, settings, context).await?;
            let created = Container::create(docker, body, platform).await;
            created.map_err(|error| create_failure(image, &error))
        }
        (created, _) => created.map_err(|error| create_failure(image, &error)),
    }
}

fn create_failure(image: &str, error: &Error) -> RunFailure {
    if is_missing(error) {
        let message = format!("image `{image}` does not exist");
        return RunFailure::fatal(message).with("reason", "image").with("status", 404);
    }
    failure("could not create the container", error)
}

/// Runs a container to its end. `None` if the run had to stop.
async fn run_until_stopped(
    container: &Container,
    settings: &ContainerSettings,
    task: &Task,
    collector: &mut OutputCollector<'_>,
    context: &RunContext,
) -> Option<ContainerEnd> {
    let mut running = pin!(run_to_end(container, settings, task, collector));
    tokio::select! {
        biased;
        () = context.stopped() => {}
        end = &mut running => return Some(end.unwrap_or_else(ContainerEnd::Lost)),
    }
    let grace = settings.grace.0.as_millis();
    let seconds = i32::try_from(grace.div_ceil(1000)).unwrap_or(i32::MAX);
    let stopping = async { tokio::join!(container.stop(seconds), running) };
    // A container that is left after that is killed by its removal.
    _ = timeout(Duration::from_millis(grace), stopping).await;
    None
}

async fn run_to_end(
    container: &Container,
    settings: &ContainerSettings,
    task: &Task,
    collector: &mut OutputCollector<'_>,
) -> Result<ContainerEnd, Error> {
    let takes_stdin = settings.payload == ContainerInput::Stdin;
    let mut streams = container.attach(takes_stdin).await?;
    container.start().await?;
    let feed = async {
        if takes_stdin {
            // A container that does not read all input has ended or ignores it.
            _ = streams.input.write_all(&task.payload.bytes).await;
            _ = streams.input.shutdown().await;
        }
        std::future::pending::<()>().await;
    };
    let reading = async {
        while let Some(piece) = streams.output.next().await {
            let piece = match piece {
                // When a container leaves input unread, the engine resets the connection. All output has been
                // read by then, and the exit code is queried below.
                Err(Error::IOError { err }) if takes_stdin && is_reset(&err) => break,
                piece => piece?,
            };
            if let Err(OutputLimitExceeded) = collector.take(&piece) {
                return Ok(Some(ContainerEnd::OutputLimit));
            }
        }
        Ok::<_, Error>(None)
    };
    let early_end = tokio::select! {
        early_end = reading => early_end?,
        () = feed => None,
    };
    match early_end {
        Some(end) => Ok(end),
        None => container.wait().await.map(ContainerEnd::Exit),
    }
}

fn is_reset(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
}

fn exit_failure(
    code: i64,
    out_of_memory: bool,
    settings: &ContainerSettings,
    stderr: &str,
) -> RunFailure {
    match settings.limits.memory {
        Some(max) if out_of_memory => {
            let message = format!("killed: memory limit `{max}` exceeded");
            let failure = RunFailure::temporary(message).with("reason", "memory");
            with_stderr(failure.with("exit_code", code), stderr)
        }
        _ => exit_code(code, stderr),
    }
}
