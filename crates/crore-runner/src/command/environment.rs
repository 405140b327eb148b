//! What a program finds in its environment: of the host's only what is harmless or named.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;

use crore_core::{Code, Invalid};

use super::mark::Mark;
use super::settings::Settings;
use crate::mask::Masks;
use crate::runner::{Failure, Task};

/// What every program is given of the host's environment.
const ALWAYS: [&str; 2] = ["HOME", "LANG"];

/// Where programs are looked for: on the host's `PATH`, or where they usually are if it has none.
pub(super) fn path() -> OsString {
    env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into())
}

/// The variable that marks whatever a run starts.
pub(super) const MARK: &str = "CRORE_RUN";

/// What crore itself says, and a handler may not.
const OURS: [&str; 5] = ["CRORE_JOB", "CRORE_KIND", "CRORE_ATTEMPT", "TRACEPARENT", MARK];

/// The environment of a program, and what of it is to be told to nobody.
#[derive(Debug, Default)]
pub(super) struct Environment {
    pub(super) variables: BTreeMap<String, OsString>,
    pub(super) masks: Masks,
}

/// Checks that a text can be the name of a variable that a handler sets.
pub(super) fn check_name(field: &str, name: &str) -> Result<(), Invalid> {
    let problem = if name.is_empty() || name.contains(['=', '\0']) {
        "is no name of a variable"
    } else if OURS.contains(&name) {
        "is set by crore itself"
    } else {
        return Ok(());
    };
    Err(Invalid::new(Code::Malformed, field, format!("`{name}` {problem}")))
}

impl Environment {
    /// Looks everything up, now.
    pub(super) fn look_up(settings: &Settings, task: &Task, mark: Mark) -> Result<Self, Failure> {
        let mut all = Self::default();
        let inherited = ALWAYS.into_iter().chain(settings.inherit.iter().map(String::as_str));
        for name in inherited {
            if let Some(value) = env::var_os(name) {
                all.variables.insert(name.to_owned(), value);
            }
        }
        all.variables.insert("PATH".to_owned(), path());
        for (name, secret) in &settings.env {
            let value = secret.resolve()?;
            if value.contains('\0') {
                let message = format!("settings.env.{name}: the secret contains a zero byte");
                return Err(Failure::fatal(message).with("reason", "secret"));
            }
            if secret.is_reference() {
                all.masks.add(&value);
            }
            all.variables.insert(name.clone(), value.into());
        }
        all.say(task, mark);
        Ok(all)
    }

    fn say(&mut self, task: &Task, mark: Mark) {
        let mut put =
            |name: &str, value: String| self.variables.insert(name.to_owned(), value.into());
        put("CRORE_JOB", task.job.to_string());
        put("CRORE_KIND", task.kind.to_string());
        put("CRORE_ATTEMPT", task.attempt.to_string());
        put(MARK, mark.text());
        if let Some(trace) = &task.trace {
            put("TRACEPARENT", trace.to_string());
        }
    }
}
