//! All handlers as they were read, and whose a job is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crore_core::handler::{Follows, HANDLER};
use crore_core::{Handler, Name, Revision, Spec};
use crore_store::registry::Entry;

use super::{All, Known, read};

/// All handlers, found by kind, by a kind that they had before, and by number.
#[derive(Debug, Default)]
pub(crate) struct Book {
    pub(crate) all: All,
    /// Kinds that are stored, and cannot be read.
    pub(crate) unreadable: BTreeSet<Name>,
    /// From kinds that handlers had before, and no other has now, to those that they have.
    formerly: BTreeMap<Name, Name>,
    /// By number, as labels say it.
    numbers: BTreeMap<String, Name>,
}

impl Book {
    pub(super) fn of(entries: Vec<Entry>) -> Self {
        let (mut stored, mut unreadable) = (BTreeMap::new(), BTreeSet::new());
        for entry in entries {
            match read(&entry.value) {
                Some(handler) => {
                    stored.insert(entry.name, (Arc::new(handler), entry.revision));
                }
                None => drop(unreadable.insert(entry.name)),
            }
        }
        let all = resolved(stored);
        let (mut formerly, mut numbers) = (BTreeMap::new(), BTreeMap::new());
        for (kind, Known { handler, .. }) in &all {
            numbers.insert(handler.id.to_string(), kind.clone());
            let free = |former: &&Name| !all.contains_key(*former) && !unreadable.contains(*former);
            let had = handler.formerly.iter().filter(free);
            formerly.extend(had.map(|former| (former.clone(), kind.clone())));
        }
        Self { all: Arc::new(all), unreadable, formerly, numbers }
    }

    /// The handler of a kind, or the one that had it before.
    pub(super) fn of_kind(&self, kind: &Name) -> Option<(&Name, &Known)> {
        let former = || self.all.get_key_value(self.formerly.get(kind)?);
        self.all.get_key_value(kind).or_else(former)
    }

    /// The handler that a job was pushed for, whatever it is called now; if that is gone, the one of its kind.
    pub(super) fn of_job(&self, spec: &Spec) -> Option<(&Name, &Known)> {
        let number = spec.labels.get(HANDLER).and_then(|number| self.numbers.get(number));
        let own = number.and_then(|kind| self.all.get_key_value(kind));
        own.or_else(|| self.of_kind(&spec.kind))
    }

    /// The kinds of jobs that are run by such runners.
    pub(crate) fn kinds(&self, is_run: impl Fn(&Name) -> bool) -> Vec<Name> {
        let is_run = |kind: &Name| self.all.get(kind).is_some_and(|it| is_run(&it.handler.runner));
        let former = self.formerly.iter().filter(|(_, now)| is_run(now)).map(|(former, _)| former);
        self.all.keys().filter(|kind| is_run(kind)).chain(former).cloned().collect()
    }
}

/// Handlers with everything that follows them: links by number are resolved to the kinds that those handlers have.
fn resolved(stored: BTreeMap<Name, (Arc<Handler>, Revision)>) -> BTreeMap<Name, Known> {
    let by_number: BTreeMap<u64, (&Name, &Handler)> =
        stored.iter().map(|(kind, (handler, _))| (handler.id, (kind, &**handler))).collect();
    let follows = |handler: &Handler| handler.follows(|number| by_number.get(&number).copied());
    let follows: Vec<Follows> = stored.values().map(|(handler, _)| follows(handler)).collect();
    let known = |((kind, (handler, revision)), follows): (_, Follows)| {
        (kind, Known { handler, revision, follows: Arc::new(follows) })
    };
    stored.into_iter().zip(follows).map(known).collect()
}
