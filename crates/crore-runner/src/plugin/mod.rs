//! Plugins: dynamic libraries of the operator, each run in a child process.
//!
//! ```text
//! settings   what a handler says            catalog   which library that is
//! child      the process, and one call      runner    a child that is kept, or started again
//! group      its end, and of all it started
//! ```

mod catalog;
mod child;
mod group;
mod runner;
mod settings;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use crore_core::Invalid;
use serde_json::Value;

use crate::options::Options;
use crate::runner::{Maker, Making};
use catalog::Catalog;
use runner::Pooled;
use settings::Settings;

/// Where plugins are, and how their child processes are started.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Where they lie: files that end in `.so`, directly in it. Nobody but its owner may write to it
    /// or to them.
    pub dir: PathBuf,
    /// The program that a child process is. The library's path is added to its arguments.
    pub host: PathBuf,
    /// What that program is told first, to be a child process and nothing else.
    pub host_args: Vec<OsString>,
    /// All of the child's environment.
    pub env: BTreeMap<String, String>,
    /// What the operator says.
    pub options: Options,
}

impl Setup {
    /// Plugins in `dir`, in children that are `host` with `args`.
    pub fn new(dir: impl Into<PathBuf>, host: impl Into<PathBuf>, args: &[&str]) -> Self {
        Self {
            dir: dir.into(),
            host: host.into(),
            host_args: args.iter().map(OsString::from).collect(),
            env: BTreeMap::new(),
            options: Options::default(),
        }
    }
}

/// The sort of runner that `plugin` names.
#[derive(Debug, Clone)]
pub struct Plugins {
    setup: Arc<Setup>,
    catalog: Arc<Catalog>,
}

impl Plugins {
    /// Plugins that are set up so. Nothing is looked at, loaded or started yet.
    pub fn new(setup: Setup) -> Self {
        Self { setup: Arc::new(setup), catalog: Arc::default() }
    }
}

impl Maker for Plugins {
    fn name(&self) -> &'static str {
        "plugin"
    }

    fn needs_leave(&self) -> bool {
        true
    }

    fn check(&self, settings: &Value) -> Result<(), Invalid> {
        Settings::read(settings).map(drop)
    }

    fn make<'a>(&'a self, settings: &'a Value) -> Making<'a> {
        Box::pin(async move {
            let settings = Settings::read(settings)?;
            let library = self.catalog.find(&settings.plugin, &self.setup).await?;
            let pooled = Pooled::start(library, self.setup.clone(), settings).await?;
            Ok(Box::new(pooled) as _)
        })
    }
}
