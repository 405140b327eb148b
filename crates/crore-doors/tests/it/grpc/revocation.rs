//! Streams and waiting calls end when the token of their caller is revoked or expires.

use std::time::Duration;

use crore_api::{Scope, access};
use crore_wire::TokenSecret;
use crore_wire::api::tokens::NewToken;
use crore_wire::grpc::lakh;
use crore_wire::grpc::lakh::lakh_client::LakhClient;
use crore_wire::grpc::v1;
use crore_wire::grpc::v1::admin_client::AdminClient;
use crore_wire::grpc::v1::jobs_client::JobsClient;
use crore_wire::grpc::v1::work_client::WorkClient;
use crore_wire::units::Period;
use futures_util::future::{BoxFuture, join_all};
use futures_util::stream::{self, Stream, StreamExt};
use http::Method;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout};
use tonic::{Code, Request, Status, Streaming};

use super::{connect, hello, job, problem};
use crate::access::{bearer, token};
use crate::raw::{request, send};
use crate::server::{BodyEncoding, Server};

/// A stream ends within this time of the revocation.
const SOON: Duration = Duration::from_secs(2);

/// A request with a token, and the job names of Lakh.
fn with<T>(token: &TokenSecret, ask: T) -> Request<T> {
    let mut request = Request::new(ask);
    let text = format!("Bearer {}", token.reveal());
    request.metadata_mut().insert("authorization", text.parse().expect("a text"));
    request.metadata_mut().insert("job_names", "lakh".parse().expect("a text"));
    request
}

/// These messages, without an end.
fn endless<T: Send + 'static>(messages: Vec<T>) -> impl Stream<Item = T> + Send + 'static {
    stream::iter(messages).chain(stream::pending())
}

/// Opens a stream of a worker.
async fn work(server: &Server, token: &TokenSecret, id: &str) -> Streaming<v1::ServerSays> {
    let mut client = WorkClient::new(connect(server).await);
    let first = v1::WorkerSays { hello: Some(hello("mail", 1, id)), ..v1::WorkerSays::default() };
    client.stream(with(token, endless(vec![first]))).await.expect("a stream").into_inner()
}

/// The status at the end of a stream.
async fn last_status<T>(mut stream: Streaming<T>) -> Status {
    loop {
        match stream.message().await {
            Ok(Some(_)) => {}
            Ok(None) => return Status::ok("it ended"),
            Err(status) => return status,
        }
    }
}

/// The next job of a worker.
async fn next_job(stream: &mut Streaming<v1::ServerSays>) -> v1::Delivered {
    loop {
        let mut message = stream.message().await.expect("a message").expect("it goes on");
        if !message.jobs.is_empty() {
            return message.jobs.remove(0);
        }
    }
}

/// Calls of one caller that last: each completes with its status.
type LastingCalls = Vec<(&'static str, BoxFuture<'static, Status>)>;

async fn lasting_calls(server: &Server, token: &TokenSecret) -> LastingCalls {
    let channel = connect(server).await;
    let batch = v1::PushRequest { jobs: vec![job("other")], ..v1::PushRequest::default() };
    let mut jobs = JobsClient::new(channel.clone());
    let pushes = jobs.push_stream(with(token, endless(vec![batch.clone()]))).await.expect("open");
    let mut pushes = pushes.into_inner();
    let pushed = pushes.message().await.expect("a message").expect("it goes on");
    let id = pushed.jobs[0].id;
    let mut admin = AdminClient::new(channel.clone());
    let events = admin.listen(with(token, v1::ListenRequest::default())).await.expect("open");
    let mut lakh_client = LakhClient::new(channel.clone());
    let join = with(token, endless(Vec::<lakh::JobResult>::new()));
    let joined = lakh_client.join(join).await.expect("open").into_inner();
    let sends = with(token, endless(Vec::<lakh::Job>::new()));
    let sent = async move { lakh_client.work(sends).await.map(drop).expect_err("it lasts") };
    let fetch = v1::FetchRequest {
        queues: vec!["empty".to_owned()],
        wait_ms: 60_000,
        ..v1::FetchRequest::default()
    };
    let fetch = with(token, fetch);
    let mut worker = WorkClient::new(channel);
    let fetched = async move { worker.fetch(fetch).await.map(drop).expect_err("it lasts") };
    let wait = with(token, v1::WaitRequest { id, wait_ms: 60_000 });
    let waited = async move { jobs.wait(wait).await.map(drop).expect_err("it lasts") };
    vec![
        ("PushStream", Box::pin(last_status(pushes))),
        ("Listen", Box::pin(last_status(events.into_inner()))),
        ("lakh Join", Box::pin(last_status(joined))),
        ("lakh Work", Box::pin(sent)),
        ("Fetch", Box::pin(fetched)),
        ("Wait", Box::pin(waited)),
    ]
}

