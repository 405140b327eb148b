//! The embedded store: the whole suite on an in-memory disk, and the model across reopenings.

mod arbitrary;
mod backup;
mod crashes;
mod damage;
mod disk;
mod driven;
mod filled;
mod fixture;
mod image;
mod open;
mod repair;
mod rich;
mod script;
mod verify;

use std::sync::Arc;

use crore_conformance::model;
use crore_conformance::suite::Subject;
use crore_store::embedded::Options;
use crore_testkit::FakeClock;

use driven::{Driven, Reopen};

/// Segments small enough for constant rolling and compaction.
fn small() -> Options {
    Options { segment_bytes: 16 << 10, ..Options::default() }
}

fn driven(options: Options, reopen: Reopen) -> Subject<Driven> {
    let clock = Arc::new(FakeClock::default());
    let store = Arc::new(Driven::new(clock.clone(), options, reopen));
    Subject { store, clock }
}

async fn make() -> Subject<Driven> {
    driven(small(), Reopen::Never)
}

crore_conformance::conformance!(make);

mod reopened {
    //! The suite, with the store reopened often.
    use super::*;

    async fn make() -> Subject<Driven> {
        driven(small(), Reopen::Every(3))
    }

    crore_conformance::conformance!(make);
}

#[test]
fn the_embedded_store_equals_the_memory_store() {
    model::check_store(300, 60, async || driven(small(), Reopen::Never));
}

#[test]
fn the_embedded_store_equals_the_memory_store_across_reopening() {
    model::check_reopened_store(150, 60, async || driven(small(), Reopen::Every(5)));
}
