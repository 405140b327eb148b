//! A runner that keeps its child from one job to the next, and starts another if it is gone.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use crore_core::Encoding;
use tokio::runtime::Handle;
use tokio::sync::Mutex;

use super::Setup;
use super::child::{Call, Called, Child};
use super::settings::Settings;
use crate::context::Context;
use crate::runner::{Failure, Item, Output, Runner, Running, Task};

/// One child, which runs one job at a time.
#[derive(Debug)]
pub(super) struct Pooled {
    library: PathBuf,
    setup: Arc<Setup>,
    settings: Settings,
    /// Not there while a job is run: who is dropped halfway takes it along.
    child: Mutex<Option<Child>>,
}

impl Pooled {
    /// Starts the child, so that a library that is no plugin is told now.
    pub(super) async fn start(
        library: PathBuf,
        setup: Arc<Setup>,
        settings: Settings,
    ) -> Result<Self, Failure> {
        let child = Mutex::new(Some(Child::start(&library, &setup).await?));
        Ok(Self { library, setup, settings, child })
    }

    async fn fresh(&self, context: &Context) -> Result<Child, Failure> {
        tokio::select! {
            biased;
            () = context.stopped() => Err(Failure::stopped()),
            started = Child::start(&self.library, &self.setup) => started,
        }
    }

    fn grace(&self) -> Duration {
        let most = self.setup.options.plugin_grace;
        let grace = self.settings.grace.map_or(most, |period| period.0.min(most));
        Duration::from_millis(grace.as_millis())
    }
}

impl Runner for Pooled {
    fn run<'a>(&'a self, task: &'a Task, context: &'a Context) -> Running<'a> {
        Box::pin(async move {
            let mut slot = self.child.lock().await;
            if context.is_stopped() {
                return Err(Failure::stopped());
            }
            let kept = slot.take().and_then(Child::if_there);
            let mut child = match kept {
                Some(child) => child,
                None => self.fresh(context).await?,
            };
            let call = Call {
                argument: task.payload.bytes.clone(),
                max_output: self.settings.max_output.0,
                grace: self.grace(),
            };
            match child.call(call, context).await {
                Called::Gone(failure) => Err(failure),
                Called::Failed(failure) => {
                    *slot = Some(child);
                    Err(failure)
                }
                Called::Done(items) => {
                    *slot = Some(child);
                    Ok(Output { items: items.into_iter().map(item).collect() })
                }
            }
        })
    }
}

impl Drop for Pooled {
    /// An idle child may free what it has; without a runtime there is nobody to wait for that, and it
    /// is ended at once.
    fn drop(&mut self) {
        if let (Some(child), Ok(runtime)) = (self.child.get_mut().take(), Handle::try_current()) {
            runtime.spawn(child.let_go());
        }
    }
}

fn item(bytes: Bytes) -> Item {
    let is_text = std::str::from_utf8(&bytes).is_ok();
    Item { encoding: if is_text { Encoding::Text } else { Encoding::Bytes }, bytes }
}
