//! The engine: who is asked, what it refuses, and how it gets images.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use bollard::Docker;
use bollard::errors::Error;
use bollard::query_parameters::CreateImageOptionsBuilder;
use futures_util::StreamExt;
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;

use super::owner::Owner;
use super::registry::spell;
use super::settings::Settings;
use super::sweep::sweep;
use crate::context::Context;
use crate::mask::Masks;
use crate::runner::Failure;

/// The engine of an address. It is spoken to when there is something to ask.
#[derive(Debug)]
pub(super) struct Engine {
    address: String,
    hosts: Option<PathBuf>,
    line: OnceCell<Line>,
}

/// How an engine is spoken to.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) docker: Docker,
    /// Whose the containers are that are made, if that can be known.
    pub(super) owner: Option<Arc<Owner>>,
}

impl Engine {
    /// The engine of an address, and the directory in which its hosts note that they live.
    pub(super) fn at(address: String, hosts: Option<PathBuf>) -> Self {
        Self { address, hosts, line: OnceCell::new() }
    }

    /// A line to the engine, in the version that it speaks. That nobody answers is not remembered.
    /// When one answers first, what hosts have left that are gone is removed while others go on.
    pub(super) async fn line(&self) -> Result<&Line, Failure> {
        self.line.get_or_try_init(|| self.connect()).await.map_err(|error| {
            let address = &self.address;
            Failure::fatal(format!("no container engine answers at `{address}`: {}", why(&error)))
                .with("reason", "engine")
        })
    }

    async fn connect(&self) -> Result<Line, Error> {
        let docker = Docker::connect_with_host(&self.address)?.with_request_modifier(spell);
        let docker = docker.negotiate_version().await?;
        let owner = match &self.hosts {
            Some(dir) => self.own(&docker, dir.clone()).await,
            None => None,
        };
        if let Some(owner) = &owner {
            tokio::spawn(sweep(docker.clone(), owner.clone()));
        }
        Ok(Line { docker, owner })
    }

    /// Who we are to this engine; containers are run also if nobody can know.
    async fn own(&self, docker: &Docker, dir: PathBuf) -> Option<Arc<Owner>> {
        let engine = identity(docker).await.unwrap_or_else(|| self.address.clone());
        let shown = dir.display().to_string();
        let owner = spawn_blocking(move || Owner::new(&dir, &engine)).await;
        match owner.map_err(io::Error::other).flatten() {
            Ok(owner) => Some(Arc::new(owner)),
            Err(error) => {
                tracing::warn!(
                    "containers would outlive a host that is killed: `runners.state`, `{shown}`: {error}"
                );
                None
            }
        }
    }
}

impl Line {
    /// Gets an image from wherever it comes from, as its handler says.
    pub(super) async fn pull(
        &self,
        image: &str,
        settings: &Settings,
        context: &Context,
    ) -> Result<(), Failure> {
        context.line(format!("pulling the image `{image}`"));
        let mut masks = Masks::default();
        let login = match &settings.registry {
            Some(registry) => registry.login(image, &mut masks).await?,
            None => None,
        };
        let options = CreateImageOptionsBuilder::new().from_image(&tagged(image));
        let options = options.platform(settings.platform.as_deref().unwrap_or_default()).build();
        let mut steps = self.docker.create_image(Some(options), None, login);
        while let Some(step) = steps.next().await {
            step.map_err(|error| pull_failure(image, &error, &masks))?;
        }
        Ok(())
    }
}

/// Which engine it is: an address may be another's elsewhere, and an engine may have several. `None`
/// of one that does not say, or says something else each time, as podman does.
async fn identity(docker: &Docker) -> Option<String> {
    let (first, second) = (docker.info().await.ok()?.id?, docker.info().await.ok()?.id?);
    (first == second && !first.is_empty()).then_some(first)
}

/// Without a tag an engine would get all that there are.
fn tagged(image: &str) -> String {
    let name = image.rsplit('/').next().unwrap_or(image);
    if name.contains([':', '@']) { image.to_owned() } else { format!("{image}:latest") }
}

/// What an engine says is not there.
pub(super) fn is_missing(error: &Error) -> bool {
    matches!(error, Error::DockerResponseServerError { status_code: 404, .. })
}

/// What registries say to whom they do not know or trust; of an engine it comes as a fault of its own.
const REFUSALS: [&str; 4] =
    ["no basic auth credentials", "unauthorized", "access denied", ": denied"];

/// Why an image was not pulled. What is refused is not asked for again: a registry may lock out whoever
/// comes often with a wrong password.
fn pull_failure(image: &str, error: &Error, masks: &Masks) -> Failure {
    let why = masks.apply(&why(error));
    let is_missing =
        matches!(error, Error::DockerResponseServerError { status_code: 401 | 403 | 404, .. });
    let failure = if is_missing || REFUSALS.iter().any(|refusal| why.contains(refusal)) {
        Failure::fatal(format!("the image `{image}` cannot be had: {why}"))
    } else {
        Failure::again(format!("the image `{image}` was not pulled: {why}"))
    };
    failure.with("reason", "image")
}

/// What became of something that the engine was asked: what it refuses stays refused, and what it
/// could not do it may do later.
pub(super) fn failure(doing: &str, error: &Error) -> Failure {
    let message = format!("{doing}: {}", why(error));
    let failure = match error {
        Error::DockerResponseServerError { status_code: 400..=408 | 410..500, .. } => {
            Failure::fatal(message)
        }
        _ => Failure::again(message),
    };
    match error {
        Error::DockerResponseServerError { status_code, .. } => {
            failure.with("status", *status_code)
        }
        _ => failure,
    }
}

/// An error in one line, down to its cause.
pub(super) fn why(error: &Error) -> String {
    if let Error::DockerResponseServerError { message, .. } = error {
        return message.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    let mut said = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        let inner_said = inner.to_string();
        if !said.contains(&inner_said) {
            said = format!("{said}: {inner_said}");
        }
        cause = inner.source();
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_without_a_tag_is_the_latest() {
        let cases = [
            ("alpine", "alpine:latest"),
            ("alpine:3", "alpine:3"),
            ("localhost:5000/team/alpine", "localhost:5000/team/alpine:latest"),
            ("alpine@sha256:00", "alpine@sha256:00"),
        ];
        for (written, meant) in cases {
            assert_eq!(tagged(written), meant);
        }
    }
}
