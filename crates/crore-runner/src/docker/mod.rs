//! The docker runner: a job is one run of an image, through the Docker API.
//!
//! ```text
//! settings        settings of a handler          limits            resource limits
//! create_request  the create request             config            a payload that is a create request
//! engine          the connection, image pulls    container         from creation to removal
//! run             one job                        container_output  collects the output
//! registry        logins for image pulls
//! host_registry   registration of this host      cleanup           removes containers of dead hosts
//! ```

mod cleanup;
mod config;
mod container;
mod container_output;
mod create_request;
mod engine;
mod host_registry;
mod limits;
mod registry;
mod run;
mod settings;

use std::sync::Arc;

use crore_core::Invalid;
use serde_json::Value;
use tokio::sync::OnceCell;

pub use self::limits::ContainerLimits;

use self::engine::DockerEngine;
use self::settings::ContainerSettings;
use crate::context::RunContext;
use crate::options::Options;
use crate::runner::{MakeFuture, PrepareFuture, RunFuture, Runner, RunnerFactory, Task};

/// Default address of the engine.
const DEFAULT_ADDRESS: &str = "unix:///var/run/docker.sock";

/// The runner type `docker`.
#[derive(Debug, Clone)]
pub struct DockerFactory {
    options: Arc<Options>,
    engine: Arc<DockerEngine>,
}

impl DockerFactory {
    /// Restricted by the options of the operator. Does not connect yet.
    pub fn new(options: Options) -> Self {
        let address = options.docker.as_deref().unwrap_or(DEFAULT_ADDRESS).to_owned();
        let engine = Arc::new(DockerEngine::at(address, options.state.clone()));
        Self { options: Arc::new(options), engine }
    }
}

impl RunnerFactory for DockerFactory {
    fn name(&self) -> &'static str {
        "docker"
    }

    fn must_be_allowed(&self) -> bool {
        true
    }

    fn prepare(&self) -> PrepareFuture<'_> {
        Box::pin(async {
            if let Err(failure) = self.engine.connection().await {
                tracing::warn!(
                    error = %failure,
                    "container engine unavailable; connecting again with the next job"
                );
            }
        })
    }

    fn check(&self, settings: &Value) -> Result<(), Invalid> {
        ContainerSettings::read(settings, &self.options).map(drop)
    }

    fn make<'a>(&'a self, settings: &'a Value) -> MakeFuture<'a> {
        Box::pin(async move {
            let settings = ContainerSettings::read(settings, &self.options)?;
            let (options, engine) = (self.options.clone(), self.engine.clone());
            let image = ImageRunner { settings, options, engine, pulled: OnceCell::new() };
            Ok(Box::new(image) as _)
        })
    }
}

/// An image with its settings.
#[derive(Debug)]
struct ImageRunner {
    settings: ContainerSettings,
    options: Arc<Options>,
    engine: Arc<DockerEngine>,
    /// Set after the pull of an image with `pull = always`: a pooled runner pulls once.
    pulled: OnceCell<()>,
}

impl Runner for ImageRunner {
    fn run<'a>(&'a self, task: &'a Task, context: &'a RunContext) -> RunFuture<'a> {
        Box::pin(run::run(self, task, context))
    }
}
