use std::sync::Arc;

use crore_conformance::suite::Subject;
use crore_store::{Memory, Store};
use crore_testkit::FakeClock;

async fn make() -> Subject<Memory> {
    let clock = Arc::new(FakeClock::default());
    let store = Arc::new(Memory::new(clock.clone()));
    Subject { store, clock }
}

crore_conformance::conformance!(make);

#[test]
fn two_memory_stores_have_different_identities() {
    assert_ne!(Memory::default().store_id(), Memory::default().store_id());
}
