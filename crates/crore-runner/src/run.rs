//! One run of a job by the runner of its handler.

use std::any::Any;
use std::future::poll_fn;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use serde_json::Value;

use crate::context::Context;
use crate::runner::{Failure, Maker, Output, Runner, Task};
use crate::runners::Runners;

/// What a handler says of how its jobs are run.
#[derive(Debug, Clone, Copy)]
pub struct Recipe<'a> {
    /// Which definition of the handler this is: a greater one takes the place of a smaller.
    pub revision: u64,
    /// The sort of runner.
    pub runner: &'a str,
    /// Its settings; read when a runner is made.
    pub settings: &'a Value,
    /// How many runners its jobs share, if they are pooled; else each job has one of its own.
    pub pool: Option<NonZeroUsize>,
}

impl Runners {
    /// Runs a job. Runners that are not allowed are refused, here too: what is allowed where a
    /// handler is defined need not be where it is run. A runner that panics costs its job alone.
    pub async fn run(
        &self,
        recipe: Recipe<'_>,
        task: &Task,
        context: &Context,
    ) -> Result<Output, Failure> {
        let maker = self.maker(recipe.runner).map_err(|invalid| {
            let code = invalid.code.as_str();
            Failure::fatal(invalid).with("reason", code)
        })?;
        let pool = recipe.pool.and_then(|size| self.pools.of(&task.kind, recipe.revision, size));
        let Some(pool) = pool else {
            let runner = make(maker, recipe.settings, context).await?;
            let run = async { runner.run(task, context).await };
            return caught(recipe.runner, run).await.unwrap_or_else(Err);
        };
        let mut place = pool.place(context).await?;
        let runner = match place.free.take() {
            Some(runner) => runner,
            None => make(maker, recipe.settings, context).await?,
        };
        let ran = caught(recipe.runner, async { runner.run(task, context).await }).await;
        if ran.is_ok() {
            place.give_back(runner);
        }
        ran.unwrap_or_else(Err)
    }
}

/// Makes a runner, unless the run is to stop first.
async fn make(
    maker: &Arc<dyn Maker>,
    settings: &Value,
    context: &Context,
) -> Result<Box<dyn Runner>, Failure> {
    tokio::select! {
        biased;
        () = context.stopped() => Err(Failure::stopped()),
        made = caught(maker.name(), async { maker.make(settings).await }) => made.unwrap_or_else(Err),
    }
}

/// Waits for a future that may panic: a panic is the error.
async fn caught<T>(runner: &str, future: impl Future<Output = T>) -> Result<T, Failure> {
    let mut future = pin!(future);
    let panicked = |panic: Box<dyn Any + Send>| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no words");
        Failure::other(format!("the runner `{runner}` panicked: {text}")).with("reason", "panic")
    };
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
        Ok(Poll::Pending) => Poll::Pending,
        Err(panic) => Poll::Ready(Err(panicked(panic))),
    })
    .await
}
