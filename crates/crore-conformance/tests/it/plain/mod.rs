//! The simplest store that fulfils the contract: a starting point for writing a new store.
//!
//! All records are in plain maps and lists behind one lock, and every method scans everything: there is no
//! index and no lane. The rules come from `crore-core`; this code is only what a store adds. It passes the
//! whole suite, and equals the memory store over random operations.

mod apply;
mod claim;
mod costs;
mod events;
mod job_stats;
mod push;
mod records;
mod registry;
mod upkeep;
mod verbs;
mod views;

use std::collections::BTreeSet;
use std::fmt;
use std::future::ready;
use std::sync::{Arc, Mutex};

use crore_conformance::model;
use crore_conformance::suite::Subject;
use crore_core::{Clock, Name};
use crore_store::{Store, StoreFuture, StoreId, WakeHook};
use crore_testkit::FakeClock;

use records::Records;

/// A store without indexes.
pub(super) struct PlainStore {
    id: StoreId,
    clock: Arc<dyn Clock>,
    records: Mutex<Records>,
    hooks: Mutex<Vec<WakeHook>>,
}

impl PlainStore {
    fn new(clock: Arc<dyn Clock>) -> Self {
        Self { id: StoreId::draw(), clock, records: Mutex::default(), hooks: Mutex::default() }
    }

    /// Runs a method atomically at one instant, then wakes the queues with newly claimable jobs.
    fn run<T>(&self, verb: impl FnOnce(&mut Records) -> T) -> T {
        let (answer, queues) = {
            let mut records = self.records.lock().expect("no panic");
            records.now = records.now.max(self.clock.now());
            let before = records.claimable();
            let answer = verb(&mut records);
            records.prune_reserved();
            let after = records.claimable();
            let new = after.difference(&before).map(|(queue, ..)| queue.clone());
            (answer, new.collect::<BTreeSet<Name>>())
        };
        if !queues.is_empty() {
            let queues: Vec<Name> = queues.into_iter().collect();
            let hooks = self.hooks.lock().expect("no panic").clone();
            hooks.iter().for_each(|hook| hook(&queues));
        }
        answer
    }

    /// The response of a method, which is ready at once.
    fn answer<T: Send + 'static>(
        &self,
        verb: impl FnOnce(&mut Records) -> T,
    ) -> StoreFuture<'_, T> {
        Box::pin(ready(Ok(self.run(verb))))
    }
}

impl Store for PlainStore {
    fn store_id(&self) -> StoreId {
        self.id
    }

    fn add_wake_hook(&self, hook: WakeHook) {
        self.hooks.lock().expect("no panic").push(hook);
    }
}

impl fmt::Debug for PlainStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plain").field("records", &self.records).finish_non_exhaustive()
    }
}

async fn make() -> Subject<PlainStore> {
    let clock = Arc::new(FakeClock::default());
    Subject { store: Arc::new(PlainStore::new(clock.clone())), clock }
}

crore_conformance::conformance!(make);

#[test]
fn the_plain_store_equals_the_memory_store() {
    model::check_store(300, 60, make);
}
