//! Deliveries whose leases expire before their worker has received them: after the server was paused, or while a
//! worker does not read. The test polls the session itself, so that nothing else runs between two polls.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use crore::Engine;
use crore::store::Memory;
use crore_core::{JobId, Span, State};
use crore_testkit::FakeClock;
use crore_wire::worker::{DeliveryRef, Hello, JobDelivery, ServerMessage, WorkerMessage};
use futures_util::FutureExt;

use super::WorkerSession;
use crate::{Doors, Options};

const A_MINUTE: Span = Span::from_secs(60);

/// An engine on a fake clock, and one session of one worker.
struct SessionScene {
    clock: Arc<FakeClock>,
    engine: Engine,
    session: WorkerSession,
    /// The jobs that the worker has, according to the server's messages.
    own: Vec<DeliveryRef>,
}

impl SessionScene {
    async fn new(slots: u32) -> Self {
        let clock = Arc::new(FakeClock::default());
        let store = Arc::new(Memory::new(clock.clone()));
        let engine = crore::block_on(Engine::without_thread(
            store,
            clock.clone(),
            crore::Options::default(),
        ));
        let engine = engine.expect("an engine");
        let doors = Doors::new(engine.clone(), Options::default());
        let mut session = WorkerSession::new(doors, crore_api::Grant::full(), None);
        let (queues, incarnation) = (vec!["mail".to_owned()], "one".to_owned());
        let hello = Some(Hello { queues, slots, incarnation, ..Hello::default() });
        let message = session.receive(WorkerMessage { hello, ..WorkerMessage::default() });
        assert!(message.is_ok());
        let first = poll_fn(|context| session.poll_message(context)).await;
        let first = first.expect("a message").expect("no error");
        assert!(first.welcome.is_some(), "{first:?}");
        Self { clock, engine, session, own: Vec::new() }
    }

    async fn push(&self, bytes: usize) -> JobId {
        self.engine.push("mail", "x".repeat(bytes)).await.expect("pushed")
    }

    /// The next message of the server, if there is one; applied as a worker would.
    fn next_message(&mut self) -> Option<ServerMessage> {
        let message = poll_fn(|context| self.session.poll_message(context)).now_or_never()?;
        let message = message.expect("the stream continues").expect("no error");
        self.own.retain(|own| !message.lost.contains(own));
        self.own.extend(message.jobs.iter().map(JobDelivery::held));
        Some(message)
    }

    /// The server was paused for longer than leases last.
    async fn pause_server(&self) {
        self.clock.advance(A_MINUTE);
        self.engine.upkeep().run_once().await.expect("upkeep runs");
        tokio::time::advance(Duration::from_secs(60)).await;
    }

    /// Processes messages until the server has nothing more to send.
    async fn until_quiet(&mut self, mut each: impl FnMut(&Self, &ServerMessage)) {
        for _ in 0..100 {
            tokio::task::yield_now().await;
            if let Some(message) = self.next_message() {
                each(self, &message);
            }
        }
    }
}

fn delivers_a_lost_job(message: &ServerMessage) -> bool {
    message.jobs.iter().map(JobDelivery::held).any(|job| message.lost.contains(&job))
}

/// Minimal case of a worker with more jobs than slots: the server fetches B for a worker that has A, is paused for
/// longer than both leases, and finds both expired when it is about to send B.
#[tokio::test(start_paused = true)]
async fn a_job_that_is_lost_before_it_is_sent_takes_no_slot_of_its_worker() {
    let mut scene = SessionScene::new(2).await;
    scene.push(10).await;
    scene.until_quiet(|_, _| {}).await;
    assert_eq!(scene.own.len(), 1, "the worker holds A");
    let b = scene.push(10).await;
    while scene.engine.get(b).await.expect("seen").expect("it exists").live.state != State::Running
    {
        tokio::task::yield_now().await;
    }
    scene.pause_server().await;
    scene
        .until_quiet(|scene, message| {
            assert!(!delivers_a_lost_job(message), "given and lost in one message: {message:?}");
            assert!(scene.own.len() <= 2, "2 slots, and {:?}", scene.own);
        })
        .await;
    assert_eq!(scene.own.len(), 2, "both are given to it again");
}

/// Three jobs exceed one message: the third is unsent when the leases of all three expire.
#[tokio::test(start_paused = true)]
async fn a_job_that_is_lost_between_two_messages_is_not_sent() {
    let mut scene = SessionScene::new(3).await;
    for _ in 0..3 {
        scene.push(600 << 10).await;
    }
    while scene.own.is_empty() {
        tokio::task::yield_now().await;
        scene.next_message();
    }
    scene.pause_server().await;
    scene
        .until_quiet(|scene, message| {
            assert!(!delivers_a_lost_job(message), "given and lost in one message");
            assert!(scene.own.len() <= 3, "3 slots, and {:?}", scene.own);
        })
        .await;
    assert_eq!(scene.own.len(), 3, "all are given to it again");
}
