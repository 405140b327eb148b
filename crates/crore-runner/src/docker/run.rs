//! One job: an image made ready, a container made, fed, heard and removed.

use std::io;
use std::pin::pin;
use std::time::Duration;

use bollard::errors::Error;
use bollard::models::ContainerCreateBody;
use futures_util::StreamExt;
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use super::Image;
use super::body::{Body, body};
use super::container::Container;
use super::engine::{failure, is_missing};
use super::gather::Gather;
use super::owner::HOST;
use super::settings::{Give, Pull, Settings};
use crate::context::Context;
use crate::output::{TooMuch, exit_code, with_stderr};
use crate::runner::{Failure, Output, Task};

/// The exit code of what was killed.
const KILLED: i64 = 137;

/// How a container's life went.
enum End {
    Exit(i64),
    TooMuch,
    Lost(Error),
}

pub(super) async fn run(this: &Image, task: &Task, context: &Context) -> Result<Output, Failure> {
    let making = async {
        let Body { image, body, masks } = body(this, task).await?;
        let container = make(this, &image, body, context).await?;
        Ok::<_, Failure>((container, masks))
    };
    let (container, masks) = tokio::select! {
        biased;
        () = context.stopped() => return Err(Failure::stopped()),
        made = making => made?,
    };
    let settings = &this.settings;
    let mut gather = Gather::new(settings, &masks, context);
    let ended = live(&container, settings, task, &mut gather, context).await;
    let (result, words) = gather.end();
    let told = match ended {
        None => Err(Failure::stopped()),
        Some(End::Exit(code)) if settings.success.has(code) => Ok(Output::bytes(result)),
        Some(End::Exit(code)) => {
            let memory = code == KILLED && container.was_out_of_memory().await;
            Err(exit_failure(code, memory, settings, &words))
        }
        Some(End::TooMuch) => Err(TooMuch.told(settings.max_output, &words)),
        Some(End::Lost(error)) => Err(failure("the container could not be run", &error)),
    };
    container.remove().await;
    told
}

/// Makes a container, and gets its image where that is wanted or needed.
async fn make(
    this: &Image,
    image: &str,
    mut body: ContainerCreateBody,
    context: &Context,
) -> Result<Container, Failure> {
    let line = this.engine.line().await?;
    if let (Some(owner), Some(labels)) = (&line.owner, &mut body.labels) {
        labels.insert(HOST.to_owned(), owner.name().to_owned());
    }
    let settings = &this.settings;
    let (docker, pull, platform) = (&line.docker, settings.pull, settings.platform.as_deref());
    if pull == Pull::Always {
        let is_ours = settings.image.as_deref() == Some(image);
        let pulling = || line.pull(image, settings, context);
        if is_ours {
            this.pulled.get_or_try_init(pulling).await?;
        } else {
            pulling().await?;
        }
    }
    let again = (pull == Pull::Missing).then(|| body.clone());
    match (Container::create(docker, body, platform).await, again) {
        (Err(error), Some(body)) if is_missing(&error) => {
            line.pull(image, settings, context).await?;
            let made = Container::create(docker, body, platform).await;
            made.map_err(|error| not_made(image, &error))
        }
        (made, _) => made.map_err(|error| not_made(image, &error)),
    }
}

fn not_made(image: &str, error: &Error) -> Failure {
    if is_missing(error) {
        let message = format!("the image `{image}` is not there");
        return Failure::fatal(message).with("reason", "image").with("status", 404);
    }
    failure("the container could not be made", error)
}

/// From its start to its end, or to `None` if it was to stop.
async fn live(
    container: &Container,
    settings: &Settings,
    task: &Task,
    gather: &mut Gather<'_>,
    context: &Context,
) -> Option<End> {
    let mut life = pin!(life(container, settings, task, gather));
    tokio::select! {
        biased;
        () = context.stopped() => {}
        end = &mut life => return Some(end.unwrap_or_else(End::Lost)),
    }
    let grace = settings.grace.0.as_millis();
    let seconds = i32::try_from(grace.div_ceil(1000)).unwrap_or(i32::MAX);
    let stopping = async { tokio::join!(container.stop(seconds), life) };
    // What is still there after that is killed when it is removed.
    _ = timeout(Duration::from_millis(grace), stopping).await;
    None
}

async fn life(
    container: &Container,
    settings: &Settings,
    task: &Task,
    gather: &mut Gather<'_>,
) -> Result<End, Error> {
    let takes_stdin = settings.payload == Give::Stdin;
    let mut streams = container.attach(takes_stdin).await?;
    container.start().await?;
    let feed = async {
        if takes_stdin {
            // One that does not read it all has ended, or does not want it.
            _ = streams.input.write_all(&task.payload.bytes).await;
            _ = streams.input.shutdown().await;
        }
        std::future::pending::<()>().await;
    };
    let hear = async {
        while let Some(piece) = streams.output.next().await {
            let piece = match piece {
                // What a container has left unread the engine throws away, and with it the connection. All that it
                // said was heard before, and how it ended is asked below.
                Err(Error::IOError { err }) if takes_stdin && is_reset(&err) => break,
                piece => piece?,
            };
            if let Err(TooMuch) = gather.take(&piece) {
                return Ok(Some(End::TooMuch));
            }
        }
        Ok::<_, Error>(None)
    };
    let heard = tokio::select! {
        heard = hear => heard?,
        () = feed => None,
    };
    match heard {
        Some(end) => Ok(end),
        None => container.wait().await.map(End::Exit),
    }
}

fn is_reset(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
}

fn exit_failure(code: i64, memory: bool, settings: &Settings, words: &str) -> Failure {
    match settings.limits.memory {
        Some(most) if memory => {
            let message = format!("killed: it wanted more memory than `{most}`");
            let failure = Failure::again(message).with("reason", "memory");
            with_stderr(failure.with("exit_code", code), words)
        }
        _ => exit_code(code, words),
    }
}
