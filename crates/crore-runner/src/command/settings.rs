//! Settings of the command runner.

use std::collections::BTreeMap;

use crore_core::{Code, Invalid, Span};
use crore_wire::units::{Period, Size};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::code_variables;
use super::environment::{check_name, is_always_inherited};
use super::limits::CommandLimits;
use super::program;
use crate::options::Options;
use crate::output::{Stderr, Success, grace, max_output};
use crate::secret::SecretRef;

/// The settings of a handler with the command runner.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CommandSettings {
    /// A name, an absolute path, or a shell script.
    pub(super) program: String,
    #[serde(default)]
    pub(super) args: Vec<String>,
    #[serde(default)]
    pub(super) payload: CommandInput,
    #[serde(default)]
    pub(super) env: BTreeMap<String, SecretRef>,
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
    pub(super) limits: CommandLimits,
}

/// How a program gets the payload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum CommandInput {
    #[default]
    Stdin,
    /// Each line is an argument; blanks around it are trimmed and blank lines dropped.
    Lines,
    /// A JSON array of strings, each an argument.
    Args,
    None,
}

fn five_seconds() -> Period {
    Period(Span::from_secs(5))
}

fn one_mebibyte() -> Size {
    Size(1 << 20)
}

impl CommandSettings {
    /// Reads and checks settings. A program given by name alone is checked at each run, when it is looked up.
    pub(super) fn read(settings: &Value, options: &Options) -> Result<Self, Invalid> {
        let raw = settings;
        let mut settings: Self = crate::settings::read(raw)?;
        settings.check_texts()?;
        settings.check_environment(options)?;
        settings.check_allowed(options)?;
        settings.limits = settings.limits.within(options.command_limits())?;
        settings.max_output = max_output(raw, settings.max_output, options.max_output)?;
        settings.grace = grace(raw, settings.grace, options.max_grace)?;
        Ok(settings)
    }

    /// A zero byte would end the string early in system calls.
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
        let check_code = |field: &str, name: &str| {
            code_variables::check(field, name, &options.code_variables, &options.programs)
        };
        for (name, value) in &self.env {
            let field = format!("settings.env.{name}");
            check_name(&field, name)?;
            check_code(&field, name)?;
            if !value.is_reference() && value.resolve().is_ok_and(|text| text.contains('\0')) {
                return Err(Invalid::new(Code::Malformed, field, "contains a zero byte"));
            }
        }
        for (i, name) in self.inherit.iter().enumerate() {
            let field = format!("settings.inherit[{i}]");
            check_name(&field, name)?;
            check_code(&field, name)?;
            // The environment of the host holds secrets, and a program can send them anywhere.
            if !is_always_inherited(name) && !options.secrets.allows(&format!("env:{name}")) {
                let message = format!(
                    "variable `{name}` is not allowed; allow `env:{name}` in `runners.secrets` in the configuration"
                );
                return Err(Invalid::new(Code::RunnerForbidden, field, message));
            }
        }
        Ok(())
    }

    fn check_allowed(&self, options: &Options) -> Result<(), Invalid> {
        if self.shell && !options.shell {
            let message = "shell scripts are not allowed; allow them with `runners.shell = true` \
                           in the configuration";
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
    use crate::options::PositiveCount;

    fn refused(settings: &Value, options: &Options) -> (String, Code) {
        let invalid = CommandSettings::read(settings, options).expect_err("it is invalid");
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
    fn handler_beyond_operator_limits_is_refused() {
        let programs = ["/usr/bin/*".parse().expect("a pattern")].into_iter().collect();
        let dirs = ["/srv/*".parse().expect("a pattern")].into_iter().collect();
        let command_cpu_seconds = Some(PositiveCount(5));
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
            (json!({ "program": "ls", "inherit": ["LANG", "MY_KEY"] }), "settings.inherit[1]"),
        ];
        for (settings, field) in cases {
            let expected = (field.to_owned(), Code::RunnerForbidden);
            assert_eq!(refused(&settings, &options), expected, "{settings}");
        }
        for (settings, key) in [
            (json!({ "program": "/bin/ls" }), "`runners.programs`"),
            (json!({ "program": "ls", "shell": true }), "`runners.shell = true`"),
            (json!({ "program": "ls", "dir": "/etc" }), "`runners.dirs`"),
            (json!({ "program": "ls", "env": { "LD_A": "" } }), "`runners.code-variables`"),
            (json!({ "program": "ls", "env": { "PATH": "/srv" } }), "`runners.code-variables`"),
            (json!({ "program": "ls", "inherit": ["LD_A"] }), "`runners.code-variables`"),
            (
                json!({ "program": "ls", "inherit": ["MY_KEY"] }),
                "`env:MY_KEY` in `runners.secrets`",
            ),
        ] {
            let invalid =
                CommandSettings::read(&settings, &options).expect_err("it is not allowed");
            assert!(invalid.message.contains(key), "no hint what would allow it: {invalid}");
        }
        let read =
            CommandSettings::read(&json!({ "program": "/usr/bin/ls", "dir": "/srv/a" }), &options);
        assert_eq!(read.expect("it is allowed").limits, options.command_limits());
    }

    #[test]
    fn absent_settings_have_defaults() {
        let options = Options::default();
        let read = CommandSettings::read(&json!({ "program": "ls" }), &options).expect("enough");
        assert_eq!((read.payload, read.stderr), (CommandInput::Stdin, Stderr::Log));
        assert_eq!((read.grace.0, read.max_output.0), (Span::from_secs(5), 1 << 20));
        assert!(read.success.has(0) && !read.success.has(1) && !read.shell);
        assert!(read.limits.is_none());
    }
}
