//! Misbehaving clients: they reset streams, flood, do not read, and disconnect in the middle.

use std::time::Duration;

use crore::store::views::ListQuery;
use crore_core::{Encoding, Name, NewJob, Payload, Span, Spec, State};
use crore_doors::{Options, listen};
use crore_wire::grpc::v1;
use tokio::time::timeout;

use super::frames::{
    CONTINUATION, DATA, END_HEADERS, HEADERS, Http2Frames, RST_STREAM, frame, framed, head,
};
use super::{Worker, hello, job, jobs, push};
use crate::server::{Server, eventually};

const STREAM: &str = "/crore.v1.Work/Stream";
/// HTTP/2 error code for a client that asks too much.
const ENHANCE_YOUR_CALM: u32 = 11;
const A_WHILE: Duration = Duration::from_secs(10);

/// Checks that the server still works, and that no jobs are left over.
async fn assert_still_works(server: &Server) {
    let ids = push(server, "mail", 1).await;
    let mut worker = Worker::start(server, hello("mail", 1, "after")).await;
    let jobs = timeout(A_WHILE, worker.jobs()).await.expect("a job");
    assert_eq!(jobs[0].id, ids[0]);
    worker.done(&jobs).await;
}

#[tokio::test]
async fn a_client_that_resets_streams_is_disconnected() {
    let server = Server::start().await;
    let mut frames = Http2Frames::open(&server, &[]).await;
    let head = head(&server, STREAM, &[]);
    for n in 0..10_000_u32 {
        let stream = 2 * n + 1;
        let opened = frames.write(HEADERS, END_HEADERS, stream, &head).await;
        let reset = frames.write(RST_STREAM, 0, stream, &8_u32.to_be_bytes()).await;
        if opened.and(reset).is_err() {
            break;
        }
    }
    let code = timeout(A_WHILE, frames.read_goaway()).await.expect("the connection is closed");
    assert!(code.is_none_or(|code| code == ENHANCE_YOUR_CALM), "{code:?}");
    assert_still_works(&server).await;
}

#[tokio::test]
async fn ten_thousand_streams_on_one_connection_are_too_many() {
    let server = Server::start().await;
    let mut frames = Http2Frames::open(&server, &[]).await;
    let head = head(&server, STREAM, &[]);
    for n in 0..10_000_u32 {
        if frames.write(HEADERS, END_HEADERS, 2 * n + 1, &head).await.is_err() {
            break;
        }
    }
    let code = timeout(A_WHILE, frames.read_goaway()).await.expect("the connection is closed");
    assert!(code.is_none_or(|code| code == ENHANCE_YOUR_CALM), "{code:?}");
    assert_still_works(&server).await;
}

#[tokio::test]
async fn ten_thousand_headers_are_too_many() {
    let server = Server::start().await;
    let mut frames = Http2Frames::open(&server, &[]).await;
    let names: Vec<String> = (0..10_000).map(|n| format!("x-{n}")).collect();
    let more: Vec<_> = names.iter().map(|name| (name.as_str(), "y")).collect();
    let head = head(&server, "/crore.v1.Jobs/Get", &more);
    let mut parts = head.chunks(16_000);
    let first = parts.next().expect("a part");
    frames.write(HEADERS, 0, 1, first).await.expect("written");
    let rest: Vec<_> = parts.collect();
    for (n, part) in rest.iter().enumerate() {
        let flags = if n + 1 == rest.len() { END_HEADERS } else { 0 };
        if frames.write(CONTINUATION, flags, 1, part).await.is_err() {
            break;
        }
    }
    // The server answers with an error or closes the connection, and does not serve the request.
    let answer = timeout(A_WHILE, async {
        loop {
            match frames.read().await {
                Some((HEADERS, _, bytes)) => return Some(bytes),
                Some((RST_STREAM, ..)) | None => return None,
                Some(_) => {}
            }
        }
    });
    let answer = answer.await.expect("a response or none");
    let text = String::from_utf8_lossy(answer.as_deref().unwrap_or_default()).into_owned();
    assert!(!text.contains("grpc"), "{text}");
    assert_still_works(&server).await;
}

