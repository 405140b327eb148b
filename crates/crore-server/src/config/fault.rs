//! What is wrong with a configuration: all of it at once, each with its place, key and value.

use std::fmt;

use super::raw::Source;

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) source: Source,
    /// The whole name of the key; empty where the place says it all.
    pub(crate) key: String,
    pub(crate) value: Option<String>,
    pub(crate) message: String,
}

impl fmt::Display for Fault {
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

/// Everything that is wrong.
#[derive(Debug)]
pub(crate) struct Faults(pub(crate) Vec<Fault>);

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.len() {
            1 => write!(f, "the configuration has a fault")?,
            n => write!(f, "the configuration has {n} faults")?,
        }
        self.0.iter().try_for_each(|fault| write!(f, "\n  {fault}"))
    }
}

impl std::error::Error for Faults {}

/// The end of a sentence that names the closest known word, if one is close enough to be meant.
pub(crate) fn did_you_mean(word: &str, known: &[String]) -> String {
    let close = |one: &&String| strsim::damerau_levenshtein(word, one) <= word.len().div_ceil(3);
    // The right key in the wrong section is likelier than a wrong key in the right one.
    let last = word.rsplit(['.']).next().unwrap_or(word);
    let same = known.iter().find(|one| one.rsplit('.').next() == Some(last));
    let closest = known.iter().filter(close);
    let closest = closest.min_by_key(|one| strsim::damerau_levenshtein(word, one));
    same.or(closest).map_or_else(String::new, |one| format!("; did you mean `{one}`?"))
}
