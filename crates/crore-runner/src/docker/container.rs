//! A container from creation to removal. It is always removed.

use std::thread;

use bollard::Docker;
use bollard::container::AttachContainerResults;
use bollard::errors::Error;
use bollard::models::ContainerCreateBody;
use bollard::query_parameters::{
    AttachContainerOptionsBuilder, CreateContainerOptionsBuilder, RemoveContainerOptionsBuilder,
    StartContainerOptions, StopContainerOptionsBuilder, WaitContainerOptions,
};
use futures_util::StreamExt;

use super::engine::{describe, is_missing};

/// A container. Dropping it kills and removes it.
#[derive(Debug)]
pub(super) struct Container {
    docker: Docker,
    /// None after the removal.
    id: Option<String>,
}

impl Container {
    /// Creates a container. The engine completes a request even if the caller stops waiting; the container is
    /// then removed.
    pub(super) async fn create(
        docker: &Docker,
        body: ContainerCreateBody,
        platform: Option<&str>,
    ) -> Result<Self, Error> {
        let docker = docker.clone();
        let options = CreateContainerOptionsBuilder::new().platform(platform.unwrap_or_default());
        let options = options.build();
        let making = tokio::spawn(async move {
            let made = docker.create_container(Some(options), body).await?;
            Ok(Self { docker, id: Some(made.id) })
        });
        making.await.unwrap_or_else(|gone| Err(std::io::Error::other(gone).into()))
    }

    fn id(&self) -> &str {
        self.id.as_deref().unwrap_or_default()
    }

    /// Attaches to its three streams from the beginning.
    pub(super) async fn attach(&self, stdin: bool) -> Result<AttachContainerResults, Error> {
        let options = AttachContainerOptionsBuilder::new();
        let options = options.stdin(stdin).stdout(true).stderr(true).stream(true).build();
        self.docker.attach_container(self.id(), Some(options)).await
    }

    pub(super) async fn start(&self) -> Result<(), Error> {
        self.docker.start_container(self.id(), None::<StartContainerOptions>).await
    }

    /// Waits for its end and returns its exit code.
    pub(super) async fn wait(&self) -> Result<i64, Error> {
        let mut ends = self.docker.wait_container(self.id(), None::<WaitContainerOptions>);
        match ends.next().await {
            Some(Ok(end)) => Ok(end.status_code),
            Some(Err(Error::DockerContainerWaitError { code, error })) if error.is_empty() => {
                Ok(code)
            }
            Some(Err(error)) => Err(error),
            None => Err(std::io::Error::other("the engine reported no exit code").into()),
        }
    }

    /// Whether the kernel killed it because it ran out of memory.
    pub(super) async fn was_out_of_memory(&self) -> bool {
        let seen = self.docker.inspect_container(self.id(), None).await;
        seen.is_ok_and(|seen| seen.state.and_then(|state| state.oom_killed) == Some(true))
    }

    /// Sends the stop signal of its image, and SIGKILL after `seconds`.
    pub(super) async fn stop(&self, seconds: i32) {
        let options = StopContainerOptionsBuilder::new().t(seconds).build();
        // A container that cannot be stopped is killed by its removal.
        _ = self.docker.stop_container(self.id(), Some(options)).await;
    }

    /// Kills it if it still runs, and removes it.
    pub(super) async fn remove(mut self) {
        remove_or_warn(&self.docker, self.id()).await;
        self.id = None;
    }
}

/// Kills a container if it still runs, and removes it with its volumes. A missing container is no error.
pub(super) async fn remove(docker: &Docker, id: &str) -> Result<(), Error> {
    let options = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
    match docker.remove_container(id, Some(options)).await {
        Err(error) if !is_missing(&error) => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

async fn remove_or_warn(docker: &Docker, id: &str) {
    if let Err(error) = remove(docker, id).await {
        tracing::warn!(container = id, error = describe(&error), "container not removed");
    }
}

impl Drop for Container {
    /// Runs on its own thread: the run was dropped or panicked, and its runtime may be shutting down.
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        let docker = self.docker.clone();
        let removal = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            match runtime {
                Ok(runtime) => runtime.block_on(remove_or_warn(&docker, &id)),
                Err(error) => tracing::warn!(container = id, %error, "container not removed"),
            }
        };
        if let Err(error) = thread::Builder::new().name("crore-remove".to_owned()).spawn(removal) {
            tracing::warn!(%error, "container not removed");
        }
    }
}
