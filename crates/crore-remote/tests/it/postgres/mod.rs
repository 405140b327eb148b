//! The store on PostgreSQL. Each test has a schema of its own.

mod apply;
mod claim;
mod groups;
mod limits;
mod push;
mod races;
mod registry;
mod schema;
mod suite;

use std::sync::Arc;

use crore_core::machine::{JobEvent, Outcome, decide};
use crore_core::version::KindVersions;
use crore_core::{Job, JobId, Name, NewJob, Payload, Spec, Time};
use crore_remote::sql::postgres::{Postgres, PostgresOptions};
use crore_store::jobs::{Applied, Claim, Pushed, QueueOrder, StoreWrite};
use crore_store::registry::{Define, RegistryValue};
use crore_store::{Jobs, Registry};
use crore_testkit::{FakeClock, or_skip, shared, unique_name};

/// A store of its own, with its clock.
struct PostgresSubject {
    store: Postgres,
    clock: FakeClock,
    options: PostgresOptions,
    url: String,
}

fn name(text: &str) -> Name {
    Name::new("name", text).expect("a valid name")
}

fn spec(queue: &str, kind: &str) -> Spec {
    Spec::new(name(queue), name(kind), Payload::json("{}"))
}

fn job(queue: &str) -> NewJob {
    spec(queue, "k").into()
}

const DONE: Outcome = Outcome::Done { result: None };

fn ask(queues: &[&str], n: usize) -> Claim {
    let queues = queues.iter().map(|queue| name(queue)).collect();
    Claim {
        queues,
        kinds: None,
        versions: KindVersions::default(),
        n,
        order: QueueOrder::Merged,
        worker: name("w"),
    }
}

/// A fresh store; none on a machine without a server.
async fn subject() -> Option<PostgresSubject> {
    let url = or_skip(shared::postgres())?;
    let clock = FakeClock::default();
    let mut options = PostgresOptions::new(name(&unique_name("crore")));
    options.clock = Some(Arc::new(clock.clone()));
    let store = Postgres::open(&url, options.clone()).await.expect("opens");
    Some(PostgresSubject { store, clock, options, url })
}

/// A fresh store and its clock, for other test modules.
pub(crate) async fn shared_store() -> Option<(Arc<Postgres>, FakeClock)> {
    let PostgresSubject { store, clock, .. } = subject().await?;
    Some((Arc::new(store), clock))
}

impl PostgresSubject {
    /// Another node on the same schema.
    async fn node(&self) -> Postgres {
        Postgres::open(&self.url, self.options.clone()).await.expect("opens")
    }

    async fn answers(&self, jobs: Vec<NewJob>) -> Vec<Pushed> {
        self.store.push(jobs.into()).await.expect("pushes").into_inner().jobs
    }

    /// Pushes jobs that are all new.
    async fn push(&self, jobs: Vec<NewJob>) -> Vec<JobId> {
        let new = |pushed| match pushed {
            Pushed::New(id) => id,
            other => panic!("not new: {other:?}"),
        };
        self.answers(jobs).await.into_iter().map(new).collect()
    }

    async fn claim(&self, ask: Claim) -> Vec<Job> {
        self.store.claim(ask).await.expect("claims").jobs
    }

    async fn claim_ids(&self, ask: Claim) -> Vec<JobId> {
        self.claim(ask).await.into_iter().map(|job| job.id).collect()
    }

    async fn get(&self, id: JobId) -> Option<Job> {
        self.store.get(vec![id.into()]).await.expect("gets").pop().expect("one answer")
    }

    async fn apply(&self, write: StoreWrite) -> Applied {
        let answers = self.store.apply(vec![write]).await.expect("applies");
        answers.into_inner().pop().expect("one answer")
    }

    async fn decide(&self, job: &Job, event: JobEvent) -> Applied {
        let change = decide(job, &event, 0).expect("is decided");
        self.apply(StoreWrite::Job(change)).await
    }

    async fn finish(&self, job: &Job, outcome: Outcome) -> Applied {
        let delivery = Some(job.live.delivery);
        self.decide(job, JobEvent::Finished { delivery, report: outcome.into() }).await
    }

    async fn define(&self, entry: &str, value: RegistryValue) {
        let set = Define::set(name(entry), value);
        _ = self.store.define(vec![set]).await.expect("defines");
    }

    fn now(&self) -> Time {
        crore_core::Clock::now(&self.clock)
    }
}
