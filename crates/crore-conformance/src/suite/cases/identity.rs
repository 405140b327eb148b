//! A store keeps the identity that it drew when it was created.

use super::super::job_builder::job;
use super::super::subject::StoreSubject;

pub(in super::super) async fn the_identity_of_a_store_does_not_change(s: &StoreSubject) {
    let id = s.store.store_id();
    for _ in 0..6 {
        s.start(job("a")).await;
        assert_eq!(s.store.store_id(), id);
    }
}
