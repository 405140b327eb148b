//! Configuration errors: all of them are reported at once, each with its source, key and value.

use std::fmt;

use super::raw::ConfigSource;

/// A configuration error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfigError {
    pub(crate) source: ConfigSource,
    /// Full name of the key; empty if the source already identifies it.
    pub(crate) key: String,
    pub(crate) value: Option<String>,
    pub(crate) message: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.source)?;
        match (self.key.as_str(), &self.value) {
            ("", None) => {}
            ("", Some(value)) => write!(f, "`{value}`: ")?,
            (key, None) => write!(f, "{key}: ")?,
            (key, Some(value)) => write!(f, "{key} = `{value}`: ")?,
        }
        f.write_str(&self.message)
    }
}

/// All configuration errors.
#[derive(Debug)]
pub(crate) struct ConfigErrors(pub(crate) Vec<ConfigError>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.len() {
            1 => write!(f, "the configuration has an error")?,
            n => write!(f, "the configuration has {n} errors")?,
        }
        self.0.iter().try_for_each(|fault| write!(f, "\n  {fault}"))
    }
}

impl std::error::Error for ConfigErrors {}

/// A hint that names the most similar known word, or an empty text if none is similar enough.
pub(crate) fn did_you_mean(word: &str, known: &[String]) -> String {
    let close = |one: &&String| strsim::damerau_levenshtein(word, one) <= word.len().div_ceil(3);
    // A known key in the wrong section is more likely than a misspelled key in the right one.
    let last = word.rsplit(['.']).next().unwrap_or(word);
    let same = known.iter().find(|one| one.rsplit('.').next() == Some(last));
    let closest = known.iter().filter(close);
    let closest = closest.min_by_key(|one| strsim::damerau_levenshtein(word, one));
    same.or(closest).map_or_else(String::new, |one| format!("; did you mean `{one}`?"))
}
