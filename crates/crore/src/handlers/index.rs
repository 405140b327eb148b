//! Index of all handlers: finds the handler of a kind or of a job.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crore_core::handler::{FollowUpHandlers, HANDLER_LABEL};
use crore_core::{Handler, Name, Revision, Spec};
use crore_store::registry::RegistryEntry;

use super::{HandlersByKind, StoredHandler, decode_handler};

/// All handlers, indexed by kind, by former kind and by id.
#[derive(Debug, Default)]
pub(crate) struct HandlerIndex {
    pub(crate) all: HandlersByKind,
    /// Kinds whose stored handlers cannot be decoded.
    pub(crate) unreadable: BTreeSet<Name>,
    /// From former kinds to current ones, unless another handler has the former kind now.
    current_kinds: BTreeMap<Name, Name>,
    /// From ids, as in the labels of jobs, to kinds.
    kinds_by_id: BTreeMap<String, Name>,
}

impl HandlerIndex {
    pub(super) fn of(entries: Vec<RegistryEntry>) -> Self {
        let (mut stored, mut unreadable) = (BTreeMap::new(), BTreeSet::new());
        for entry in entries {
            match decode_handler(&entry.value) {
                Some(handler) => {
                    stored.insert(entry.name, (Arc::new(handler), entry.revision));
                }
                None => drop(unreadable.insert(entry.name)),
            }
        }
        let all = resolve_follow_ups(stored);
        let (mut formerly, mut ids) = (BTreeMap::new(), BTreeMap::new());
        for (kind, StoredHandler { handler, .. }) in &all {
            ids.insert(handler.id.to_string(), kind.clone());
            let free = |former: &&Name| !all.contains_key(*former) && !unreadable.contains(*former);
            let former_kinds = handler.formerly.iter().filter(free);
            formerly.extend(former_kinds.map(|former| (former.clone(), kind.clone())));
        }
        Self { all: Arc::new(all), unreadable, current_kinds: formerly, kinds_by_id: ids }
    }

    /// The handler of a kind, or the one that formerly had it.
    pub(super) fn of_kind(&self, kind: &Name) -> Option<(&Name, &StoredHandler)> {
        let former = || self.all.get_key_value(self.current_kinds.get(kind)?);
        self.all.get_key_value(kind).or_else(former)
    }

    /// The handler that a job was pushed for, even if renamed; if that is gone, the handler of its kind.
    pub(super) fn of_job(&self, spec: &Spec) -> Option<(&Name, &StoredHandler)> {
        let id = spec.labels.get(HANDLER_LABEL).and_then(|id| self.kinds_by_id.get(id));
        let own = id.and_then(|kind| self.all.get_key_value(kind));
        own.or_else(|| self.of_kind(&spec.kind))
    }

    /// The kinds, including former ones, whose handlers have a matching runner.
    pub(crate) fn kinds(&self, is_run: impl Fn(&Name) -> bool) -> Vec<Name> {
        let is_run =
            |kind: &Name| self.all.get(kind).is_some_and(|stored| is_run(&stored.handler.runner));
        let former =
            self.current_kinds.iter().filter(|(_, now)| is_run(now)).map(|(former, _)| former);
        self.all.keys().filter(|kind| is_run(kind)).chain(former).cloned().collect()
    }
}

/// Resolves the follow-ups of handlers: links by id become the kinds of the linked handlers.
fn resolve_follow_ups(
    stored: BTreeMap<Name, (Arc<Handler>, Revision)>,
) -> BTreeMap<Name, StoredHandler> {
    let by_id: BTreeMap<u64, (&Name, &Handler)> =
        stored.iter().map(|(kind, (handler, _))| (handler.id, (kind, &**handler))).collect();
    let follows = |handler: &Handler| handler.follows(|id| by_id.get(&id).copied());
    let follows: Vec<FollowUpHandlers> =
        stored.values().map(|(handler, _)| follows(handler)).collect();
    let with_follow_ups = |((kind, (handler, revision)), follows): (_, FollowUpHandlers)| {
        (kind, StoredHandler { handler, revision, follows: Arc::new(follows) })
    };
    stored.into_iter().zip(follows).map(with_follow_ups).collect()
}
