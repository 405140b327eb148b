//! Removes what hosts that are gone have left on an engine.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bollard::Docker;
use bollard::errors::Error;
use bollard::query_parameters::ListContainersOptionsBuilder;
use tokio::task::spawn_blocking;

use super::body::JOB;
use super::container::remove;
use super::engine::why;
use super::owner::{Gone, HOST, Owner};

/// How long an engine may still be making a container that nobody waits for any more.
const LATE: Duration = Duration::from_secs(10);

/// Removes the containers of all hosts of this engine that are gone, and then forgets those hosts.
pub(super) async fn sweep(docker: Docker, owner: Arc<Owner>) {
    let found = spawn_blocking(move || owner.gone()).await.map_err(io::Error::other).flatten();
    let gone = match found {
        Ok(gone) if !gone.is_empty() => gone,
        Ok(_) => return,
        Err(error) => {
            tracing::warn!(%error, "cannot tell which hosts of containers are gone");
            return;
        }
    };
    let mut is_clean = vec![true; gone.len()];
    for wait in [Duration::ZERO, LATE] {
        #[expect(clippy::disallowed_methods, reason = "no engine says that it makes no more")]
        tokio::time::sleep(wait).await;
        for (one, is_clean) in gone.iter().zip(&mut is_clean) {
            if let Err(error) = remove_all(&docker, one).await {
                tracing::warn!("a container whose host is gone stays: {}", why(&error));
                *is_clean = false;
            }
        }
    }
    for (one, _) in gone.into_iter().zip(is_clean).filter(|(_, is_clean)| *is_clean) {
        if let Err(error) = one.forget() {
            tracing::warn!(%error, "a host of containers that is gone stays known");
        }
    }
}

/// Removes what bears the name of a host, as far as that can be; the last error is told.
async fn remove_all(docker: &Docker, gone: &Gone) -> Result<(), Error> {
    let label = format!("{HOST}={}", gone.name);
    let filters = HashMap::from([("label", vec![label])]);
    let options = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
    let mut removed = Ok(());
    for container in docker.list_containers(Some(options)).await? {
        let id = container.id.unwrap_or_default();
        let job = container.labels.unwrap_or_default().remove(JOB).unwrap_or_default();
        match remove(docker, &id).await {
            Ok(()) => {
                tracing::info!(container = id, job, "removed what a host has left that is gone");
            }
            Err(error) => removed = Err(error),
        }
    }
    removed
}