#[tokio::test]
async fn jobs_that_a_worker_does_not_read_are_redelivered_when_their_lease_expires() {
    let server = Server::start().await;
    // Room for a welcome, but not for a job.
    let initial_window = 4;
    let mut frames = Http2Frames::open(&server, &[(initial_window, 200)]).await;
    frames.write(HEADERS, END_HEADERS, 1, &head(&server, STREAM, &[])).await.expect("written");
    let says =
        v1::WorkerSays { hello: Some(hello("mail", 5, "deaf")), ..v1::WorkerSays::default() };
    frames.write(DATA, 0, 1, &framed(&says)).await.expect("written");
    let large = v1::NewJob {
        payload: Some(vec![b'1'; 10_000].into()),
        encoding: v1::Encoding::Bytes.into(),
        lease_ms: Some(1000),
        ..job("mail")
    };
    let ask = v1::PushRequest { jobs: vec![large; 3], ..v1::PushRequest::default() };
    let pushed = jobs(&server).await.push(ask).await.expect("pushed").into_inner();
    assert_eq!(pushed.refused, 0);
    let running = async || {
        let counts = server.engine.jobs().counts(None).await.expect("counted");
        let is_running = |one: &&crore::store::views::JobCount| one.state == State::Running;
        counts.iter().filter(is_running).map(|one| one.n).sum::<u64>()
    };
    eventually(async || running().await == 3).await;
    let mut other = Worker::start(&server, hello("mail", 5, "other")).await;
    let mut got = Vec::new();
    while got.len() < 3 {
        got.extend(timeout(A_WHILE, other.jobs()).await.expect("they come"));
    }
    other.done(&got).await;
    assert_eq!(running().await, 0);
    drop((frames, other));
    assert_still_works(&server).await;
}

#[tokio::test]
async fn unsent_jobs_of_a_leaving_worker_are_redelivered_without_cost() {
    for lease in [None, Some(Span::from_secs(600))] {
        let server = Server::start().await;
        let (window, payload) = ((4, 200), Payload::new(Encoding::Bytes, vec![1; 600_000]));
        let mut frames = Http2Frames::open(&server, &[window]).await;
        frames.write(HEADERS, END_HEADERS, 1, &head(&server, STREAM, &[])).await.expect("written");
        let name = Name::new("queue", "mail").expect("a name");
        let spec = Spec { lease, ..Spec::new(name.clone(), name, payload) };
        let batch: Vec<NewJob> = vec![spec.into(); 7];
        server.engine.push_all(batch.into()).await.expect("pushed");
        let hello = Some(hello("mail", 7, "deaf"));
        let says = v1::WorkerSays { hello, ..v1::WorkerSays::default() };
        frames.write(DATA, 0, 1, &framed(&says)).await.expect("written");
        // Two of these jobs exceed one message, and the client reads few messages.
        let jobs = async |state| {
            let query = ListQuery { state, queue: None, kind: None, key: None, after: None, n: 10 };
            server.engine.list(query).await.expect("listed").jobs
        };
        eventually(async || jobs(State::Ready).await.is_empty()).await;
        drop(frames);
        eventually(async || jobs(State::Running).await.is_empty()).await;
        let (ready, done) = (jobs(State::Ready).await, jobs(State::Done).await);
        assert_eq!(ready.len() + done.len(), 7);
        assert_eq!(
            done.is_empty(),
            lease.is_some(),
            "sent jobs are done where no report is needed"
        );
        let unharmed = ready.iter().filter(|job| job.live.crashes == 0).count();
        assert!((1..7).contains(&unharmed), "{ready:?}");
    }
}

