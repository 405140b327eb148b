//! Required versions over gRPC.

use crore_wire::grpc::v1;
use crore_wire::grpc::v1::admin_client::AdminClient;
use crore_wire::grpc::v1::work_client::WorkClient;

use super::{Worker, connect, hello, job, jobs, problem};
use crate::server::Server;

fn versions(kind: &str, version: &str) -> std::collections::BTreeMap<String, String> {
    [(kind.to_owned(), version.to_owned())].into()
}

async fn push(server: &Server, worker_version: &str) -> u64 {
    let needed = v1::NewJob { worker_version: worker_version.to_owned(), ..job("mail") };
    let ask = v1::PushRequest { jobs: vec![needed], ..v1::PushRequest::default() };
    let pushed = jobs(server).await.push(ask).await.expect("pushed").into_inner();
    pushed.jobs[0].id
}

#[tokio::test]
async fn a_stream_gets_the_jobs_of_its_versions() {
    let server = Server::start().await;
    let first = push(&server, ">=2").await;
    let old = v1::Hello { versions: versions("mail", "1.9"), ..hello("mail", 2, "old") };
    let old = Worker::start(&server, old).await;
    let new = v1::Hello { versions: versions("mail", "2.3"), ..hello("mail", 2, "new") };
    let mut new = Worker::start(&server, new).await;
    assert_eq!(new.jobs().await[0].id, first);
    // A stream that waits is woken.
    let second = push(&server, ">=2.3").await;
    assert_eq!(new.jobs().await[0].id, second);
    let shown =
        jobs(&server).await.get(v1::JobRef { which: Some(v1::job_ref::Which::Id(second)) }).await;
    assert_eq!(shown.expect("a job").into_inner().worker_version, ">=2.3");
    let list = AdminClient::new(connect(&server).await).list_workers(v1::Nothing {}).await;
    let workers = list.expect("workers").into_inner().workers;
    let shown: Vec<_> =
        workers.iter().map(|one| one.stream.clone().expect("a stream").versions).collect();
    assert_eq!(shown, [versions("mail", "2.3.0"), versions("mail", "1.9.0")]);
    drop(old);
}

#[tokio::test]
async fn a_fetch_gets_the_jobs_of_its_versions() {
    let server = Server::start().await;
    let id = push(&server, "=2").await;
    let mut work = WorkClient::new(connect(&server).await);
    let ask = |version: &str| v1::FetchRequest {
        queues: vec!["mail".to_owned()],
        versions: versions("mail", version),
        ..v1::FetchRequest::default()
    };
    assert_eq!(work.fetch(ask("3")).await.expect("fetched").into_inner().jobs, []);
    let fetched = work.fetch(ask("2.7")).await.expect("fetched").into_inner();
    assert_eq!(fetched.jobs[0].id, id);
    let refused = work.fetch(ask("two")).await.expect_err("no version");
    let found = problem(&refused);
    assert_eq!((found.code.as_str(), found.field.as_str()), ("version-invalid", "versions.mail"));
}
