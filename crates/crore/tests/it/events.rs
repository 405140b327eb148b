//! What the engine tells whoever listens.

use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use crore::act::Act;
use crore::block_on;
use crore::core::machine::Outcome;
use crore::core::{Job, JobId, Spec, State};
use crore::events::{Happened, Heard, Listener};

use crate::scene::{HOUR, Scene, job, jobs, on_both, spec};

pub(crate) fn heard(listener: &mut Listener) -> Vec<(JobId, Happened)> {
    let all = std::iter::from_fn(|| listener.try_next());
    let event = |heard| match heard {
        Heard::Event(event) => (event.id, event.what),
        Heard::Missed(n) => panic!("missed {n}"),
    };
    all.map(event).collect()
}

#[test]
fn what_happens_is_heard_in_order() {
    on_both(|scene| {
        let mut listener = scene.engine.listen();
        let id = scene.push(job("q"));
        scene.finish(&scene.fetch("q"), Outcome::Interrupted);
        let running = scene.fetch("q");
        scene.act(id, &Act::Cancel);
        scene.finish(&running, Outcome::Cancel);
        scene.act(id, &Act::Delete);
        let expected = [
            Happened::Pushed,
            Happened::Started,
            Happened::Became(State::Ready),
            Happened::Started,
            Happened::AskedToStop,
            Happened::Became(State::Cancelled),
            Happened::Removed,
        ];
        assert_eq!(heard(&mut listener), expected.map(|what| (id, what)));
    });
}

#[test]
fn to_read_a_result_is_no_second_end() {
    let scene = Scene::memory();
    let keep = crore::core::job::Keep::Once(HOUR);
    let id = scene.push(Spec { keep, ..spec("q") });
    let fetched: Job = scene.fetch("q");
    let mut listener = scene.engine.listen();
    let result = Some(crore::core::Payload::json("1"));
    scene.finish(&fetched, Outcome::Done { result });
    block_on(scene.engine.wait(id, HOUR)).expect("no error").expect("ended");
    assert_eq!(heard(&mut listener), [(id, Happened::Became(State::Done))]);
}

#[test]
fn a_listener_who_is_too_slow_is_told_how_many_he_missed() {
    let scene = Scene::memory();
    let mut listener = scene.engine.listen();
    for _ in 0..5 {
        scene.push_all(jobs("q", 1000));
    }
    assert_eq!(listener.try_next(), Some(Heard::Missed(5000 - 4096)));
    let ids: Vec<JobId> = heard(&mut listener).into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids.len(), 4096);
    assert!(ids.is_sorted());
}

#[test]
fn whoever_listens_to_an_engine_that_has_stopped_is_told_so() {
    let scene = Scene::memory();
    let mut before = scene.engine.listen();
    scene.engine.stop().expect("stopped");
    let mut after = scene.engine.listen();
    assert_eq!(block_on(before.next()), None);
    assert_eq!(block_on(after.next()), None);
}

#[test]
fn a_listener_may_leave_while_it_is_woken() {
    /// A task that is over as soon as it is woken.
    struct Leaves(std::sync::Mutex<Option<Listener>>);
    impl Wake for Leaves {
        fn wake(self: Arc<Self>) {
            drop(self.0.lock().expect("no panic").take());
        }
    }
    let scene = Scene::memory();
    let (mut listens, leaves) = (scene.engine.listen(), scene.engine.listen());
    let waker = Waker::from(Arc::new(Leaves(std::sync::Mutex::new(Some(leaves)))));
    let mut next = Box::pin(listens.next());
    assert!(next.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    scene.push(job("q"));
    assert!(next.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
}
