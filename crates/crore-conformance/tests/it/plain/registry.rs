//! The registry.

use crore_core::{Name, Revision};
use crore_store::registry::{
    Define, DefineAction, DefineGuard, Defined, RegistryEntry, RegistryTable,
};

use super::records::Records;

impl Records {
    pub(super) fn define(&mut self, define: Define) -> Defined {
        let table = define.table();
        let entry = self.entry(table, &define.name);
        let holds = match define.guard {
            DefineGuard::Any => true,
            DefineGuard::Absent => entry.is_none(),
            DefineGuard::At(revision) => entry.is_some_and(|entry| entry.revision == revision),
        };
        if !holds {
            return Defined::Stale;
        }
        let revision = self.next_revision(table, &define.name);
        let expires_at = define.expires_after.map(|span| self.now.after(span));
        let key = (table, define.name.clone());
        match define.action {
            DefineAction::Remove(_) => drop(self.entries.remove(&key)),
            DefineAction::Set(value) => {
                let entry = RegistryEntry { name: define.name, value, revision, expires_at };
                self.entries.insert(key, entry);
            }
        }
        Defined::Yes(revision)
    }

    /// The next revision of a name. It continues after an entry is removed.
    pub(super) fn next_revision(&mut self, table: RegistryTable, name: &Name) -> Revision {
        let revision = self.revisions.entry((table, name.clone())).or_default();
        *revision = revision.next();
        *revision
    }

    pub(super) fn list_entries(
        &self,
        table: RegistryTable,
        after: Option<&Name>,
        n: usize,
    ) -> Vec<RegistryEntry> {
        let entries = self.entries.values().filter(|entry| entry.value.table() == table);
        let entries = entries.filter(|entry| self.is_unexpired(entry.expires_at));
        let entries = entries.filter(|entry| after.is_none_or(|name| entry.name > *name));
        entries.take(n).cloned().collect()
    }
}
