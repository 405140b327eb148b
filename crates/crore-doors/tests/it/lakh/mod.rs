//! Lakh, called by a real client.

mod bad;
mod faults;
mod lightjq;
mod promises;
mod reports;

use std::sync::Arc;
use std::time::Duration;

use crore::Engine;
use crore::store::Memory;
use crore_core::job::ClientId;
use crore_core::{Job as Stored, Name, Span};
use crore_doors::{Options, listen};
use crore_testkit::FakeClock;
use crore_wire::grpc::lakh::job::ExecutionTime;
use crore_wire::grpc::lakh::lakh_client::LakhClient;
use crore_wire::grpc::lakh::{Job, JobResult, JobStatus};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tonic::metadata::MetadataValue;
use tonic::transport::Channel;
use tonic::{Request, Status, Streaming};

use crate::grpc::connect;
use crate::server::{Server, eventually};

/// Longer than any expected message takes.
const LONG: Duration = Duration::from_secs(10);
/// Long enough to see that no message comes.
const A_MOMENT: Duration = Duration::from_millis(100);

async fn lakh(server: &Server) -> LakhClient<Channel> {
    LakhClient::new(connect(server).await)
}

/// A request with these `job_names`.
fn about<T>(names: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    let names = MetadataValue::try_from(names).expect("ASCII");
    request.metadata_mut().insert("job_names", names);
    request
}

/// A job to start now, with a reservation of half a minute.
fn job(id: &str, name: &str) -> Job {
    Job {
        id: id.to_owned(),
        name: name.to_owned(),
        args: vec!["a".to_owned(), "ü \"b\"".to_owned()],
        execution_time: Some(ExecutionTime::Immediate(())),
        reservation_time: Some(seconds(30)),
    }
}

const fn seconds(seconds: i64) -> prost_types::Duration {
    prost_types::Duration { seconds, nanos: 0 }
}

/// Sends jobs with the job name `mail`.
async fn work(server: &Server, jobs: Vec<Job>) -> Result<(), Status> {
    let jobs = about("mail", futures_util::stream::iter(jobs));
    lakh(server).await.work(jobs).await.map(tonic::Response::into_inner)
}

async fn send(server: &Server, jobs: Vec<Job>) {
    work(server, jobs).await.expect("taken");
}

/// The messages of a client, as a stream.
struct ReceiverStream<T>(mpsc::Receiver<T>);

impl<T> futures_util::Stream for ReceiverStream<T> {
    type Item = T;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<T>> {
        self.0.poll_recv(context)
    }
}

/// A worker with its own connection.
struct Worker {
    says: mpsc::Sender<JobResult>,
    hears: Streaming<Job>,
}

impl Worker {
    async fn join(server: &Server, names: &str) -> Self {
        let (says, to_say) = mpsc::channel(16);
        let joined = lakh(server).await.join(about(names, ReceiverStream(to_say))).await;
        Self { says, hears: joined.expect("joined").into_inner() }
    }

    /// The next job.
    async fn job(&mut self) -> Job {
        let job = timeout(LONG, self.hears.message()).await.expect("a job comes");
        job.expect("good").expect("the stream continues")
    }

    /// Checks that no job comes for now.
    async fn expect_no_job(&mut self) {
        let received = timeout(A_MOMENT, self.hears.message()).await;
        assert!(received.is_err(), "{received:?}");
    }

    async fn report(&self, id: &str, status: i32) {
        self.report_named("mail", id, status).await;
    }

    async fn report_named(&self, name: &str, id: &str, status: i32) {
        let (job_id, job_name) = (id.to_owned(), name.to_owned());
        self.says.send(JobResult { job_id, job_name, status }).await.expect("sent");
    }

    async fn succeeded(&self, id: &str) {
        self.report(id, JobStatus::Succeeded as i32).await;
    }

    async fn failed(&self, id: &str) {
        self.report(id, JobStatus::Failed as i32).await;
    }
}

/// A stored job, by its producer's id.
async fn stored(engine: &Engine, name: &str, id: &str) -> Option<Stored> {
    let door = Name::new("door", &format!("lakh:{name}")).expect("a valid name");
    let which = crore::store::jobs::JobSelector::Client(ClientId { door, id: id.into() });
    engine.get(which).await.expect("seen")
}

/// Waits until a job named `mail` fulfils the condition.
async fn becomes(server: &Server, id: &str, is: impl Fn(&Stored) -> bool) -> Stored {
    let is = &is;
    eventually(|| async move {
        let job = stored(&server.engine, "mail", id).await;
        job.is_some_and(|job| is(&job))
    })
    .await;
    stored(&server.engine, "mail", id).await.expect("it exists")
}

/// A server on a fake clock.
struct FakeClockServer {
    server: Server,
    clock: Arc<FakeClock>,
}

impl FakeClockServer {
    async fn start() -> Self {
        let clock = Arc::new(FakeClock::default());
        let store = Arc::new(Memory::new(clock.clone()));
        let engine = crore::block_on(Engine::without_thread(
            store,
            clock.clone(),
            crore::Options::default(),
        ));
        let server = on(engine.expect("an engine")).await;
        Self { server, clock }
    }

    /// Advances the clock.
    async fn advance(&self, span: Span) {
        self.clock.advance(span);
        self.server.engine.upkeep().run_once().await.expect("upkeep");
    }
}

async fn on(engine: Engine) -> Server {
    Server::start_on(engine, Options::default(), listen::Options::default()).await
}
