//! The Docker engine: the connection, its errors, and image pulls.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use bollard::Docker;
use bollard::errors::Error;
use bollard::query_parameters::CreateImageOptionsBuilder;
use futures_util::StreamExt;
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;

use super::cleanup::remove_orphans;
use super::host_registry::HostRegistration;
use super::registry::to_url_safe_base64;
use super::settings::ContainerSettings;
use crate::context::RunContext;
use crate::mask::Masks;
use crate::runner::RunFailure;

/// The engine at an address. It connects on first use.
#[derive(Debug)]
pub(super) struct DockerEngine {
    address: String,
    hosts: Option<PathBuf>,
    connection: OnceCell<EngineConnection>,
}

/// A connection to an engine.
#[derive(Debug)]
pub(super) struct EngineConnection {
    pub(super) docker: Docker,
    /// The registration of this host, which labels its containers; none if it failed.
    pub(super) registration: Option<Arc<HostRegistration>>,
}

impl DockerEngine {
    /// The engine at an address, and the directory in which its hosts register.
    pub(super) fn at(address: String, hosts: Option<PathBuf>) -> Self {
        Self { address, hosts, connection: OnceCell::new() }
    }

    /// The connection, with a negotiated API version. A failed attempt is not cached. The first success also
    /// removes, in the background, the containers of dead hosts.
    pub(super) async fn connection(&self) -> Result<&EngineConnection, RunFailure> {
        self.connection.get_or_try_init(|| self.connect()).await.map_err(|error| {
            let address = &self.address;
            RunFailure::fatal(format!(
                "no container engine answers at `{address}`: {}",
                describe(&error)
            ))
            .with("reason", "engine")
        })
    }

    async fn connect(&self) -> Result<EngineConnection, Error> {
        let docker =
            Docker::connect_with_host(&self.address)?.with_request_modifier(to_url_safe_base64);
        let docker = docker.negotiate_version().await?;
        let owner = match &self.hosts {
            Some(dir) => self.register_host(&docker, dir.clone()).await,
            None => None,
        };
        if let Some(owner) = &owner {
            tokio::spawn(remove_orphans(docker.clone(), owner.clone()));
        }
        Ok(EngineConnection { docker, registration: owner })
    }

    /// Registers this host with the engine. Containers also run if that fails.
    async fn register_host(&self, docker: &Docker, dir: PathBuf) -> Option<Arc<HostRegistration>> {
        let engine = identity(docker).await.unwrap_or_else(|| self.address.clone());
        let shown = dir.display().to_string();
        let owner = spawn_blocking(move || HostRegistration::new(&dir, &engine)).await;
        match owner.map_err(io::Error::other).flatten() {
            Ok(owner) => Some(Arc::new(owner)),
            Err(error) => {
                tracing::warn!(
                    %error,
                    dir = shown,
                    "cannot register in `runners.state`: containers would outlive a killed host"
                );
                None
            }
        }
    }
}

impl EngineConnection {
    /// Pulls an image with the settings of its handler.
    pub(super) async fn pull(
        &self,
        image: &str,
        settings: &ContainerSettings,
        context: &RunContext,
    ) -> Result<(), RunFailure> {
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

/// The id of the engine: one address may mean different engines, and one engine may have several addresses.
/// None if it reports no id or a new one each time, as podman does.
async fn identity(docker: &Docker) -> Option<String> {
    let (first, second) = (docker.info().await.ok()?.id?, docker.info().await.ok()?.id?);
    (first == second && !first.is_empty()).then_some(first)
}

/// Without a tag, an engine would pull all tags.
fn tagged(image: &str) -> String {
    let name = image.rsplit('/').next().unwrap_or(image);
    if name.contains([':', '@']) { image.to_owned() } else { format!("{image}:latest") }
}

/// Whether the engine answered 404.
pub(super) fn is_missing(error: &Error) -> bool {
    matches!(error, Error::DockerResponseServerError { status_code: 404, .. })
}

/// Messages of registries that refuse a login. Engines report them as internal errors.
const REFUSALS: [&str; 4] =
    ["no basic auth credentials", "unauthorized", "access denied", ": denied"];

/// The failure of a pull. A refused login is not retried: a registry may lock out clients that repeat a wrong
/// password.
fn pull_failure(image: &str, error: &Error, masks: &Masks) -> RunFailure {
    let why = masks.apply(&describe(error));
    let is_missing =
        matches!(error, Error::DockerResponseServerError { status_code: 401 | 403 | 404, .. });
    let failure = if is_missing || REFUSALS.iter().any(|refusal| why.contains(refusal)) {
        RunFailure::fatal(format!("image `{image}` is not available: {why}"))
    } else {
        RunFailure::temporary(format!("could not pull image `{image}`: {why}"))
    };
    failure.with("reason", "image")
}

/// The failure of a request to the engine. Client errors (4xx) are fatal, others are retried.
pub(super) fn failure(doing: &str, error: &Error) -> RunFailure {
    let message = format!("{doing}: {}", describe(error));
    let failure = match error {
        Error::DockerResponseServerError { status_code: 400..=408 | 410..500, .. } => {
            RunFailure::fatal(message)
        }
        _ => RunFailure::temporary(message),
    };
    match error {
        Error::DockerResponseServerError { status_code, .. } => {
            failure.with("status", *status_code)
        }
        _ => failure,
    }
}

/// An error and its causes in one line.
pub(super) fn describe(error: &Error) -> String {
    if let Error::DockerResponseServerError { message, .. } = error {
        return message.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_without_a_tag_has_the_tag_latest() {
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
