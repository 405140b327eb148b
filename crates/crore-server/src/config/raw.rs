//! What was given, from every side, before it is understood: defaults, a file, the environment, flags.

use std::collections::BTreeMap;
use std::fmt;

use crore_core::settings::{Given, Key, Shape, Values};

use super::fault::{Fault, did_you_mean};
use super::secret::Secret;
use super::{INFOS, keys};

/// Where a value came from. The later ones win.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Source {
    Default,
    File { path: String, line: usize },
    Variable(String),
    Flag(&'static str),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{path}:{line}"),
            Self::Variable(name) => f.write_str(name),
            Self::Flag(name) => f.write_str(name),
        }
    }
}

/// What was given, by the whole name of each key, and what is wrong with it.
#[derive(Debug, Default)]
pub(crate) struct Raw {
    values: BTreeMap<String, (Given, Source)>,
    faults: Vec<Fault>,
}

impl Raw {
    /// A value for a key. The layers are put in one after the other, so this one wins.
    pub(crate) fn put(&mut self, path: &str, given: Given, source: Source) {
        if keys().any(|key| key.path() == path) {
            self.values.insert(path.to_owned(), (given, source));
            return;
        }
        if let (Some(channel), Given::One(n)) = (path.strip_prefix("channels."), &given) {
            self.add_channel(format!("{channel}={n}"), source);
            return;
        }
        let known: Vec<String> = match path.split_once('.') {
            Some(_) => keys().map(Key::path).collect(),
            None => INFOS.iter().map(|info| info.name.to_owned()).collect(),
        };
        let hint = did_you_mean(path, &known);
        self.wrong(path, Some(&given), source, format!("there is no such key{hint}"));
    }

    /// One more channel, of a section whose keys are names that somebody has chosen. Of two with the same name
    /// the later one counts.
    fn add_channel(&mut self, channel: String, source: Source) {
        let (given, at) = self
            .values
            .entry("runners.channels".to_owned())
            .or_insert_with(|| (Given::Many(Vec::new()), source.clone()));
        let mut all = match given {
            Given::One(text) => text.split(',').map(|one| one.trim().to_owned()).collect(),
            Given::Many(texts) => std::mem::take(texts),
        };
        all.push(channel);
        (*given, *at) = (Given::Many(all), source);
    }

    /// Notes that something is wrong.
    pub(crate) fn wrong(
        &mut self,
        path: &str,
        given: Option<&Given>,
        source: Source,
        message: String,
    ) {
        let value = given.map(Given::shown);
        self.faults.push(Fault { source, key: path.to_owned(), value, message });
    }

    /// Notes that the value of a key cannot be, or does not go with another.
    pub(crate) fn clash(&mut self, path: &str, message: String) {
        let (given, source) = self.chosen(path);
        self.wrong(path, given.as_ref(), source, message);
    }

    /// Variables of the environment whose names have two underscores, as `CRORE_LISTEN__ADDRESS`. Those
    /// with one are not ours: who runs a service `crore` in Kubernetes has `CRORE_PORT` and more. Unless it is
    /// one of ours but for an underscore, which is a slip.
    pub(crate) fn put_variables(&mut self, variables: impl Iterator<Item = (String, String)>) {
        let slips: Vec<String> = keys().map(|key| key.variable().replace("__", "_")).collect();
        let is_ours = |name: &String| {
            let two = name.strip_prefix("CRORE_").is_some_and(|rest| rest.contains("__"));
            two || slips.contains(name)
        };
        let mut ours: Vec<_> = variables.filter(|(name, _)| is_ours(name)).collect();
        ours.sort();
        for (name, value) in ours {
            let source = Source::Variable(name.clone());
            if let Some(key) = keys().find(|key| key.variable() == name) {
                self.put(&key.path(), Given::One(value), source);
                continue;
            }
            let known: Vec<String> = keys().map(Key::variable).collect();
            let hint = did_you_mean(&name, &known);
            self.wrong("", Some(&Given::One(value)), source, format!("it means no key{hint}"));
        }
    }

    /// What a key says and where that came from; a default is a value too.
    pub(crate) fn chosen(&self, path: &str) -> (Option<Given>, Source) {
        match self.values.get(path) {
            Some((given, source)) => (Some(given.clone()), source.clone()),
            None => {
                let key = keys().find(|key| key.path() == path);
                let default = key.and_then(|key| key.default);
                (default.map(|text| Given::One(text.to_owned())), Source::Default)
            }
        }
    }

    /// Everything that is wrong so far, in the order of where it stands.
    pub(crate) fn take_faults(&mut self) -> Vec<Fault> {
        let mut faults = std::mem::take(&mut self.faults);
        faults.sort_by(|a, b| (&a.source, &a.key).cmp(&(&b.source, &b.key)));
        faults
    }
}

impl Values for Raw {
    fn given(&mut self, key: &Key) -> Option<Given> {
        let given = self.values.get(&key.path()).map(|(given, _)| given)?;
        if key.shape != Shape::Secret {
            return Some(given.clone());
        }
        let secret = given.one().and_then(Secret::resolve);
        let secret = secret.map(|secret| Given::One(secret.reveal().to_owned()));
        secret.map_err(|message| self.refuse(key, message)).ok()
    }

    fn refuse(&mut self, key: &Key, message: String) {
        self.clash(&key.path(), message);
    }
}
