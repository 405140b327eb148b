//! Collected values before parsing, from defaults, a file, the environment and flags.

use std::collections::BTreeMap;
use std::fmt;

use crore_core::settings::{SettingKey, SettingValue, Shape, ValueSource};

use super::errors::{ConfigError, did_you_mean};
use super::secret::ConfigSecret;
use super::{SECTIONS, keys};

/// Source of a value, in order of precedence: later variants win.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ConfigSource {
    Default,
    File { path: String, line: usize },
    Variable(String),
    Flag(&'static str),
}

impl fmt::Display for ConfigSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{path}:{line}"),
            Self::Variable(name) => f.write_str(name),
            Self::Flag(name) => f.write_str(name),
        }
    }
}

/// Collected values by full key, and the errors found so far.
#[derive(Debug, Default)]
pub(crate) struct RawConfig {
    values: BTreeMap<String, (SettingValue, ConfigSource)>,
    errors: Vec<ConfigError>,
}

impl RawConfig {
    /// Sets a value. Sources are added in order of precedence, so a later value replaces an earlier one.
    pub(crate) fn put(&mut self, path: &str, given: SettingValue, source: ConfigSource) {
        if keys().any(|key| key.path() == path) {
            self.values.insert(path.to_owned(), (given, source));
            return;
        }
        if let (Some(channel), SettingValue::One(n)) = (path.strip_prefix("channels."), &given) {
            self.add_channel(format!("{channel}={n}"), source);
            return;
        }
        let known: Vec<String> = match path.split_once('.') {
            Some(_) => keys().map(SettingKey::path).collect(),
            None => SECTIONS.iter().map(|info| info.name.to_owned()).collect(),
        };
        let hint = did_you_mean(path, &known);
        self.add_error(path, Some(&given), source, format!("unknown key{hint}"));
    }

    /// Adds one channel, from a `[channels]` section or `--channel`. If a name occurs twice, the later one wins.
    fn add_channel(&mut self, channel: String, source: ConfigSource) {
        let (given, at) = self
            .values
            .entry("runners.channels".to_owned())
            .or_insert_with(|| (SettingValue::Many(Vec::new()), source.clone()));
        let mut all = match given {
            SettingValue::One(text) => text.split(',').map(|one| one.trim().to_owned()).collect(),
            SettingValue::Many(texts) => std::mem::take(texts),
        };
        all.push(channel);
        (*given, *at) = (SettingValue::Many(all), source);
    }

    /// Records an error.
    pub(crate) fn add_error(
        &mut self,
        path: &str,
        given: Option<&SettingValue>,
        source: ConfigSource,
        message: String,
    ) {
        let value = given.map(SettingValue::shown);
        self.errors.push(ConfigError { source, key: path.to_owned(), value, message });
    }

    /// Records that the chosen value of a key is invalid or conflicts with another.
    pub(crate) fn reject(&mut self, path: &str, message: String) {
        let (given, source) = self.effective(path);
        self.add_error(path, given.as_ref(), source, message);
    }

    /// Reads environment variables with a double underscore, such as `CRORE_LISTEN__ADDRESS`. Others are ignored,
    /// because Kubernetes sets `CRORE_PORT` and the like for a service named `crore`; but a known name with a single
    /// underscore is reported as a typo.
    pub(crate) fn add_variables(&mut self, variables: impl Iterator<Item = (String, String)>) {
        let misspelled: Vec<String> = keys().map(|key| key.variable().replace("__", "_")).collect();
        let is_ours = |name: &String| {
            let two = name.strip_prefix("CRORE_").is_some_and(|rest| rest.contains("__"));
            two || misspelled.contains(name)
        };
        let mut ours: Vec<_> = variables.filter(|(name, _)| is_ours(name)).collect();
        ours.sort();
        for (name, value) in ours {
            let source = ConfigSource::Variable(name.clone());
            if let Some(key) = keys().find(|key| key.variable() == name) {
                self.put(&key.path(), SettingValue::One(value), source);
                continue;
            }
            let known: Vec<String> = keys().map(SettingKey::variable).collect();
            let hint = did_you_mean(&name, &known);
            self.add_error(
                "",
                Some(&SettingValue::One(value)),
                source,
                format!("unknown variable{hint}"),
            );
        }
    }

    /// Effective value of a key, possibly its default, and its source.
    pub(crate) fn effective(&self, path: &str) -> (Option<SettingValue>, ConfigSource) {
        match self.values.get(path) {
            Some((given, source)) => (Some(given.clone()), source.clone()),
            None => {
                let key = keys().find(|key| key.path() == path);
                let default = key.and_then(|key| key.default);
                (default.map(|text| SettingValue::One(text.to_owned())), ConfigSource::Default)
            }
        }
    }

    /// Whether a value refers to a file with a secret.
    pub(crate) fn names_secret_file(&self) -> bool {
        let mut secrets = keys().filter(|key| key.shape == Shape::Secret);
        secrets.any(|key| {
            let given = self.values.get(&key.path());
            given.is_some_and(|(given, _)| given.one().is_ok_and(|text| text.starts_with("file:")))
        })
    }

    /// Removes and returns all errors, ordered by source and key.
    pub(crate) fn take_errors(&mut self) -> Vec<ConfigError> {
        let mut faults = std::mem::take(&mut self.errors);
        faults.sort_by(|a, b| (&a.source, &a.key).cmp(&(&b.source, &b.key)));
        faults
    }
}

impl ValueSource for RawConfig {
    fn given(&mut self, key: &SettingKey) -> Option<SettingValue> {
        let given = self.values.get(&key.path()).map(|(given, _)| given)?;
        if key.shape != Shape::Secret {
            return Some(given.clone());
        }
        let secret = given.one().and_then(ConfigSecret::resolve);
        let secret = secret.map(|secret| SettingValue::One(secret.reveal().to_owned()));
        secret.map_err(|message| self.refuse(key, message)).ok()
    }

    fn refuse(&mut self, key: &SettingKey, message: String) {
        self.reject(&key.path(), message);
    }
}
