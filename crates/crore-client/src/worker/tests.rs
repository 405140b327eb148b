//! A worker and a scripted server in the same process.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use crore_core::{Encoding, JobId, Name, Time, machine};
use crore_wire::worker::{
    JobDelivery, ReportResponse, ReportVerdict, ServerMessage, Session, SessionEnd, Welcome,
    WorkerMessage, WorkerReport,
};
use tokio::sync::{Notify, mpsc};

use super::*;

/// The worker's end of the session.
struct ScriptedSession {
    says: mpsc::UnboundedSender<WorkerMessage>,
    hears: mpsc::UnboundedReceiver<ServerMessage>,
}

impl Session for ScriptedSession {
    fn send(&mut self, message: WorkerMessage) {
        let _ = self.says.send(message);
    }

    fn poll_message(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<ServerMessage, SessionEnd>>> {
        self.hears.poll_recv(context).map(|message| message.map(Ok))
    }
}

/// The server's end of the session.
struct Script {
    hears: mpsc::UnboundedReceiver<WorkerMessage>,
    says: mpsc::UnboundedSender<ServerMessage>,
}

impl Script {
    fn say(&self, message: ServerMessage) {
        self.says.send(message).expect("the worker listens");
    }

    /// The next message that matches.
    async fn until<T>(&mut self, matches: impl Fn(WorkerMessage) -> Option<T>) -> T {
        loop {
            let message = self.hears.recv().await.expect("the worker speaks");
            if let Some(found) = matches(message) {
                return found;
            }
        }
    }

    async fn next_report(&mut self) -> WorkerReport {
        self.until(|mut message| message.reports.pop()).await
    }
}

fn scripted() -> (WorkerTransport, Script) {
    let (says, hears_worker) = mpsc::unbounded_channel();
    let (says_server, hears) = mpsc::unbounded_channel();
    let session = Mutex::new(Some(ScriptedSession { says, hears }));
    let open = move || session.lock().expect("sound").take().expect("one session");
    (WorkerTransport::in_process(open), Script { hears: hears_worker, says: says_server })
}

pub(super) fn job(id: u64) -> JobDelivery {
    let now = Time::from_millis(0);
    JobDelivery {
        id: JobId(id),
        delivery: crore_core::Delivery(id),
        queue: Name::new("queue", "q").expect("a name"),
        kind: Name::new("kind", "k").expect("a name"),
        payload: Bytes::new(),
        encoding: Encoding::Bytes,
        attempt: 1,
        max_attempts: None,
        priority: 0,
        pushed_at: now,
        due: now,
        lease_until: now,
        timeout: None,
        labels: BTreeMap::new(),
        trace: None,
        handler: None,
        event: None,
    }
}

/// A worker with one slot that keeps jobs ready, the numbers of the jobs that it has started, and what ends each of
/// them.
struct ReadyScene {
    server: Script,
    stop: StopHandle,
    started: Arc<Mutex<Vec<u64>>>,
    finish: Arc<Notify>,
}

impl ReadyScene {
    /// The worker runs job 1, and job 2 waits for its slot.
    async fn new() -> Self {
        let (transport, mut server) = scripted();
        let (started, finish) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Notify::new()));
        let (runs, waits) = (Arc::clone(&started), Arc::clone(&finish));
        let worker = Worker::new(transport).keep_ready(1).handle("k", move |delivery: Delivery| {
            runs.lock().expect("sound").push(delivery.id().0);
            let waits = Arc::clone(&waits);
            async move {
                waits.notified().await;
                Ok::<_, Error>(())
            }
        });
        let stop = worker.stopper();
        tokio::spawn(worker.run());
        server.until(|message| message.hello).await;
        let (welcome, jobs) = (Some(Welcome::default()), vec![job(1), job(2)]);
        server.say(ServerMessage { welcome, jobs, ..ServerMessage::default() });
        while started.lock().expect("sound").is_empty() {
            tokio::task::yield_now().await;
        }
        Self { server, stop, started, finish }
    }

    async fn expect_interrupted(&mut self, id: u64) {
        let report = self.server.next_report().await;
        assert_eq!(report.held, job(id).held());
        assert_eq!(report.report.expect("valid").outcome, machine::Outcome::Interrupted);
        assert_eq!(*self.started.lock().expect("sound"), [1], "job {id} was not started");
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_that_waits_for_a_slot_starts_when_another_ends() {
    let mut scene = ReadyScene::new().await;
    scene.finish.notify_one();
    assert_eq!(scene.server.next_report().await.held, job(1).held());
    scene.finish.notify_one();
    assert_eq!(scene.server.next_report().await.held, job(2).held());
    assert_eq!(*scene.started.lock().expect("sound"), [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_waits_too_long_for_a_slot_is_handed_back() {
    let mut scene = ReadyScene::new().await;
    scene.expect_interrupted(2).await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_stops_hands_waiting_jobs_back_at_once() {
    let mut scene = ReadyScene::new().await;
    let before = Instant::now();
    scene.stop.stop();
    scene.expect_interrupted(2).await;
    assert_eq!(Instant::now(), before, "it did not wait");
}

#[tokio::test]
async fn a_worker_that_stops_starts_no_job_and_hands_late_ones_back() {
    let (transport, mut server) = scripted();
    let (started, finish) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Notify::new()));
    let (runs, waits) = (Arc::clone(&started), Arc::clone(&finish));
    let worker = Worker::new(transport).slots(2).handle("k", move |delivery: Delivery| {
        runs.lock().expect("sound").push((delivery.id().0, delivery.store().to_string()));
        let waits = Arc::clone(&waits);
        async move {
            waits.notified().await;
            Ok::<_, Error>(())
        }
    });
    let stop = worker.stopper();
    let running = tokio::spawn(worker.run());
    server.until(|message| message.hello).await;
    let welcome = Some(Welcome { store: "7".to_owned(), ..Welcome::default() });
    server.say(ServerMessage { welcome, jobs: vec![job(1)], ..ServerMessage::default() });
    while started.lock().expect("sound").is_empty() {
        tokio::task::yield_now().await;
    }
    stop.stop();
    server.until(|message| message.drain.then_some(())).await;
    server.say(ServerMessage { jobs: vec![job(2)], ..ServerMessage::default() });
    let late = server.next_report().await;
    assert_eq!(late.held, job(2).held());
    assert_eq!(late.report.expect("valid").outcome, machine::Outcome::Interrupted);
    finish.notify_one();
    let done = server.next_report().await;
    assert_eq!(done.held, job(1).held());
    let answer = |held| ReportResponse {
        held,
        verdict: ReportVerdict::Finished { state: None, pushed: Vec::new() },
    };
    let finished = vec![answer(late.held), answer(done.held)];
    server.say(ServerMessage { finished, ..ServerMessage::default() });
    running.await.expect("no panic").expect("stopped");
    let started = started.lock().expect("sound").clone();
    assert_eq!(started, [(1, "7".to_owned())], "the late job was not started");
}

#[tokio::test]
async fn a_worker_that_the_server_asks_to_exit_stops() {
    let (transport, mut server) = scripted();
    let worker = Worker::new(transport).handle("k", |_| async { Ok::<_, Error>(()) });
    let running = tokio::spawn(worker.run());
    server.until(|message| message.hello).await;
    server.say(ServerMessage { welcome: Some(Welcome::default()), ..ServerMessage::default() });
    server.say(ServerMessage { exit: true, ..ServerMessage::default() });
    server.until(|message| message.drain.then_some(())).await;
    running.await.expect("no panic").expect("stopped");
}
