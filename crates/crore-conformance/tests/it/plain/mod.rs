//! The simplest store that keeps the contract, to be read first by whoever writes one.
//!
//! Everything is in plain maps and lists behind one lock, and every verb looks at everything: there is
//! no index, no lane and no cleverness. What a record becomes is said by the core's own functions; here
//! stands only what a store has to do around them. It passes the whole suite, and equals the memory
//! store over random operations.

mod apply;
mod claim;
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
use crore_store::{Answer, Store, WakeHook};
use crore_testkit::FakeClock;

use records::Records;

/// A store that looks at everything.
pub(super) struct Plain {
    clock: Arc<dyn Clock>,
    records: Mutex<Records>,
    hooks: Mutex<Vec<WakeHook>>,
}

impl Plain {
    fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, records: Mutex::default(), hooks: Mutex::default() }
    }

    /// Does a verb: at one instant, alone, whole; and then wakes those who wait for what can be
    /// claimed now and could not before.
    fn run<T>(&self, verb: impl FnOnce(&mut Records) -> T) -> T {
        let (answer, queues) = {
            let mut records = self.records.lock().expect("no verb panics");
            records.now = records.now.max(self.clock.now());
            let before = records.claimable();
            let answer = verb(&mut records);
            let after = records.claimable();
            let new = after.difference(&before).map(|(queue, ..)| queue.clone());
            (answer, new.collect::<BTreeSet<Name>>())
        };
        if !queues.is_empty() {
            let queues: Vec<Name> = queues.into_iter().collect();
            let hooks = self.hooks.lock().expect("no hook panics").clone();
            hooks.iter().for_each(|hook| hook(&queues));
        }
        answer
    }

    /// The answer of a verb, which is there at once.
    fn answer<T: Send + 'static>(&self, verb: impl FnOnce(&mut Records) -> T) -> Answer<'_, T> {
        Box::pin(ready(Ok(self.run(verb))))
    }
}

impl Store for Plain {
    fn wakes(&self, hook: WakeHook) {
        self.hooks.lock().expect("no hook panics").push(hook);
    }
}

impl fmt::Debug for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plain").field("records", &self.records).finish_non_exhaustive()
    }
}

async fn make() -> Subject<Plain> {
    let clock = Arc::new(FakeClock::default());
    Subject { store: Arc::new(Plain::new(clock.clone())), clock }
}

crore_conformance::conformance!(make);

#[test]
fn the_plain_store_equals_the_memory_store() {
    model::check_store(300, 60, make);
}
