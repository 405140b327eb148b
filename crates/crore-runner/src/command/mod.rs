//! The command runner: a job is one run of a program on the host.
//!
//! `settings`, `program`, `arguments`, `environment`, `code_variables` and `limits` prepare a run. `leader`, `mark`,
//! `tree`, `pid_scan` and `guard` start it and end all of its processes. `streams` and `output` handle its standard
//! streams, and `report` its failures.

mod arguments;
mod code_variables;
mod environment;
mod guard;
mod leader;
mod limits;
mod mark;
mod pid_scan;
mod program;
mod report;
mod run;
mod settings;
mod streams;
mod tree;

use std::sync::Arc;

use crore_core::Invalid;
use serde_json::Value;

pub use self::limits::CommandLimits;
use self::settings::CommandSettings;
use crate::context::RunContext;
use crate::options::Options;
use crate::runner::{MakeFuture, RunFuture, Runner, RunnerFactory, Task};

/// The runner type `command`: runs programs on the host.
#[derive(Debug, Default)]
pub struct CommandFactory {
    options: Arc<Options>,
}

impl CommandFactory {
    /// Restricted by the options of the operator.
    pub fn new(options: Options) -> Self {
        Self { options: Arc::new(options) }
    }
}

impl RunnerFactory for CommandFactory {
    fn name(&self) -> &'static str {
        "command"
    }

    fn must_be_allowed(&self) -> bool {
        true
    }

    fn check(&self, settings: &Value) -> Result<(), Invalid> {
        CommandSettings::read(settings, &self.options).map(drop)
    }

    fn make<'a>(&'a self, settings: &'a Value) -> MakeFuture<'a> {
        Box::pin(async move {
            let settings = Arc::new(CommandSettings::read(settings, &self.options)?);
            let runner: Box<dyn Runner> =
                Box::new(Program { settings, options: Arc::clone(&self.options) });
            Ok(runner)
        })
    }
}

/// A program with its settings.
#[derive(Debug)]
struct Program {
    settings: Arc<CommandSettings>,
    options: Arc<Options>,
}

impl Runner for Program {
    fn run<'a>(&'a self, task: &'a Task, context: &'a RunContext) -> RunFuture<'a> {
        Box::pin(run::run(&self.settings, &self.options, task, context))
    }
}
