//! A runner that reuses its child for many jobs, and starts another if the child is gone.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use crore_core::Encoding;
use tokio::runtime::Handle;
use tokio::sync::Mutex;

use super::PluginSetup;
use super::child::{Child, PluginCall, PluginOutcome};
use super::settings::PluginSettings;
use crate::context::RunContext;
use crate::runner::{EncodedBytes, Output, RunFailure, RunFuture, Runner, Task};

/// One child, which runs one job at a time.
#[derive(Debug)]
pub(super) struct PluginRunner {
    library: PathBuf,
    setup: Arc<PluginSetup>,
    settings: PluginSettings,
    /// Empty during a run, so that a dropped run drops its child.
    child: Mutex<Option<Child>>,
}

impl PluginRunner {
    /// Starts the child at once, so that an unusable library is reported now.
    pub(super) async fn start(
        library: PathBuf,
        setup: Arc<PluginSetup>,
        settings: PluginSettings,
    ) -> Result<Self, RunFailure> {
        let child = Mutex::new(Some(Child::start(&library, &setup).await?));
        Ok(Self { library, setup, settings, child })
    }

    async fn start_child(&self, context: &RunContext) -> Result<Child, RunFailure> {
        tokio::select! {
            biased;
            () = context.stopped() => Err(RunFailure::stopped()),
            started = Child::start(&self.library, &self.setup) => started,
        }
    }

    fn grace(&self) -> Duration {
        let most = self.setup.options.plugin_grace;
        let grace = self.settings.grace.map_or(most, |period| period.0.min(most));
        Duration::from_millis(grace.as_millis())
    }
}

impl Runner for PluginRunner {
    fn run<'a>(&'a self, task: &'a Task, context: &'a RunContext) -> RunFuture<'a> {
        Box::pin(async move {
            let mut slot = self.child.lock().await;
            if context.is_stopped() {
                return Err(RunFailure::stopped());
            }
            let kept = slot.take().and_then(Child::if_alive);
            let mut child = match kept {
                Some(child) => child,
                None => self.start_child(context).await?,
            };
            let call = PluginCall {
                argument: task.payload.bytes.clone(),
                max_output: self.settings.max_output.0,
                grace: self.grace(),
            };
            match child.call(call, context).await {
                PluginOutcome::ChildLost(failure) => Err(failure),
                PluginOutcome::Failed(failure) => {
                    *slot = Some(child);
                    Err(failure)
                }
                PluginOutcome::Done(items) => {
                    *slot = Some(child);
                    Ok(Output { items: items.into_iter().map(item).collect() })
                }
            }
        })
    }
}

impl Drop for PluginRunner {
    /// Lets an idle child clean up. Without a runtime nothing can wait for that, and the child is killed at
    /// once.
    fn drop(&mut self) {
        if let (Some(child), Ok(runtime)) = (self.child.get_mut().take(), Handle::try_current()) {
            runtime.spawn(child.release());
        }
    }
}

fn item(bytes: Bytes) -> EncodedBytes {
    let is_text = std::str::from_utf8(&bytes).is_ok();
    EncodedBytes { encoding: if is_text { Encoding::Text } else { Encoding::Bytes }, bytes }
}
