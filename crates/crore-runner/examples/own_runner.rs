//! Implements a runner: jobs of the kind `greet` return a greeting, with the word from the settings of their
//! handler.
//!
//! `cargo run -p crore-runner --example own_runner`

use crore_core::{Delivery, Encoding, Invalid, JobId, Name, Payload, Time};
use crore_runner::{
    MakeFuture, Output, RunContext, RunFailure, RunFuture, RunSpec, Runner, RunnerFactory, Runners,
    Task, read,
};
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// The settings; `read` refuses unknown fields.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Greeting {
    word: String,
}

impl Runner for Greeting {
    fn run<'a>(&'a self, task: &'a Task, context: &'a RunContext) -> RunFuture<'a> {
        Box::pin(async move {
            let name = std::str::from_utf8(&task.payload.bytes).map_err(RunFailure::fatal)?;
            context.line(format!("greeting {name}"));
            Ok(Output::bytes(format!("{}, {name}!", self.word)))
        })
    }
}

/// The runner type: makes greetings from settings.
#[derive(Debug)]
struct Greetings;

impl RunnerFactory for Greetings {
    fn name(&self) -> &'static str {
        "greeting"
    }

    fn must_be_allowed(&self) -> bool {
        false
    }

    fn check(&self, settings: &Value) -> Result<(), Invalid> {
        read::<Greeting>(settings).map(drop)
    }

    fn make<'a>(&'a self, settings: &'a Value) -> MakeFuture<'a> {
        Box::pin(async move { Ok(Box::new(read::<Greeting>(settings)?) as Box<dyn Runner>) })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runners = Runners::new().with(Greetings);
    let settings = serde_json::json!({ "word": "Hello" });
    let recipe = RunSpec { revision: 1, runner: "greeting", settings: &settings, pool: None };
    let task = Task {
        store: "feed".into(),
        job: JobId(1),
        delivery: Delivery(1),
        kind: Name::new("kind", "greet")?,
        attempt: 1,
        pushed_at: Time::from_millis(5),
        payload: Payload::new(Encoding::Text, *b"world").into(),
        timeout: None,
        trace: None,
    };
    let context = RunContext::new(CancellationToken::new(), |message| println!("{message:?}"));
    let output = runners.run(recipe, &task, &context).await?;
    println!("{}", String::from_utf8_lossy(&output.items[0].bytes));
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_example_of_a_custom_runner_runs() {
        super::main().expect("it succeeds");
    }
}
