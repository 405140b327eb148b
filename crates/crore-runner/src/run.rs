//! One run of a job by the runner of its handler.

use std::any::Any;
use std::future::poll_fn;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use serde_json::Value;

use crate::context::RunContext;
use crate::runner::{Output, RunFailure, Runner, RunnerFactory, Task};
use crate::runners::Runners;

/// The parts of a handler that say how its jobs run.
#[derive(Debug, Clone, Copy)]
pub struct RunSpec<'a> {
    /// Revision of the handler. A pool of a later revision replaces that of an earlier one.
    pub revision: u64,
    /// Name of the runner type.
    pub runner: &'a str,
    /// Settings of the runner, read when a runner is made.
    pub settings: &'a Value,
    /// Size of the pool; without one, each job gets a runner of its own.
    pub pool: Option<NonZeroUsize>,
}

impl Runners {
    /// Runs a job. Checks again that the runner is allowed: the server that stored the handler may
    /// allow more than this host. A panic of a runner fails its job alone.
    pub async fn run(
        &self,
        recipe: RunSpec<'_>,
        task: &Task,
        context: &RunContext,
    ) -> Result<Output, RunFailure> {
        let maker = self.factory(recipe.runner).map_err(|invalid| {
            let code = invalid.code.as_str();
            RunFailure::fatal(invalid).with("reason", code)
        })?;
        let pool =
            recipe.pool.and_then(|size| self.pools.pool_for(&task.kind, recipe.revision, size));
        let Some(pool) = pool else {
            let runner = make(maker, recipe.settings, context).await?;
            let run = async { runner.run(task, context).await };
            return catch_panic(recipe.runner, run).await.unwrap_or_else(Err);
        };
        let mut place = pool.acquire(context).await?;
        let runner = match place.free.take() {
            Some(runner) => runner,
            None => make(maker, recipe.settings, context).await?,
        };
        let ran = catch_panic(recipe.runner, async { runner.run(task, context).await }).await;
        if ran.is_ok() {
            place.give_back(runner);
        }
        ran.unwrap_or_else(Err)
    }
}

/// Makes a runner, unless the run must stop first.
async fn make(
    maker: &Arc<dyn RunnerFactory>,
    settings: &Value,
    context: &RunContext,
) -> Result<Box<dyn Runner>, RunFailure> {
    tokio::select! {
        biased;
        () = context.stopped() => Err(RunFailure::stopped()),
        made = catch_panic(maker.name(), async { maker.make(settings).await }) => made.unwrap_or_else(Err),
    }
}

/// Awaits a future and turns its panic into an error.
async fn catch_panic<T>(runner: &str, future: impl Future<Output = T>) -> Result<T, RunFailure> {
    let mut future = pin!(future);
    let panicked = |panic: Box<dyn Any + Send>| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        RunFailure::other(format!("the runner `{runner}` panicked: {text}")).with("reason", "panic")
    };
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
        Ok(Poll::Pending) => Poll::Pending,
        Err(panic) => Poll::Ready(Err(panicked(panic))),
    })
    .await
}
