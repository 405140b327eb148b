use std::sync::Arc;

use crore_conformance::suite::Subject;
use crore_store::Memory;
use crore_testkit::FakeClock;

async fn make() -> Subject<Memory> {
    let clock = Arc::new(FakeClock::default());
    let store = Arc::new(Memory::new(clock.clone()));
    Subject { store, clock }
}

crore_conformance::conformance!(make);
