//! Removes containers that dead hosts have left on an engine.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bollard::Docker;
use bollard::errors::Error;
use bollard::query_parameters::ListContainersOptionsBuilder;
use tokio::task::spawn_blocking;

use super::container::remove;
use super::create_request::JOB_LABEL;
use super::engine::describe;
use super::host_registry::{DeadHost, HOST_LABEL, HostRegistration};

/// How long an engine may still be creating a container after its client has gone.
const LATE_CREATE_WAIT: Duration = Duration::from_secs(10);

/// Removes the containers of all dead hosts of this engine, then their registrations.
pub(super) async fn remove_orphans(docker: Docker, owner: Arc<HostRegistration>) {
    let found =
        spawn_blocking(move || owner.dead_hosts()).await.map_err(io::Error::other).flatten();
    let gone = match found {
        Ok(gone) if !gone.is_empty() => gone,
        Ok(_) => return,
        Err(error) => {
            tracing::warn!(%error, "cannot list dead hosts");
            return;
        }
    };
    let mut is_clean = vec![true; gone.len()];
    for wait in [Duration::ZERO, LATE_CREATE_WAIT] {
        #[expect(
            clippy::disallowed_methods,
            reason = "no engine reports that it creates no more containers"
        )]
        tokio::time::sleep(wait).await;
        for (one, is_clean) in gone.iter().zip(&mut is_clean) {
            if let Err(error) = remove_all(&docker, one).await {
                tracing::warn!(
                    error = describe(&error),
                    "cannot remove container left by a dead host"
                );
                *is_clean = false;
            }
        }
    }
    for (one, _) in gone.into_iter().zip(is_clean).filter(|(_, is_clean)| *is_clean) {
        if let Err(error) = one.forget() {
            tracing::warn!(%error, "cannot remove registration of a dead host");
        }
    }
}

/// Removes all containers of a host, as far as possible. Returns the last error.
async fn remove_all(docker: &Docker, gone: &DeadHost) -> Result<(), Error> {
    let label = format!("{HOST_LABEL}={}", gone.name);
    let filters = HashMap::from([("label", vec![label])]);
    let options = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
    let mut removed = Ok(());
    for container in docker.list_containers(Some(options)).await? {
        let id = container.id.unwrap_or_default();
        let job = container.labels.unwrap_or_default().remove(JOB_LABEL).unwrap_or_default();
        match remove(docker, &id).await {
            Ok(()) => {
                tracing::info!(container = id, job, "removed container left by a dead host");
            }
            Err(error) => removed = Err(error),
        }
    }
    removed
}
