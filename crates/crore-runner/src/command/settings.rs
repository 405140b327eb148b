//! What a handler says of a command.

use std::collections::BTreeMap;

use crore_core::{Code, Invalid, Span};
use crore_wire::words::{Period, Size};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::environment::check_name;
use super::limits::Limits;
use super::program;
use crate::options::Options;
use crate::output::{Stderr, Success, grace, max_output};
use crate::secret::Secret;

/// The settings of a handler whose jobs are commands.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Settings {
    /// A name, an absolute path, or a script.
    pub(super) program: String,
    #[serde(default)]
    pub(super) args: Vec<String>,
    #[serde(default)]
    pub(super) payload: Give,
    #[serde(default)]
    pub(super) env: BTreeMap<String, Secret>,
    #[serde(default)]
    pub(super) inherit: Vec<String>,
    #[serde(default)]
    pub(super) dir: Option<String>,
    #[serde(default)]
    pub(super) success: Success,
    #[serde(default)]
    pub(super) shell: bool,
    #[serde(default)]
    pub(super) stderr: Stderr,
    #[serde(default = "five_seconds")]
    pub(super) grace: Period,
    #[serde(default = "one_mebibyte")]
    pub(super) max_output: Size,
    #[serde(default)]
    pub(super) limits: Limits,
}

/// How a program is given the payload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Give {
    #[default]
    Stdin,
    /// Each line is an argument, trimmed; blank ones are dropped.
    Lines,
    /// It is a JSON array of strings, and each is an argument.
    Args,
    None,
}

fn five_seconds() -> Period {
    Period(Span::from_secs(5))
}

fn one_mebibyte() -> Size {
    Size(1 << 20)
}

impl Settings {
    /// Reads and checks them. Whether a program that is only named may be run is known where it is
    /// looked up, when it is run.
    pub(super) fn read(settings: &Value, options: &Options) -> Result<Self, Invalid> {
        let said = settings;
        let mut settings: Self = crate::settings::read(said)?;
        settings.check_texts()?;
        settings.check_environment(options)?;
        settings.check_leave(options)?;
        settings.limits = settings.limits.within(options.command_limits())?;
        settings.max_output = max_output(said, settings.max_output, options.max_output)?;
        settings.grace = grace(said, settings.grace, options.max_grace)?;
        Ok(settings)
    }

    /// A zero byte would end what the system takes for the text.
    fn check_texts(&self) -> Result<(), Invalid> {
        let args = self.args.iter().enumerate();
        let texts = args
            .map(|(i, arg)| (format!("settings.args[{i}]"), arg))
            .chain(self.dir.iter().map(|dir| ("settings.dir".to_owned(), dir)))
            .chain([("settings.program".to_owned(), &self.program)]);
        for (field, text) in texts {
            if text.contains('\0') {
                return Err(Invalid::new(Code::Malformed, field, "contains a zero byte"));
            }
        }
        if self.program.trim().is_empty() {
            let message = "a program must not be empty";
            return Err(Invalid::new(Code::Malformed, "settings.program", message));
        }
        Ok(())
    }

    fn check_environment(&self, options: &Options) -> Result<(), Invalid> {
        for (name, value) in &self.env {
            let field = format!("settings.env.{name}");
            check_name(&field, name)?;
            // Whoever may choose what is loaded into an allowed program may run anything.
            if name.starts_with("LD_") && !options.programs.is_empty() {
                let message =
                    format!("`{name}` would get round the programs that `runners.programs` allows");
                return Err(Invalid::new(Code::RunnerForbidden, field, message));
            }
            // The shell at the gate of limits may be one that takes these for commands.
            if name.starts_with("BASH_") || ["ENV", "SHELLOPTS", "PS4"].contains(&name.as_str()) {
                let message = format!("`{name}` would tell the shell that sets limits what to run");
                return Err(Invalid::new(Code::RunnerForbidden, field, message));
            }
            if !value.is_reference() && value.resolve().is_ok_and(|text| text.contains('\0')) {
                return Err(Invalid::new(Code::Malformed, field, "contains a zero byte"));
            }
        }
        for (i, name) in self.inherit.iter().enumerate() {
            check_name(&format!("settings.inherit[{i}]"), name)?;
        }
        Ok(())
    }