/// Reads server-sent events until the stream ends.
async fn events(server: &Server, token: &TokenSecret) -> String {
    let mut stream = server.connect().await;
    let ask = request("GET", "/v1/events", server.address, &[&bearer(token), "connection: close"]);
    stream.write_all(ask.as_bytes()).await.expect("written");
    let mut text = String::new();
    stream.read_to_string(&mut text).await.expect("it ends");
    text
}

#[tokio::test]
async fn streams_and_waits_end_when_their_token_is_revoked() {
    let server = Server::start().await;
    let admin = token(&server.engine, "admin", Scope::ALL).await;
    let scopes = [Scope::Push, Scope::Work, Scope::Read];
    let (lost, kept) = (
        token(&server.engine, "lost", &scopes).await,
        token(&server.engine, "kept", &scopes).await,
    );
    let mut first = work(&server, &lost, "one").await;
    let mut pusher = JobsClient::new(connect(&server).await);
    let batch = v1::PushRequest { jobs: vec![job("mail")], ..v1::PushRequest::default() };
    pusher.push(with(&kept, batch)).await.expect("pushed");
    let held = next_job(&mut first).await;
    let mut second = work(&server, &kept, "two").await;
    let mut calls = lasting_calls(&server, &lost).await;
    calls.push(("Stream", Box::pin(last_status(first))));

    let body = r#"{"queues":["empty"],"wait":"60s"}"#;
    let poll = format!(
        "POST /v1/fetch HTTP/1.1\r\nhost: {}\r\n{}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        server.address,
        bearer(&lost),
        body.len()
    );
    let revoke = async {
        // The calls above wait by then; those that come later are refused as well.
        let delete = (Method::DELETE, "/v1/tokens/lost");
        let authorization = format!("Bearer {}", admin.reveal());
        let headers = [("authorization", authorization.as_str())];
        let reply = server.send(BodyEncoding::Json, delete, &headers, Vec::new()).await;
        assert_eq!(reply.status, 204, "{reply:?}");
        Instant::now()
    };
    let calls =
        calls.into_iter().map(|(name, call)| async move { (name, call.await, Instant::now()) });
    let all = async {
        tokio::join!(
            join_all(calls),
            events(&server, &lost),
            send(server.address, 1, &poll),
            revoke
        )
    };
    let (calls, events, polled, revoked) = timeout(SOON * 2, all).await.expect("all end");
    for (name, status, at) in calls {
        assert_eq!((status.code(), name), (Code::Unauthenticated, name), "{status:?}");
        assert_eq!(problem(&status).code, "token-needed", "{name}");
        assert!(at.duration_since(revoked) < SOON, "{name}");
    }
    assert_eq!((polled.status, polled.code().as_str()), (401, "token-needed"));
    assert!(
        events.contains("event: error\ndata: {") && events.contains("token-needed"),
        "{events}"
    );
    assert!(revoked.elapsed() < SOON, "{:?}", revoked.elapsed());
    // Another token is not affected, and the jobs go to its worker.
    let again = timeout(SOON, next_job(&mut second)).await.expect("handed back");
    assert_eq!((again.id, again.attempt), (held.id, 1));
}

#[tokio::test]
async fn a_stream_ends_when_its_token_expires() {
    let server = Server::start().await;
    let second = crore_core::Span::from_secs(1);
    let new = NewToken {
        name: "brief".to_owned(),
        scopes: vec![Scope::Work],
        expires_in: Some(Period(second)),
        ..NewToken::default()
    };
    let (_, secret) = access::create(&server.engine, &new).await.expect("made");
    let made = Instant::now();
    let stream = work(&server, &secret, "one").await;
    let status = timeout(SOON * 2, last_status(stream)).await.expect("it ends");
    assert_eq!((status.code(), problem(&status).code.as_str()), {
        (Code::Unauthenticated, "token-needed")
    });
    let lasted = made.elapsed();
    let second = Duration::from(second);
    assert!(lasted > second * 9 / 10 && lasted < second + SOON, "{lasted:?}");
}
