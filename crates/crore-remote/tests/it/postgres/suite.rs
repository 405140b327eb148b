//! The conformance suite for stores, as far as it needs jobs and the registry.

use std::sync::Arc;

use crore_conformance::suite::Subject;
use crore_remote::sql::Postgres;

async fn make() -> Subject<Postgres> {
    let it = super::subject().await.expect("a running server");
    Subject { store: Arc::new(it.store), clock: Arc::new(it.clock) }
}

crore_conformance::conformance_jobs!(make);

#[test]
fn postgres_equals_the_model() {
    crore_conformance::model::check_jobs(40, 40, make);
}
