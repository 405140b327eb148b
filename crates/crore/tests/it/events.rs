//! Events and listeners.

use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use crore::actions::JobAction;
use crore::block_on;
use crore::core::machine::Outcome;
use crore::core::{Job, JobId, Spec, State};
use crore::events::{EventListener, EventType, ListenerItem};

use crate::test_engine::{HOUR, TestEngine, job, jobs, on_both, spec};

pub(crate) fn drain_events(listener: &mut EventListener) -> Vec<(JobId, EventType)> {
    let all = std::iter::from_fn(|| listener.try_next());
    let event = |heard| match heard {
        ListenerItem::Event(event) => (event.id, event.what),
        ListenerItem::Missed(n) => panic!("missed {n}"),
        ListenerItem::Sent(event) => panic!("{event:?}"),
    };
    all.map(event).collect()
}

#[test]
fn events_arrive_in_order() {
    on_both(|scene| {
        let mut listener = scene.engine.listen();
        let id = scene.push(job("q"));
        scene.finish(&scene.fetch("q"), Outcome::Interrupted);
        let running = scene.fetch("q");
        scene.act(id, &JobAction::Cancel);
        scene.finish(&running, Outcome::Cancel);
        scene.act(id, &JobAction::Delete);
        let expected = [
            EventType::Pushed,
            EventType::Started,
            EventType::Became(State::Ready),
            EventType::Started,
            EventType::AskedToStop,
            EventType::Became(State::Cancelled),
            EventType::Removed,
        ];
        assert_eq!(drain_events(&mut listener), expected.map(|what| (id, what)));
    });
}

#[test]
fn reading_a_result_publishes_no_second_end() {
    let scene = TestEngine::memory();
    let keep = crore::core::job::ResultRetention::Once(HOUR);
    let id = scene.push(Spec { keep, ..spec("q") });
    let fetched: Job = scene.fetch("q");
    let mut listener = scene.engine.listen();
    let result = Some(crore::core::Payload::json("1"));
    scene.finish(&fetched, Outcome::Done { result });
    block_on(scene.engine.wait(id, HOUR)).expect("no error").expect("ended");
    assert_eq!(drain_events(&mut listener), [(id, EventType::Became(State::Done))]);
}

#[test]
fn a_slow_listener_gets_the_number_of_missed_events() {
    let scene = TestEngine::memory();
    let mut listener = scene.engine.listen();
    for _ in 0..5 {
        scene.push_all(jobs("q", 1000));
    }
    assert_eq!(listener.try_next(), Some(ListenerItem::Missed(5000 - 4096)));
    let ids: Vec<JobId> = drain_events(&mut listener).into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids.len(), 4096);
    assert!(ids.is_sorted());
}

#[test]
fn a_listener_of_a_stopped_engine_ends() {
    let scene = TestEngine::memory();
    let mut before = scene.engine.listen();
    scene.engine.stop().expect("stopped");
    let mut after = scene.engine.listen();
    assert_eq!(block_on(before.next()), None);
    assert_eq!(block_on(after.next()), None);
}

#[test]
fn a_listener_may_be_dropped_while_it_is_woken() {
    /// A task that drops its listener as soon as it is woken.
    struct DropListenerOnWake(std::sync::Mutex<Option<EventListener>>);
    impl Wake for DropListenerOnWake {
        fn wake(self: Arc<Self>) {
            drop(self.0.lock().expect("no panic").take());
        }
    }
    let scene = TestEngine::memory();
    let (mut listens, leaves) = (scene.engine.listen(), scene.engine.listen());
    let waker = Waker::from(Arc::new(DropListenerOnWake(std::sync::Mutex::new(Some(leaves)))));
    let mut next = Box::pin(listens.next());
    assert!(next.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    scene.push(job("q"));
    assert!(next.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
}
