use crore_core::handler::KEEP_RESULT;
use crore_wire::words::Period;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// How this door is set up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Options {
    /// How long results are kept.
    pub keep_results: Period,
    /// What the built-in worker −1 does; without it, those who name it are told nothing.
    pub slack: Option<Slack>,
}

impl Default for Options {
    fn default() -> Self {
        Self { keep_results: Period(KEEP_RESULT), slack: None }
    }
}

/// What the built-in worker −1 does.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Slack {
    /// The settings of the runner `slack`. Secrets stand in them as `env:NAME` or `file:/path`.
    pub settings: Map<String, Value>,
    /// Whether it is told of jobs that went well.
    pub on_success: bool,
    /// Whether it is told of jobs that failed for good.
    pub on_failure: bool,
}
