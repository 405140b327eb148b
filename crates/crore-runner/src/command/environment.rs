//! The environment of a program. It inherits from the host only harmless or explicitly named variables.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;

use crore_core::{Code, Invalid};

use super::mark::RunMark;
use super::settings::CommandSettings;
use crate::mask::Masks;
use crate::runner::{RunFailure, Task};

/// Variables that every program inherits from the host.
const ALWAYS_INHERITED: [&str; 2] = ["HOME", "LANG"];

/// Whether every program has this variable of the host.
pub(super) fn is_always_inherited(name: &str) -> bool {
    name == "PATH" || ALWAYS_INHERITED.contains(&name)
}

/// The host's `PATH`, or the usual directories if it has none.
pub(super) fn path() -> OsString {
    env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into())
}

/// The variable that marks all processes of a run.
pub(super) const MARK_VARIABLE: &str = "CRORE_RUN";

/// Variables that crore sets; a handler may not set them.
const RESERVED: [&str; 5] =
    ["CRORE_JOB", "CRORE_KIND", "CRORE_ATTEMPT", "TRACEPARENT", MARK_VARIABLE];

/// The environment of a program, and the secrets in it that must be masked.
#[derive(Debug, Default)]
pub(super) struct Environment {
    pub(super) variables: BTreeMap<String, OsString>,
    pub(super) masks: Masks,
}

/// Checks the name of a variable that a handler sets.
pub(super) fn check_name(field: &str, name: &str) -> Result<(), Invalid> {
    let problem = if name.is_empty() || name.contains(['=', '\0']) {
        "is not a variable name"
    } else if RESERVED.contains(&name) {
        "is set by crore itself"
    } else {
        return Ok(());
    };
    Err(Invalid::new(Code::Malformed, field, format!("`{name}` {problem}")))
}

impl Environment {
    /// Resolves all variables and secrets now.
    pub(super) fn resolve(
        settings: &CommandSettings,
        task: &Task,
        mark: RunMark,
    ) -> Result<Self, RunFailure> {
        let mut all = Self::default();
        let inherited =
            ALWAYS_INHERITED.into_iter().chain(settings.inherit.iter().map(String::as_str));
        for name in inherited {
            if let Some(value) = env::var_os(name) {
                if !is_always_inherited(name) {
                    all.masks.add(&value.to_string_lossy());
                }
                all.variables.insert(name.to_owned(), value);
            }
        }
        all.variables.insert("PATH".to_owned(), path());
        for (name, secret) in &settings.env {
            let value = secret.resolve()?;
            if value.contains('\0') {
                let message = format!("settings.env.{name}: the secret contains a zero byte");
                return Err(RunFailure::fatal(message).with("reason", "secret"));
            }
            if secret.is_reference() {
                all.masks.add(&value);
            }
            all.variables.insert(name.clone(), value.into());
        }
        all.add_job_variables(task, mark);
        Ok(all)
    }

    fn add_job_variables(&mut self, task: &Task, mark: RunMark) {
        let mut put =
            |name: &str, value: String| self.variables.insert(name.to_owned(), value.into());
        put("CRORE_JOB", task.job.to_string());
        put("CRORE_KIND", task.kind.to_string());
        put("CRORE_ATTEMPT", task.attempt.to_string());
        put(MARK_VARIABLE, mark.text());
        if let Some(trace) = &task.trace {
            put("TRACEPARENT", trace.to_string());
        }
    }
}
