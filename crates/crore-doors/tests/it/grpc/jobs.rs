//! Pushing and looking.

use crore_wire::grpc::v1;
use crore_wire::grpc::v1::job_ref::Which;
use tonic::Code;

use super::{connect, job, jobs, problem, push};
use crate::server::Server;

fn by_id(id: u64) -> v1::JobRef {
    v1::JobRef { which: Some(Which::Id(id)) }
}

#[tokio::test]
async fn a_job_is_pushed_seen_cancelled_and_gone() {
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
    assert_eq!(client.get(by_id(id)).await.expect_err("gone").code(), Code::NotFound);
}

#[tokio::test]
async fn a_bad_job_is_refused_alone_and_by_name() {
    let server = Server::start().await;
    let bad = v1::NewJob { encoding: 99, ..job("mail") };
    let waits = v1::NewJob {
        after: vec![v1::After { on: Some(v1::after::On::Earlier(0)), needs: 0 }],
        ..job("mail")
    };
    let batch = vec![bad, job("mail"), v1::NewJob::default(), waits];
    let ask = v1::PushRequest { jobs: batch, tag: 9, ..v1::PushRequest::default() };
    let said = jobs(&server).await.push(ask).await.expect("answered").into_inner();
    assert_eq!((said.refused, said.tag), (3, 9));
    let fields = said.jobs.iter().map(|job| job.problem.as_ref().map(|why| why.field.as_str()));
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
    while let Some(said) = answers.message().await.expect("answered") {
        tags += 1;
        assert_eq!(said.tag, tags);
        for job in said.jobs {
            assert!(job.id > last, "in the order of the batches");
            last = job.id;
        }
    }
    assert_eq!(tags, 200);
}

#[tokio::test]
async fn what_is_not_there_is_unimplemented_and_the_connection_goes_on() {
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
