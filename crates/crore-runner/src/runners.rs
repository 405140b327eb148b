//! All sorts of runners that there are, and which of them may be used.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crore_core::{Code, Handler, Invalid};
use futures_util::future::join_all;
use serde_json::Value;

use crate::pool::Pools;
use crate::runner::Maker;

/// The sorts of runners that there are, and which of them the operator allows. Clones share the
/// runners that are pooled.
#[derive(Debug, Clone, Default)]
pub struct Runners {
    makers: BTreeMap<&'static str, Arc<dyn Maker>>,
    allowed: BTreeSet<String>,
    pub(crate) pools: Arc<Pools>,
}

impl Runners {
    /// None at all.
    pub fn new() -> Self {
        Self::default()
    }

    /// With one more sort; one of the same name is replaced.
    #[must_use]
    pub fn with(mut self, maker: impl Maker + 'static) -> Self {
        self.makers.insert(maker.name(), Arc::new(maker));
        self
    }

    /// With leave for a sort that needs it.
    #[must_use]
    pub fn allow(mut self, name: impl Into<String>) -> Self {
        self.allowed.insert(name.into());
        self
    }

    /// The sort of this name, if it may be used; the refusal says what would allow it.
    pub fn maker(&self, name: &str) -> Result<&Arc<dyn Maker>, Invalid> {
        let Some(maker) = self.makers.get(name) else {
            let known: Vec<_> = self.makers.keys().copied().collect();
            let message = format!("`{name}` is no runner; there are {}", known.join(", "));
            return Err(Invalid::new(Code::RunnerUnknown, "runner", message));
        };
        if maker.needs_leave() && !self.allowed.contains(name) {
            let message = format!(
                "the runner `{name}` is not allowed here; `--allow-runner {name}`, or \
                 `runners.allow = [\"{name}\"]` in the configuration, allows it"
            );
            return Err(Invalid::new(Code::RunnerForbidden, "runner", message));
        }
        Ok(maker)
    }

    /// The names of all that may be used.
    pub fn usable(&self) -> Vec<String> {
        self.makers
            .keys()
            .filter(|name| self.maker(name).is_ok())
            .map(ToString::to_string)
            .collect()
    }

    /// Lets every sort that may be used begin.
    pub(crate) async fn begin(&self) {
        let usable = self.usable();
        let makers = usable.iter().filter_map(|name| self.maker(name).ok());
        join_all(makers.map(|maker| maker.begin())).await;
    }

    /// Whether a handler can be had: its runner exists, may be used, and understands its settings.
    pub fn check(&self, handler: &Handler) -> Result<(), Invalid> {
        let maker = self.maker(handler.runner.as_str())?;
        maker.check(&Value::Object(handler.settings.clone()))
    }
}
