//! Commands: a job is a run of a program of the host.
//!
//! The pipeline of a run: what it is to be (`settings`, `program`, `arguments`, `environment`,
//! `limits`), its start and its end with everything that it has started (`leader`, `mark`, `tree`,
//! `reach`, `guard`), what goes in and comes out (`streams`, `output`), and what is told of it
//! (`report`).

mod arguments;
mod environment;
mod guard;
mod leader;
mod limits;
mod mark;
mod program;
mod reach;
mod report;
mod run;
mod settings;
mod streams;
mod tree;

use std::sync::Arc;

use crore_core::Invalid;
use serde_json::Value;

pub use self::limits::Limits;
use self::settings::Settings;
use crate::context::Context;
use crate::options::Options;
use crate::runner::{Maker, Making, Runner, Running, Task};

/// The sort of runner that runs programs of the host.
#[derive(Debug, Default)]
pub struct Command {
    options: Arc<Options>,
}

impl Command {
    /// With what the operator allows.
    pub fn new(options: Options) -> Self {
        Self { options: Arc::new(options) }
    }
}

impl Maker for Command {
    fn name(&self) -> &'static str {
        "command"
    }

    fn needs_leave(&self) -> bool {
        true
    }

    fn check(&self, settings: &Value) -> Result<(), Invalid> {
        Settings::read(settings, &self.options).map(drop)
    }

    fn make<'a>(&'a self, settings: &'a Value) -> Making<'a> {
        Box::pin(async move {
            let settings = Arc::new(Settings::read(settings, &self.options)?);
            let runner: Box<dyn Runner> =
                Box::new(Program { settings, options: Arc::clone(&self.options) });
            Ok(runner)
        })
    }
}

/// A program with its settings.
#[derive(Debug)]
struct Program {
    settings: Arc<Settings>,
    options: Arc<Options>,
}

impl Runner for Program {
    fn run<'a>(&'a self, task: &'a Task, context: &'a Context) -> Running<'a> {
        Box::pin(run::run(&self.settings, &self.options, task, context))
    }
}