    fn check_leave(&self, options: &Options) -> Result<(), Invalid> {
        if self.shell && !options.shell {
            let message = "the operator does not allow scripts for a shell; `runners.shell = true` \
                           in the configuration allows them";
            return Err(Invalid::new(Code::RunnerForbidden, "settings.shell", message));
        }
        if !self.shell {
            program::check(&self.program, &options.programs)?;
        }
        match &self.dir {
            Some(dir) => program::check_dir(dir, &options.dirs),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::options::Count;

    fn refused(settings: &Value, options: &Options) -> (String, Code) {
        let invalid = Settings::read(settings, options).expect_err("it is wrong");
        (invalid.field.clone(), invalid.code)
    }

    #[test]
    fn each_mistake_names_its_field() {
        let cases = [
            (json!({}), "settings"),
            (json!({ "program": " " }), "settings.program"),
            (json!({ "program": "./ls" }), "settings.program"),
            (json!({ "program": "/usr/bin/../ls" }), "settings.program"),
            (json!({ "program": "ls", "args": ["a\0b"] }), "settings.args[0]"),
            (json!({ "program": "ls", "dir": "tmp" }), "settings.dir"),
            (json!({ "program": "ls", "dir": "/tmp/.." }), "settings.dir"),
            (json!({ "program": "ls", "env": { "A=B": "" } }), "settings.env.A=B"),
            (json!({ "program": "ls", "env": { "CRORE_RUN": "" } }), "settings.env.CRORE_RUN"),
            (json!({ "program": "ls", "env": { "A": "\0" } }), "settings.env.A"),
            (json!({ "program": "ls", "inherit": [""] }), "settings.inherit[0]"),
            (json!({ "program": "ls", "success": [] }), "settings.success"),
            (json!({ "program": "ls", "success": [256] }), "settings.success[0]"),
            (json!({ "program": "ls", "success": "all" }), "settings.success"),
            (json!({ "program": "ls", "grace": "5" }), "settings.grace"),
            (
                json!({ "program": "ls", "limits": { "memory": "1" , "cpu": 1 } }),
                "settings.limits.cpu",
            ),
            (json!({ "program": "ls", "payload": "file" }), "settings.payload"),
        ];
        for (settings, field) in cases {
            assert_eq!(refused(&settings, &Options::default()).0, field, "{settings}");
        }
    }

    #[test]
    fn what_the_operator_does_not_allow_is_refused_when_it_is_defined() {
        let programs = ["/usr/bin/*".parse().expect("a pattern")].into_iter().collect();
        let dirs = ["/srv/*".parse().expect("a pattern")].into_iter().collect();
        let command_cpu_seconds = Some(Count(5));
        let options = Options { programs, dirs, command_cpu_seconds, ..Options::default() };
        let cases = [
            (json!({ "program": "/bin/ls" }), "settings.program"),
            (json!({ "program": "ls", "shell": true }), "settings.shell"),
            (json!({ "program": "ls", "dir": "/etc" }), "settings.dir"),
            (json!({ "program": "ls", "max_output": "65MiB" }), "settings.max_output"),
            (json!({ "program": "ls", "grace": "2m" }), "settings.grace"),
            (
                json!({ "program": "ls", "limits": { "cpu_seconds": 6 } }),
                "settings.limits.cpu_seconds",
            ),
            (
                json!({ "program": "ls", "env": { "LD_PRELOAD": "/tmp/x" } }),
                "settings.env.LD_PRELOAD",
            ),
            (
                json!({ "program": "ls", "env": { "BASH_FUNC_kill%%": "() { id; }" } }),
                "settings.env.BASH_FUNC_kill%%",
            ),
        ];
        for (settings, field) in cases {
            let expected = (field.to_owned(), Code::RunnerForbidden);
            assert_eq!(refused(&settings, &options), expected, "{settings}");
        }
        for (settings, key) in [
            (json!({ "program": "/bin/ls" }), "`runners.programs`"),
            (json!({ "program": "ls", "shell": true }), "`runners.shell = true`"),
            (json!({ "program": "ls", "dir": "/etc" }), "`runners.dirs`"),
            (json!({ "program": "ls", "env": { "LD_A": "" } }), "`runners.programs`"),
        ] {
            let invalid = Settings::read(&settings, &options).expect_err("it is not allowed");
            assert!(invalid.message.contains(key), "what would allow it is told: {invalid}");
        }
        let read = Settings::read(&json!({ "program": "/usr/bin/ls", "dir": "/srv/a" }), &options);
        assert_eq!(read.expect("it is allowed").limits, options.command_limits());
    }

    #[test]
    fn what_is_not_said_is_the_default() {
        let options = Options::default();
        let read = Settings::read(&json!({ "program": "ls" }), &options).expect("enough");
        assert_eq!((read.payload, read.stderr), (Give::Stdin, Stderr::Log));
        assert_eq!((read.grace.0, read.max_output.0), (Span::from_secs(5), 1 << 20));
        assert!(read.success.has(0) && !read.success.has(1) && !read.shell);
        assert!(read.limits.is_none());
    }
}
