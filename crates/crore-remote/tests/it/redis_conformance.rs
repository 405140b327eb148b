//! The conformance suite on a Cluster of three nodes with eight shards, and on a single Redis with one shard.

mod one {
    async fn make() -> crore_conformance::suite::Subject<crore_remote::redis::Redis> {
        let (store, clock) = crate::redis::single().await;
        crore_conformance::suite::Subject { store, clock }
    }
    crore_conformance::conformance_jobs!(make);
}

mod cluster {
    async fn make() -> crore_conformance::suite::Subject<crore_remote::redis::Redis> {
        let (store, clock) = crate::redis::clustered(8).await;
        crore_conformance::suite::Subject { store, clock }
    }
    crore_conformance::conformance_jobs!(make);
}

mod model {
    use crore_conformance::model;
    use crore_conformance::suite::Subject;

    #[test]
    fn one_shard_equals_the_model() {
        model::check_jobs(60, 40, async || {
            let (store, clock) = crate::redis::single().await;
            Subject { store, clock }
        });
    }

    #[test]
    fn a_cluster_of_one_shard_equals_the_model() {
        model::check_jobs(20, 40, async || {
            let (store, clock) = crate::redis::clustered(1).await;
            Subject { store, clock }
        });
    }
}
