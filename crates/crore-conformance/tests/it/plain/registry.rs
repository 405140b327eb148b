//! The registry.

use crore_core::{Name, Revision};
use crore_store::registry::{
    Define, DefineAction, DefineGuard, Defined, RegistryEntry, RegistryTable,
};

use super::records::Records;

impl Records {
    pub(super) fn define(&mut self, definitions: Vec<Define>) -> Vec<Defined> {
        let all_joint_hold =
            definitions.iter().filter(|define| define.joint).all(|define| self.holds(define));
        let one = |define: Define| {
            let holds = if define.joint { all_joint_hold } else { self.holds(&define) };
            if holds { self.define_one(define) } else { Defined::Stale }
        };
        definitions.into_iter().map(one).collect()
    }

    fn holds(&self, define: &Define) -> bool {
        let entry = self.entry(define.table(), &define.name);
        match define.guard {
            DefineGuard::Any => true,
            DefineGuard::Absent => entry.is_none(),
            DefineGuard::At(revision) => entry.is_some_and(|entry| entry.revision == revision),
        }
    }

    fn define_one(&mut self, define: Define) -> Defined {
        let table = define.table();
        let revision = self.next_revision(table, &define.name);
        let expires_at = define.expires_after.map(|span| self.now.after(span));
        let key = (table, define.name.clone());
        if table == RegistryTable::Limits {
            self.reserved.retain(|key, _| key.limit != define.name);
        }
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
