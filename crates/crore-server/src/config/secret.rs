//! Secrets. Configuration files hold references to secrets, never the secrets themselves.

use std::fmt;
use std::path::Path;

use anyhow::{Context, bail};

use crate::environment;

/// A secret; its `Debug` output is `***`.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ConfigSecret(String);

impl ConfigSecret {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The secret in plain text.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }

    /// Reads the first line of a file.
    pub(crate) fn from_file(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read secret file `{}`", path.display()))?;
        match text.lines().next().map(str::trim) {
            Some(line) if !line.is_empty() => Ok(Self::new(line)),
            _ => bail!("secret file `{}` is empty", path.display()),
        }
    }
}

impl fmt::Debug for ConfigSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl ConfigSecret {
    /// Resolves a reference, `file:PATH` or `env:NAME`. A plain secret is refused, because many people can read the
    /// configuration file.
    pub(crate) fn resolve(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("file:") {
            return Self::from_file(Path::new(path)).map_err(|error| format!("{error:#}"));
        }
        let Some(name) = text.strip_prefix("env:") else {
            return Err(
                "secrets are not written in plain text; use `file:PATH` or `env:NAME`".to_owned()
            );
        };
        match environment::read(name) {
            Some(text) if !text.is_empty() => Ok(Self::new(text)),
            _ => Err(format!("environment variable `{name}` is not set")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_printed() {
        assert_eq!(format!("{:?}", Some(ConfigSecret::new("hunter2"))), "Some(***)");
    }

    #[test]
    fn a_secret_is_the_first_line_of_a_file_and_never_inline() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("secret");
        std::fs::write(&path, "hunter2\n").expect("a file");
        let given = |text: String| ConfigSecret::resolve(&text);
        assert_eq!(given(format!("file:{}", path.display())), Ok(ConfigSecret::new("hunter2")));
        let refused = given("hunter2".to_owned()).expect_err("not a reference");
        assert!(refused.contains("file:PATH") && !refused.contains("hunter2"), "{refused}");
        assert!(given("env:CRORE_NOT_SET_ANYWHERE".to_owned()).is_err());
    }
}
