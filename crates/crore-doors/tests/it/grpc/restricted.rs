//! Streams of workers with restricted tokens.

use crore_api::{Scope, access};
use crore_wire::TokenSecret;
use crore_wire::api::tokens::NewToken;
use crore_wire::grpc::v1;
use crore_wire::grpc::v1::work_client::WorkClient;
use tokio::sync::mpsc;
use tonic::{Code, Request, Status, Streaming};

use super::{WorkerMessages, connect, hello, problem};
use crate::server::Server;

async fn token(server: &Server, name: &str, queues: &[&str], kinds: &[&str]) -> TokenSecret {
    let owned = |all: &[&str]| all.iter().map(ToString::to_string).collect();
    let (queues, kinds) = (owned(queues), owned(kinds));
    let scopes = vec![Scope::Work, Scope::Push];
    let new = NewToken { name: name.to_owned(), scopes, queues, kinds, ..NewToken::default() };
    access::create(&server.engine, &new).await.expect("made").1
}

type SessionEnds = (mpsc::Sender<v1::WorkerSays>, Streaming<v1::ServerSays>);

async fn start(server: &Server, token: &TokenSecret, hello: v1::Hello) -> SessionEnds {
    let mut client = WorkClient::new(connect(server).await);
    let (says, to_say) = mpsc::channel(16);
    let first = v1::WorkerSays { hello: Some(hello), ..v1::WorkerSays::default() };
    says.send(first).await.expect("said");
    let mut request = Request::new(WorkerMessages(to_say));
    let bearer = format!("Bearer {}", token.reveal()).parse().expect("ASCII");
    request.metadata_mut().insert("authorization", bearer);
    (says, client.stream(request).await.expect("a stream").into_inner())
}

async fn first(hears: &mut Streaming<v1::ServerSays>) -> Result<v1::ServerSays, Status> {
    Ok(hears.message().await?.expect("a message"))
}

async fn push(server: &Server, queue: &str) -> u64 {
    let queue = crore::core::Name::new("queue", queue).expect("a good name");
    let spec = crore::core::Spec::new(queue.clone(), queue, crore::core::Payload::json("1"));
    let pushed = server.engine.push_all(crore::core::NewJob::from(spec).into()).await;
    pushed.expect("pushed").jobs[0].id().expect("stored").0
}

#[tokio::test]
async fn a_worker_fetches_only_from_covered_queues_and_names_its_kinds() {
    let server = Server::start().await;
    let queues = token(&server, "queues", &["mail*"], &[]).await;
    let kinds = token(&server, "kinds", &[], &["mail*"]).await;
    let named = |queue: &str, kind: &str| v1::Hello {
        kinds: vec![kind.to_owned()],
        ..hello(queue, 1, "w1")
    };
    for (token, hello, field) in [
        (&queues, hello("sms", 1, "w1"), "hello.queues[0]"),
        (&kinds, hello("mail", 1, "w1"), "hello.kinds"),
        (&kinds, named("mail", "resize"), "hello.kinds[0]"),
    ] {
        let (_says, mut hears) = start(&server, token, hello).await;
        let status = first(&mut hears).await.expect_err("refused");
        assert_eq!(status.code(), Code::PermissionDenied, "{status:?}");
        let problem = problem(&status);
        assert_eq!((problem.code.as_str(), problem.field.as_str()), ("scope-missing", field));
    }
    push(&server, "mail").await;
    let (_says, mut hears) = start(&server, &kinds, named("mail", "mail")).await;
    first(&mut hears).await.expect("a welcome");
    assert_eq!(first(&mut hears).await.expect("jobs").jobs.len(), 1);
}

#[tokio::test]
async fn a_restricted_worker_takes_over_no_lease_of_another_token() {
    let server = Server::start().await;
    let other = token(&server, "other", &[], &[]).await;
    let tenant = token(&server, "tenant", &["mail*"], &[]).await;
    push(&server, "sms").await;
    let (holder, mut hears) = start(&server, &other, hello("sms", 1, "same")).await;
    first(&mut hears).await.expect("a welcome");
    let job = first(&mut hears).await.expect("jobs").jobs.remove(0);
    // The same incarnation, and the same delivery.
    let held = vec![v1::Held { id: job.id, delivery: job.delivery }];
    let stolen = v1::Hello { held, ..hello("mail", 1, "same") };
    let (_says_too, mut hears_too) = start(&server, &tenant, stolen).await;
    let said = first(&mut hears_too).await.expect("a welcome");
    assert_eq!(said.welcome.expect("a welcome").kept, []);
    assert_eq!(said.lost.len(), 1, "it does not hold the job");
    // The holder still has its job.
    let report = v1::Report {
        id: job.id,
        delivery: job.delivery,
        outcome: Some(v1::report::Outcome::Done(v1::Done::default())),
        ..v1::Report::default()
    };
    let says = v1::WorkerSays { finish: vec![report], ..v1::WorkerSays::default() };
    holder.send(says).await.expect("said");
    let finished = first(&mut hears).await.expect("a response").finished;
    assert_eq!(finished.len(), 1);
    assert_eq!(finished[0].verdict(), v1::Verdict::Finished, "{finished:?}");
}
