//! The plugin runner: dynamic libraries of the operator, each in a child process.
//!
//! ```text
//! settings   settings of a handler          catalog   finds the library of a plugin
//! child      the process, and its calls     runner    reuses a child, or starts another
//! group      ends the process group
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
use crate::runner::{MakeFuture, RunnerFactory};
use catalog::Catalog;
use runner::PluginRunner;
use settings::PluginSettings;

/// Location of plugins, and how their child processes start.
#[derive(Debug, Clone)]
pub struct PluginSetup {
    /// Directory of the `.so` files. No other user may write to it or to them.
    pub dir: PathBuf,
    /// Program of the child process. The path of the library is appended to its arguments.
    pub host: PathBuf,
    /// First arguments of that program, which make it act as a plugin host.
    pub host_args: Vec<OsString>,
    /// The whole environment of the child.
    pub env: BTreeMap<String, String>,
    /// The operator's options.
    pub options: Options,
}

impl PluginSetup {
    /// Plugins in `dir`; each child runs `host` with `args`.
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

/// The runner type `plugin`.
#[derive(Debug, Clone)]
pub struct PluginFactory {
    setup: Arc<PluginSetup>,
    catalog: Arc<Catalog>,
}

impl PluginFactory {
    /// Plugins with this setup. Nothing is loaded or started yet.
    pub fn new(setup: PluginSetup) -> Self {
        Self { setup: Arc::new(setup), catalog: Arc::default() }
    }
}

impl RunnerFactory for PluginFactory {
    fn name(&self) -> &'static str {
        "plugin"
    }

    fn must_be_allowed(&self) -> bool {
        true
    }

    fn check(&self, settings: &Value) -> Result<(), Invalid> {
        PluginSettings::read(settings).map(drop)
    }

    fn make<'a>(&'a self, settings: &'a Value) -> MakeFuture<'a> {
        Box::pin(async move {
            let settings = PluginSettings::read(settings)?;
            let library = self.catalog.find(&settings.plugin, &self.setup).await?;
            let pooled = PluginRunner::start(library, self.setup.clone(), settings).await?;
            Ok(Box::new(pooled) as _)
        })
    }
}
