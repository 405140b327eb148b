//! Flags of a retry policy, for jobs and for handlers.

use clap::Args;
use crore_wire::api::retry::Backoff;
use crore_wire::units::Period;
use serde_json::{Value, json};

use super::super::object_of;
use super::super::word::word;

/// Without any of them, a job has the policy of its kind's handler, or the default.
#[derive(Debug, Clone, Args)]
pub(crate) struct RetryArgs {
    /// Maximum number of attempts [default: 20]
    #[arg(long, help_heading = "Retries", value_name = "N")]
    attempts: Option<u32>,
    /// Back-off: none, constant, linear, exponential, polynomial [default: exponential]
    #[arg(long, help_heading = "Retries", value_name = "SHAPE", value_parser = word::<Backoff>)]
    backoff: Option<Backoff>,
    /// First delay of the back-off [default: 1s]
    #[arg(long, help_heading = "Retries", value_name = "DURATION")]
    base: Option<Period>,
    /// Factor of an exponential back-off [default: 2]
    #[arg(long, help_heading = "Retries", value_name = "FACTOR")]
    factor: Option<f64>,
    /// Maximum delay of the back-off [default: 1h]
    #[arg(long, help_heading = "Retries", value_name = "DURATION")]
    max_interval: Option<Period>,
    /// Jitter of the delays in percent [default: 10]
    #[arg(long, help_heading = "Retries", value_name = "PERCENT")]
    jitter: Option<u8>,
}

impl RetryArgs {
    /// The policy as an object of the API, if any flag is set.
    pub(crate) fn object(&self) -> Option<Value> {
        let policy = object_of([
            ("max_attempts", self.attempts.map(Into::into)),
            ("backoff", self.backoff.map(|backoff| json!(backoff))),
            ("base", self.base.map(|base| json!(base))),
            ("factor", self.factor.map(Into::into)),
            ("max_interval", self.max_interval.map(|max| json!(max))),
            ("jitter", self.jitter.map(Into::into)),
        ]);
        (policy != json!({})).then_some(policy)
    }
}