#[tokio::test]
async fn an_incomplete_message_times_out_in_a_call_and_not_in_a_stream() {
    let body_time = Span::from_millis(100);
    let options = Options {
        api: crore_api::Options { body_time, ..Default::default() },
        ..Options::default()
    };
    let server = Server::start_with(options, listen::Options::default()).await;
    let mut frames = Http2Frames::open(&server, &[]).await;
    let half = &framed(&v1::PushRequest { jobs: vec![job("mail")], ..Default::default() })[..7];
    for (stream, path) in [(1, "/crore.v1.Jobs/Push"), (3, "/crore.v1.Jobs/PushStream")] {
        frames
            .write(HEADERS, END_HEADERS, stream, &head(&server, path, &[]))
            .await
            .expect("written");
        frames.write(DATA, 0, stream, half).await.expect("written");
    }
    let mut answered = Vec::new();
    let answers = async {
        while let Some((kind, stream, _)) = frames.read().await {
            if kind == HEADERS {
                answered.push(stream);
            }
            // The stream has started, and the other call has ended.
            if answered.len() == 2 {
                break;
            }
        }
    };
    timeout(A_WHILE, answers).await.expect("one is answered");
    answered.sort_unstable();
    assert_eq!(answered, [1, 3]);
    let (_, text) = server.page("/metrics").await;
    let counted = r#"{call="/crore.v1.Jobs/Push",status="DEADLINE_EXCEEDED"} 1"#;
    assert!(text.contains(counted), "{text}");
    assert!(text.contains(r#"crore_rejected_total{door="grpc",reason="too-slow"} 1"#), "{text}");
    assert!(!text.contains("call=\"/crore.v1.Jobs/PushStream\""), "it continues: {text}");
    assert_still_works(&server).await;
}

#[tokio::test]
async fn an_interrupted_push_stores_all_or_nothing() {
    let server = Server::start().await;
    let batch = v1::PushRequest { jobs: vec![job("mail"); 500], ..v1::PushRequest::default() };
    for n in 0..40_u32 {
        let mut client = jobs(&server).await;
        let push = client.push(batch.clone());
        // Some disconnect before the server reads, some while it writes, and some after the answer.
        let _ = timeout(Duration::from_micros(u64::from(n) * 250), push).await;
    }
    let bytes = framed(&batch);
    for cut in [1, 5, 100, bytes.len() / 2, bytes.len() - 1] {
        let mut frames = Http2Frames::open(&server, &[]).await;
        let head = head(&server, "/crore.v1.Jobs/Push", &[]);
        frames.write(HEADERS, END_HEADERS, 1, &head).await.expect("written");
        for part in bytes[..cut].chunks(16_000) {
            frames.write(DATA, 0, 1, part).await.expect("written");
        }
        frames.write(RST_STREAM, 0, 1, &8_u32.to_be_bytes()).await.expect("written");
    }
    let stored = async || {
        let counts = server.engine.jobs().counts(None).await.expect("counted");
        counts.iter().map(|count| count.n).sum::<u64>()
    };
    // Pushes in flight may still be stored.
    eventually(async || {
        let before = stored().await;
        let last = v1::PushRequest { jobs: vec![job("last"); 500], ..v1::PushRequest::default() };
        jobs(&server).await.push(last).await.expect("pushed");
        stored().await == before + 500
    })
    .await;
    let n = stored().await;
    assert!(n % 500 == 0 && n >= 500, "{n}");
}

#[tokio::test]
async fn a_stream_that_ends_in_the_middle_of_a_message_gives_its_jobs_back() {
    let server = Server::start().await;
    let mut frames = Http2Frames::open(&server, &[]).await;
    frames.write(HEADERS, END_HEADERS, 1, &head(&server, STREAM, &[])).await.expect("written");
    let says =
        v1::WorkerSays { hello: Some(hello("mail", 5, "half")), ..v1::WorkerSays::default() };
    frames.write(DATA, 0, 1, &framed(&says)).await.expect("written");
    let id = push(&server, "mail", 1).await[0];
    eventually(async || server.engine.deliveries().waiting() == 1 || running(&server, id).await)
        .await;
    eventually(async || running(&server, id).await).await;
    let half = frame(0, &[0x12, 100, 1, 2, 3]);
    let end_stream = 1;
    frames.write(DATA, end_stream, 1, &half[..7]).await.expect("written");
    let mut other = Worker::start(&server, hello("mail", 1, "other")).await;
    let jobs = timeout(A_WHILE, other.jobs()).await.expect("it comes");
    assert_eq!((jobs[0].id, jobs[0].attempt), (id, 1));
    other.done(&jobs).await;
}

async fn running(server: &Server, id: u64) -> bool {
    let job = server.engine.get(crore_core::JobId(id)).await.expect("seen").expect("it exists");
    job.live.state == State::Running
}
