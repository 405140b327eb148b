//! `crore.v1.Jobs`.

use crore_wire::grpc::v1;
use crore_wire::grpc::v1::job_ref::Which;
use futures_util::StreamExt;
use tonic::{Code, Status};

use super::{connect, job, jobs, problem, push};
use crate::server::Server;

fn by_id(id: u64) -> v1::JobRef {
    v1::JobRef { which: Some(Which::Id(id)) }
}

/// A push with an idempotency key.
async fn keyed(server: &Server, key: &str, kinds: &[&str]) -> Result<v1::PushResponse, Status> {
    let jobs_ = kinds.iter().map(|kind| job(kind)).collect();
    let idempotency_key = key.to_owned();
    let ask = v1::PushRequest { jobs: jobs_, idempotency_key, ..v1::PushRequest::default() };
    Ok(jobs(server).await.push(ask).await?.into_inner())
}

#[tokio::test]
async fn a_push_sent_twice_with_one_key_is_one_push() {
    let server = Server::start().await;
    let first = keyed(&server, "k-1", &["a", "b"]).await.expect("pushed");
    assert!(first.jobs.iter().all(|job| job.id > 0 && !job.duplicate));
    let again = keyed(&server, "k-1", &["a", "b"]).await.expect("sent again");
    assert_eq!(again, first);
    let other = keyed(&server, "k-2", &["a", "b"]).await.expect("pushed");
    assert_ne!(other.jobs[0].id, first.jobs[0].id);
    for kinds in [&["a"][..], &["a", "c"], &["a", "b", "c"]] {
        let reused = keyed(&server, "k-1", kinds).await.expect_err("it was used for another");
        assert_eq!((reused.code(), &*problem(&reused).code), (Code::AlreadyExists, "key-reused"));
    }
    for bad in ["x".repeat(201), "\u{e4}".to_owned(), "a\nb".to_owned()] {
        let bad = keyed(&server, &bad, &["a"]).await.expect_err("no key");
        let field = problem(&bad).field;
        assert_eq!((bad.code(), &*field), (Code::InvalidArgument, "idempotency_key"));
    }
    let counts = server.engine.jobs().counts(None).await.expect("counted");
    assert_eq!(counts.iter().map(|count| count.n).sum::<u64>(), 4);
}

#[tokio::test]
async fn each_batch_of_a_stream_has_its_own_key_and_jobs_one_sort_of_key() {
    let server = Server::start().await;
    let batch = |tag: u64, key: &str| v1::PushRequest {
        jobs: vec![job("a")],
        tag,
        idempotency_key: key.to_owned(),
        ..v1::PushRequest::default()
    };
    let mut unique = batch(4, "k");
    unique.jobs[0].unique = Some(v1::Unique { key: "u".to_owned(), ..v1::Unique::default() });
    let requests = [batch(1, "x"), batch(2, "x"), batch(3, "y"), unique];
    let answers = jobs(&server).await.push_stream(futures_util::stream::iter(requests)).await;
    let answers: Vec<_> = answers.expect("a stream").into_inner().collect().await;
    let answers: Vec<_> = answers.into_iter().map(|answer| answer.expect("answered")).collect();
    let ids: Vec<_> = answers.iter().map(|answer| (answer.tag, answer.jobs[0].id)).collect();
    assert_eq!((ids[0].0, ids[1].0), (1, 2));
    assert!(ids[0].1 == ids[1].1 && ids[0].1 != ids[2].1, "{ids:?}");
    let refused = answers[3].jobs[0].problem.as_ref().expect("it has two keys");
    assert_eq!(refused.field, "jobs[0].unique");
}

