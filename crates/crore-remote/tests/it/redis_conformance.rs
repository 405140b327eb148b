//! The promises of the seam, on a Cluster of three nodes with eight shards, and on a single Redis
//! with one.

mod one {
    async fn make() -> crore_store::conformance::Subject<crore_remote::redis::Redis> {
        let (store, clock) = crate::redis::single().await;
        crore_store::conformance::Subject { store, clock }
    }
    crore_store::conformance_jobs!(make);
}

mod cluster {
    async fn make() -> crore_store::conformance::Subject<crore_remote::redis::Redis> {
        let (store, clock) = crate::redis::clustered(8).await;
        crore_store::conformance::Subject { store, clock }
    }
    crore_store::conformance_jobs!(make);
}
