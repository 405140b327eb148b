//! One revision of a handler, as delivered with jobs.

use std::sync::OnceLock;

use serde_json::{Map, Value};

/// One revision of a handler: the runner and its settings. The settings are parsed and serialized at most once; all
/// jobs of the revision share both forms.
#[derive(Debug)]
pub struct HandlerRevision {
    revision: u64,
    runner: String,
    settings: OnceLock<Result<Value, String>>,
    text: OnceLock<String>,
}

impl HandlerRevision {
    /// A revision with parsed settings.
    pub fn new(revision: u64, runner: impl Into<String>, settings: Map<String, Value>) -> Self {
        let settings = OnceLock::from(Ok(Value::Object(settings)));
        Self { revision, runner: runner.into(), settings, text: OnceLock::new() }
    }

    /// A revision with settings as JSON text, parsed on first use.
    pub fn from_text(revision: u64, runner: impl Into<String>, text: impl Into<String>) -> Self {
        let text = OnceLock::from(text.into());
        Self { revision, runner: runner.into(), settings: OnceLock::new(), text }
    }

    /// Number of the revision; a greater number replaces a smaller one.
    pub const fn revision(&self) -> u64 {
        self.revision
    }

    /// Name of the runner.
    pub fn runner(&self) -> &str {
        &self.runner
    }

    /// The settings; the error is a JSON syntax error.
    pub fn settings(&self) -> Result<&Value, &str> {
        let parse = || serde_json::from_str(self.text()).map_err(|error| error.to_string());
        self.settings.get_or_init(parse).as_ref().map_err(String::as_str)
    }

    /// The settings as JSON text.
    pub fn text(&self) -> &str {
        self.text.get_or_init(|| match self.settings.get() {
            Some(Ok(settings)) => settings.to_string(),
            Some(Err(_)) | None => String::new(),
        })
    }
}

impl PartialEq for HandlerRevision {
    fn eq(&self, other: &Self) -> bool {
        (self.revision, self.runner(), self.text())
            == (other.revision, other.runner(), other.text())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_are_the_same_as_values_and_as_text() {
        let settings = Map::from_iter([("url".to_owned(), json!("http://a.test/"))]);
        let parsed = HandlerRevision::new(3, "http", settings.clone());
        let read = HandlerRevision::from_text(3, "http", parsed.text());
        assert_eq!(read.settings(), Ok(&Value::Object(settings)));
        assert_eq!(parsed, read);
        let first: *const Value = read.settings().unwrap();
        assert!(std::ptr::eq(first, read.settings().unwrap()), "parsed once");
    }

    #[test]
    fn text_that_is_not_json_is_an_error() {
        let bad = HandlerRevision::from_text(1, "http", "{");
        assert!(bad.settings().is_err());
        assert_eq!(bad.text(), "{");
    }
}
