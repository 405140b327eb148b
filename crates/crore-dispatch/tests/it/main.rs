//! Dispatchers of two protocols on one engine, with workers on real loopback ports.
#![expect(clippy::expect_used, reason = "tests may panic")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use crore::Engine;
use crore::finish::Finish;
use crore_core::machine::{Outcome, Report};
use crore_core::{Encoding, Job, JobId, Name, Payload, Span, State};
use crore_dispatch::{
    DispatchRound, DispatchService, Handle, JobRequest, Options, Protocol, Registration,
};
use crore_outbound::{Outbound, Resolve, ResolveFuture, Target};
use crore_testkit::eventually_async;
use crore_testkit::http_peer::{Peer, PeerReply, pause};
use http::HeaderMap;

/// A protocol that sends payloads unchanged and keeps response bodies as results.
#[derive(Debug)]
struct Plain(&'static str);

impl Protocol for Plain {
    fn name(&self) -> &'static str {
        self.0
    }

    fn queue(&self) -> &'static str {
        self.0
    }

    fn request(&self, job: &Job) -> JobRequest {
        let body = Bytes::copy_from_slice(&job.spec.payload.bytes);
        JobRequest { path: self.0, headers: HeaderMap::new(), body }
    }

    fn report(&self, _: &HeaderMap, body: &Bytes) -> Result<Report, String> {
        let result = Some(Payload::new(Encoding::Text, &**body));
        Ok(Outcome::Done { result }.into())
    }
}

fn dispatcher(engine: &Engine, protocol: &'static str) -> (Handle, DispatchService) {
    let outbound = crore_outbound::Options {
        listens: vec![([127, 0, 0, 1], 1).into()],
        ..crore_outbound::Options::default()
    };
    let outbound = Outbound::new(outbound);
    let handle = Handle::new(engine.clone(), outbound, Plain(protocol), Options::default());
    let service = DispatchService::new(&handle);
    (handle, service)
}

async fn join(handle: &Handle, id: &str, url: &str) {
    let target = Target::parse("url", url).expect("a URL");
    let worker = Registration { name: id.to_owned(), target, max_jobs: 1 };
    let id = Name::new("worker", id).expect("a name");
    assert!(handle.join(id, worker).await.expect("registered"));
}

async fn push(engine: &Engine, queue: &str) -> JobId {
    engine.push(queue, "hello").kind("greet").await.expect("pushed")
}

/// Waits until a job ends, and returns whether it is done: a done job is removed, so it has no state.
async fn is_done(engine: &Engine, id: JobId) -> bool {
    let ended = engine.wait(id, Span::from_secs(20)).await.expect("known");
    ended.expect("it ends in time").state.is_none()
}

#[tokio::test]
async fn each_protocol_gives_its_own_jobs_to_its_own_workers() {
    let engine = Engine::memory();
    let ((a, mut a_service), (b, mut b_service)) =
        (dispatcher(&engine, "a"), dispatcher(&engine, "b"));
    let (a_peer, b_peer) = (
        Peer::start(PeerReply::body(200, "from a")).await,
        Peer::start(PeerReply::status(200)).await,
    );
    join(&a, "worker-of-a", &a_peer.url()).await;
    join(&b, "worker-of-b", &b_peer.url()).await;
    let (of_b, of_a) = (push(&engine, "b").await, push(&engine, "a").await);
    assert_eq!(a_service.run_once().await.expect("a round"), DispatchRound::Gave(1));
    assert!(is_done(&engine, of_a).await);
    assert_eq!((a_peer.calls(), b_peer.calls()), (1, 0));
    let call = a_peer.call(0);
    assert_eq!((call.uri.path(), &*call.body), ("/a", &b"hello"[..]));
    assert!(call.headers.contains_key("crore-delivery"));
    assert_eq!(b_service.run_once().await.expect("a round"), DispatchRound::Gave(1));
    assert!(is_done(&engine, of_b).await);
    assert_eq!((a_peer.calls(), b_peer.calls()), (1, 1));
    let id = Name::new("worker", "worker-of-b").expect("a name");
    assert!(!a.leave(&id).await.expect("answered"), "a worker of another protocol is not removed");
    assert!(b.leave(&id).await.expect("answered"));
}

