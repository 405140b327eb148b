//! Containers: a job is a run of an image, by the Docker API.
//!
//! ```text
//! settings   what a handler says            limits      how much of the machine it may have
//! body       what the engine is asked for   config      a payload that says so itself
//! engine     who is asked, and refusals     container   from its making to its removal
//! run        one job                        gather      what comes out of it
//! registry   who pulls an image
//! owner      whose a container is           sweep       what is left of hosts that are gone
//! ```

mod body;
mod config;
mod container;
mod engine;
mod gather;
mod limits;
mod owner;
mod registry;
mod run;
mod settings;
mod sweep;

use std::sync::Arc;

use crore_core::Invalid;
use serde_json::Value;
use tokio::sync::OnceCell;

pub use self::limits::Limits;

use self::engine::Engine;
use self::settings::Settings;
use crate::context::Context;
use crate::options::Options;
use crate::runner::{Beginning, Maker, Making, Runner, Running, Task};

/// Where the engine listens unless the operator says otherwise.
const ADDRESS: &str = "unix:///var/run/docker.sock";

/// The sort of runner that `docker` names.
#[derive(Debug, Clone)]
pub struct Docker {
    options: Arc<Options>,
    engine: Arc<Engine>,
}

impl Docker {
    /// With what the operator says. No engine is asked anything yet.
    pub fn new(options: Options) -> Self {
        let address = options.docker.as_deref().unwrap_or(ADDRESS).to_owned();
        let engine = Arc::new(Engine::at(address, options.state.clone()));
        Self { options: Arc::new(options), engine }
    }
}

impl Maker for Docker {
    fn name(&self) -> &'static str {
        "docker"
    }

    fn needs_leave(&self) -> bool {
        true
    }

    fn begin(&self) -> Beginning<'_> {
        Box::pin(async {
            if let Err(failure) = self.engine.line().await {
                tracing::warn!("{failure}; it is looked for again when there is a job for it");
            }
        })
    }

    fn check(&self, settings: &Value) -> Result<(), Invalid> {
        Settings::read(settings, &self.options).map(drop)
    }

    fn make<'a>(&'a self, settings: &'a Value) -> Making<'a> {
        Box::pin(async move {
            let settings = Settings::read(settings, &self.options)?;
            let (options, engine) = (self.options.clone(), self.engine.clone());
            let image = Image { settings, options, engine, pulled: OnceCell::new() };
            Ok(Box::new(image) as _)
        })
    }
}

/// An image with its settings.
#[derive(Debug)]
struct Image {
    settings: Settings,
    options: Arc<Options>,
    engine: Arc<Engine>,
    /// Set once the image that a handler always wants anew was pulled: a pooled runner pulls it once.
    pulled: OnceCell<()>,
}

impl Runner for Image {
    fn run<'a>(&'a self, task: &'a Task, context: &'a Context) -> Running<'a> {
        Box::pin(run::run(self, task, context))
    }
}