#[tokio::test]
async fn a_job_is_pushed_shown_cancelled_and_deleted() {
    let server = Server::start().await;
    let mut client = jobs(&server).await;
    let id = push(&server, "mail", 1).await[0];
    let seen = client.get(by_id(id)).await.expect("seen").into_inner();
    assert_eq!((seen.kind.as_str(), seen.state()), ("mail", v1::State::Ready));
    assert_eq!(seen.payload.as_deref(), Some(&b"{}"[..]));
    let ask = v1::ListRequest { queue: "mail".into(), ..v1::ListRequest::default() };
    let listed = client.list(ask).await.expect("listed").into_inner();
    assert_eq!(listed.jobs.iter().map(|job| job.id).collect::<Vec<_>>(), [id]);
    let change = v1::ChangeRequest {
        job: Some(by_id(id)),
        priority: Some(-7),
        ..v1::ChangeRequest::default()
    };
    client.change(change).await.expect("changed");
    assert_eq!(client.get(by_id(id)).await.expect("seen").into_inner().priority, -7);
    let acted = client.cancel(by_id(id)).await.expect("cancelled").into_inner();
    assert_eq!(acted.state(), v1::State::Cancelled);
    let ended = client.wait(v1::WaitRequest { id, wait_ms: 0 }).await.expect("ended");
    assert_eq!(ended.into_inner().state(), v1::State::Cancelled);
    client.delete(by_id(id)).await.expect("deleted");
    assert_eq!(client.get(by_id(id)).await.expect_err("removed").code(), Code::NotFound);
}

#[tokio::test]
async fn an_invalid_job_alone_is_refused_with_its_field() {
    let server = Server::start().await;
    let bad = v1::NewJob { encoding: 99, ..job("mail") };
    let waits = v1::NewJob {
        after: vec![v1::After { on: Some(v1::after::On::Earlier(0)), needs: 0 }],
        ..job("mail")
    };
    let batch = vec![bad, job("mail"), v1::NewJob::default(), waits];
    let ask = v1::PushRequest { jobs: batch, tag: 9, ..v1::PushRequest::default() };
    let response = jobs(&server).await.push(ask).await.expect("answered").into_inner();
    assert_eq!((response.refused, response.tag), (3, 9));
    let fields = response.jobs.iter().map(|job| job.problem.as_ref().map(|why| why.field.as_str()));
    let fields: Vec<_> = fields.collect();
    let expected = [Some("jobs[0].encoding"), None, Some("jobs[2].kind"), Some("jobs[3].after")];
    assert_eq!(fields, expected);
}

#[tokio::test]
async fn a_refusal_carries_our_code_and_the_field() {
    let server = Server::start().await;
    let ask = v1::ListRequest { limit: 100_000, ..v1::ListRequest::default() };
    let status = jobs(&server).await.list(ask).await.expect_err("too many");
    assert_eq!(status.code(), Code::InvalidArgument);
    let problem = problem(&status);
    assert_eq!((problem.code.as_str(), problem.field.as_str()), ("count-range", "limit"));
}

#[tokio::test]
async fn batches_of_a_stream_are_answered_in_order() {
    let server = Server::start().await;
    let batches = (1..=200).map(|tag| v1::PushRequest {
        jobs: vec![job("mail"); 3],
        tag,
        ..v1::PushRequest::default()
    });
    let stream = futures_util::stream::iter(batches.collect::<Vec<_>>());
    let mut answers = jobs(&server).await.push_stream(stream).await.expect("taken").into_inner();
    let (mut tags, mut last) = (0, 0);
    while let Some(response) = answers.message().await.expect("answered") {
        tags += 1;
        assert_eq!(response.tag, tags);
        for job in response.jobs {
            assert!(job.id > last, "in the order of the batches");
            last = job.id;
        }
    }
    assert_eq!(tags, 200);
}

#[tokio::test]
async fn unknown_methods_are_unimplemented_and_the_connection_stays_open() {
    let server = Server::start().await;
    let channel = connect(&server).await;
    for path in ["/crore.v1.Jobs/Nothing", "/no.such.Service/At"] {
        let mut grpc = tonic::client::Grpc::new(channel.clone());
        grpc.ready().await.expect("ready");
        let codec = tonic_prost::ProstCodec::<v1::JobRef, v1::Job>::default();
        let ask = tonic::Request::new(by_id(1));
        let status = grpc.unary(ask, http::uri::PathAndQuery::from_static(path), codec).await;
        assert_eq!(status.expect_err("there is none").code(), Code::Unimplemented, "{path}");
    }
    let mut client = v1::jobs_client::JobsClient::new(channel);
    assert_eq!(client.get(by_id(1)).await.expect_err("no job").code(), Code::NotFound);
}
