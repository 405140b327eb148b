//! The registry of runner types, and which of them the operator allows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crore_core::{Code, Handler, Invalid};
use futures_util::future::join_all;
use serde_json::Value;

use crate::pool::Pools;
use crate::runner::RunnerFactory;

/// The registry of runner types. Clones share the pools of runners.
#[derive(Debug, Clone, Default)]
pub struct Runners {
    factories: BTreeMap<&'static str, Arc<dyn RunnerFactory>>,
    allowed: BTreeSet<String>,
    /// Types that are missing because a setting is, with what to do about it.
    unconfigured: BTreeMap<&'static str, &'static str>,
    pub(crate) pools: Arc<Pools>,
}

impl Runners {
    /// An empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a type; replaces one of the same name.
    #[must_use]
    pub fn with(mut self, maker: impl RunnerFactory + 'static) -> Self {
        self.factories.insert(maker.name(), Arc::new(maker));
        self
    }

    /// Names a type that is missing because of the configuration, with what to do about it.
    #[must_use]
    pub fn unconfigured(mut self, name: &'static str, remedy: &'static str) -> Self {
        self.unconfigured.insert(name, remedy);
        self
    }

    /// Allows a type that must be allowed by name.
    #[must_use]
    pub fn allow(mut self, name: impl Into<String>) -> Self {
        self.allowed.insert(name.into());
        self
    }

    /// The type of this name. An error says how to allow a type that is not allowed.
    pub fn factory(&self, name: &str) -> Result<&Arc<dyn RunnerFactory>, Invalid> {
        let Some(maker) = self.factories.get(name) else {
            if let Some(remedy) = self.unconfigured.get(name) {
                let message = format!("runner `{name}` is not configured; {remedy}");
                return Err(Invalid::new(Code::RunnerForbidden, "runner", message));
            }
            let known: Vec<_> = self.factories.keys().copied().collect();
            let message = format!("unknown runner `{name}`; expected one of {}", known.join(", "));
            return Err(Invalid::new(Code::RunnerUnknown, "runner", message));
        };
        if maker.must_be_allowed() && !self.allowed.contains(name) {
            let message = format!(
                "runner `{name}` is not allowed; allow it with `--allow-runner {name}` or \
                 `runners.allow = [\"{name}\"]` in the configuration"
            );
            return Err(Invalid::new(Code::RunnerForbidden, "runner", message));
        }
        Ok(maker)
    }

    /// The names of the types that may be used.
    pub fn usable(&self) -> Vec<String> {
        self.factories
            .keys()
            .filter(|name| self.factory(name).is_ok())
            .map(ToString::to_string)
            .collect()
    }

    /// Calls [`RunnerFactory::prepare`] of every type that may be used.
    pub(crate) async fn prepare(&self) {
        let usable = self.usable();
        let makers = usable.iter().filter_map(|name| self.factory(name).ok());
        join_all(makers.map(|maker| maker.prepare())).await;
    }

    /// Whether a handler can run here: its runner exists, is allowed and accepts the settings.
    pub fn check(&self, handler: &Handler) -> Result<(), Invalid> {
        let maker = self.factory(handler.runner.as_str())?;
        maker.check(&Value::Object(handler.settings.clone()))
    }
}