/// A second dispatcher stands for the service after a restart: it knows only the store.
#[tokio::test]
async fn jobs_from_before_a_restart_count_against_max_jobs() {
    let engine = Engine::memory();
    let (handle, mut service) = dispatcher(&engine, "a");
    let peer = Peer::start(PeerReply::status(202)).await;
    join(&handle, "worker", &peer.url()).await;
    let first = push(&engine, "a").await;
    assert_eq!(service.run_once().await.expect("a round"), DispatchRound::Gave(1));
    peer.until_called(1).await;
    let second = push(&engine, "a").await;
    let (handle, mut service) = dispatcher(&engine, "a");
    assert_eq!(service.run_once().await.expect("a round"), DispatchRound::NoneFree);
    let job = engine.get(first).await.expect("read").expect("it exists");
    let done = Outcome::Done { result: None };
    engine.finish(Finish::of(&job, done)).await.expect("finished");
    handle.reported(first, job.live.delivery);
    assert_eq!(service.run_once().await.expect("a round"), DispatchRound::Gave(1));
    peer.until_called(2).await;
    let job = engine.get(second).await.expect("read").expect("it exists");
    assert_eq!(job.live.state, State::Running);
}

/// Resolves a name to an allowed address first, and to the address of a cloud metadata service afterwards.
#[derive(Debug, Default)]
struct Rebinding(AtomicUsize);

impl Resolve for Rebinding {
    fn resolve(&self, _: &str, port: u16) -> ResolveFuture {
        let is_first = self.0.fetch_add(1, Ordering::SeqCst) == 0;
        let ip = if is_first { [127, 0, 0, 1] } else { [169, 254, 169, 254] };
        Box::pin(async move { Ok(vec![(ip, port).into()]) })
    }
}

#[tokio::test]
async fn a_worker_whose_name_resolves_to_a_denied_address_is_not_called_and_the_job_is_kept() {
    let engine = Engine::memory();
    let peer = Peer::start(PeerReply::status(202)).await;
    let allow = vec!["127.0.0.0/8".parse().expect("good")];
    let options = crore_outbound::Options { allow, ..crore_outbound::Options::default() };
    let outbound = Outbound::with_resolver(options, Arc::new(Rebinding::default()));
    let rest = Span::from_millis(20);
    let options = Options { rest, ..Options::default() };
    let handle = Handle::new(engine.clone(), outbound, Plain("a"), options);
    join(&handle, "worker", &format!("http://rebinding.example:{}", peer.port())).await;
    let (first, second) = (push(&engine, "a").await, push(&engine, "a").await);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(DispatchService::new(&handle).run(async { drop(stopped.await) }));
    peer.until_called(1).await;
    let job = engine.get(first).await.expect("read").expect("it exists");
    engine.finish(Finish::of(&job, Outcome::Done { result: None })).await.expect("finished");
    let lines = eventually_async(Duration::from_secs(20), pause, || async {
        let lines = engine.jobs().notes(second).await.expect("read").lines;
        if lines.len() > 1 { Ok(lines) } else { Err(lines) }
    })
    .await;
    let (_, line) = lines.first().expect("a line");
    assert!(line.contains("outbound-denied") && line.contains("169.254.169.254"), "{line}");
    engine.lifecycle().quiesce();
    stop.send(()).expect("it runs");
    running.await.expect("it ends");
    let kept = engine.get(second).await.expect("read").expect("it exists");
    assert_eq!((kept.live.state, kept.live.attempt), (State::Ready, 0));
    assert_eq!(peer.calls(), 1);
}
