//! Secrets: named in a file, and never written into one.

use std::fmt;
use std::path::Path;

use anyhow::{Context, bail};

use crate::environment;

/// A secret. It is not printed, whoever asks.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(String);

impl Secret {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The secret itself, for the one who needs it.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }

    /// The first line of a file.
    pub(crate) fn from_file(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the secret in `{}`", path.display()))?;
        match text.lines().next().map(str::trim) {
            Some(line) if !line.is_empty() => Ok(Self::new(line)),
            _ => bail!("the secret in `{}` is empty", path.display()),
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl Secret {
    /// What a reference stands for. It is not the secret itself: a file of the configuration is read by many.
    pub(crate) fn resolve(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("file:") {
            return Self::from_file(Path::new(path)).map_err(|error| format!("{error:#}"));
        }
        let Some(name) = text.strip_prefix("env:") else {
            return Err("a secret is not written here: say `file:PATH` or `env:NAME`".to_owned());
        };
        match environment::read(name) {
            Some(text) if !text.is_empty() => Ok(Self::new(text)),
            _ => Err(format!("the variable `{name}` is not set")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_printed() {
        assert_eq!(format!("{:?}", Some(Secret::new("hunter2"))), "Some(***)");
    }

    #[test]
    fn a_secret_is_the_first_line_of_its_file_and_never_the_value_itself() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("secret");
        std::fs::write(&path, "hunter2\n").expect("a file");
        let given = |text: String| Secret::resolve(&text);
        assert_eq!(given(format!("file:{}", path.display())), Ok(Secret::new("hunter2")));
        let refused = given("hunter2".to_owned()).expect_err("not a reference");
        assert!(refused.contains("file:PATH") && !refused.contains("hunter2"), "{refused}");
        assert!(given("env:CRORE_NOT_SET_ANYWHERE".to_owned()).is_err());
    }
}
