//! Replays over gRPC.

use crore_wire::grpc::v1;
use crore_wire::grpc::v1::admin_client::AdminClient;
use tonic::Code;

use super::{connect, job, jobs, problem};
use crate::server::Server;

fn by_id(id: u64) -> Option<v1::JobRef> {
    Some(v1::JobRef { which: Some(v1::job_ref::Which::Id(id)) })
}

async fn push(server: &Server) -> u64 {
    let needed = v1::NewJob { worker_version: ">=2".to_owned(), ..job("mail") };
    let ask = v1::PushRequest { jobs: vec![needed], ..v1::PushRequest::default() };
    jobs(server).await.push(ask).await.expect("pushed").into_inner().jobs[0].id
}

#[tokio::test]
async fn a_replay_is_a_new_job_with_edits_and_a_link() {
    let server = Server::start().await;
    let original = push(&server).await;
    let edits = v1::ReplayRequest {
        job: by_id(original),
        payload: Some("[2]".into()),
        queue: Some("slow".to_owned()),
        worker_version: Some(String::new()),
        ..v1::ReplayRequest::default()
    };
    let pushed = jobs(&server).await.replay(edits).await.expect("replayed").into_inner();
    let shown = jobs(&server).await.get(by_id(pushed.id).expect("an id")).await;
    let shown = shown.expect("a job").into_inner();
    assert_eq!(
        (shown.replay_of, shown.queue.as_str(), shown.kind.as_str()),
        (original, "slow", "mail")
    );
    assert_eq!((shown.payload.as_deref(), shown.worker_version.as_str()), (Some(&b"[2]"[..]), ""));
    for (request, code, expected) in [
        (v1::ReplayRequest::default(), Code::InvalidArgument, ("malformed", "job")),
        (
            v1::ReplayRequest { job: by_id(999), ..v1::ReplayRequest::default() },
            Code::NotFound,
            ("not-found", ""),
        ),
        (
            v1::ReplayRequest {
                job: by_id(original),
                worker_version: Some("2".to_owned()),
                ..v1::ReplayRequest::default()
            },
            Code::InvalidArgument,
            ("version-requirement", "worker_version"),
        ),
        (
            v1::ReplayRequest {
                job: by_id(original),
                payload: Some("{".into()),
                ..v1::ReplayRequest::default()
            },
            Code::InvalidArgument,
            ("payload-malformed", "payload"),
        ),
    ] {
        let status = jobs(&server).await.replay(request).await.expect_err("refused");
        let problem = problem(&status);
        assert_eq!((problem.code.as_str(), problem.field.as_str()), expected, "{status:?}");
        assert_eq!(status.code(), code);
    }
}

#[tokio::test]
async fn a_bulk_action_replays_jobs() {
    let server = Server::start().await;
    push(&server).await;
    let edits = v1::ReplayEdits { queue: Some("slow".to_owned()), ..v1::ReplayEdits::default() };
    let request = v1::ActRequest {
        act: v1::act_request::Act::Replay.into(),
        kind: "mail".to_owned(),
        replay: Some(edits),
        ..v1::ActRequest::default()
    };
    let mut admin = AdminClient::new(connect(&server).await);
    let mut steps = admin.act_on_all(request).await.expect("started").into_inner();
    let mut last = None;
    while let Some(step) = steps.message().await.expect("progress") {
        last = Some(step.done);
    }
    assert_eq!(last, Some(1));
    let replay = jobs(&server).await.get(by_id(2).expect("an id")).await.expect("a job");
    assert_eq!((replay.get_ref().replay_of, replay.get_ref().queue.as_str()), (1, "slow"));
}
