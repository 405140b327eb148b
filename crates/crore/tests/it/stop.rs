//! Stopping an engine with work in progress: reports in flight complete, later ones get an error, and nothing is
//! lost.

use std::sync::{Arc, mpsc};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use crore::core::machine::Outcome;
use crore::core::{Code, Job, State};
use crore::events::{EventType, ListenerItem};
use crore::fetch::Fetch;
use crore::finish::{Finish, FinishResult};
use crore::{Engine, Error, Work, block_on};

use crate::test_engine::{Task, ask, jobs};

const DONE: Outcome = Outcome::Done { result: None };

fn state(engine: &Engine, job: &Job) -> State {
    block_on(engine.get(job.id)).expect("no error").expect("it exists").live.state
}

#[test]
fn reports_in_flight_at_a_stop_count_and_later_ones_lose_nothing() {
    // More than the maximum of calls in flight, so that some are batched.
    const N: usize = 200;
    let dir = tempfile::tempdir().expect("a directory");
    let engine = Engine::open(dir.path()).expect("opened");
    block_on(engine.push_all(jobs("q", N).into())).expect("pushed");
    let fetched = block_on(engine.fetch(Fetch { n: N, ..ask("q") })).expect("fetched");
    let (under_way, later) = fetched.split_at(N - 1);
    let report = |job: &Job| engine.finish(Finish::of(job, DONE));
    let mut reports: Vec<_> = under_way.iter().map(|job| Task::new(report(job))).collect();
    let mut answers: Vec<_> = reports.iter_mut().map(Task::poll).collect();
    engine.stop().expect("stopped");
    for (report, answer) in reports.iter_mut().zip(&mut answers) {
        *answer = answer.take().or_else(|| report.poll());
    }
    drop(reports);
    let late = block_on(report(&later[0]));
    assert_eq!(late.expect_err("too late").code(), Code::Stopping);
    drop(engine);

    let engine = Engine::open(dir.path()).expect("opened");
    let mut done = 0;
    for (job, answer) in under_way.iter().zip(answers) {
        match answer.expect("every report is answered") {
            Ok(finished) => {
                assert!(matches!(finished, FinishResult::Accepted { .. }), "{finished:?}");
                assert_eq!(state(&engine, job), State::Done);
                done += 1;
            }
            Err(Error::Stopping) => assert_eq!(state(&engine, job), State::Running),
            Err(other) => panic!("{other}"),
        }
    }
    assert!(done >= 64, "calls that were with the store succeeded: {done}");
    assert_eq!(state(&engine, &later[0]), State::Running, "its lease must expire first");
    let again = block_on(engine.finish(Finish::of(&later[0], DONE))).expect("reported");
    assert!(
        matches!(again, FinishResult::Accepted { .. }),
        "its worker may report it to the next engine"
    );
}

#[test]
fn a_worker_whose_engine_stops_during_a_job_reports_it_at_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let engine = Engine::open(dir.path()).expect("opened");
    let id = engine.push("q", "x").retain().wait().expect("pushed");
    let ((begun, has_begun), (go, goes_on)) = (mpsc::channel(), mpsc::channel());
    let goes_on = std::sync::Mutex::new(goes_on);
    std::thread::scope(|scope| {
        let worker = engine.worker(["q"]);
        let run = scope.spawn(|| {
            worker.run_blocking(|_: &Work<'_>| {
                begun.send(()).expect("received");
                goes_on.lock().expect("no panic").recv().expect("a response");
                Ok::<_, String>(())
            })
        });
        has_begun.recv().expect("begun");
        engine.stop().expect("stopped");
        go.send(()).expect("received");
        let ended = run.join().expect("no panic");
        assert_eq!(ended.expect_err("it could not be reported").code(), Code::Stopping);
    });
    drop(engine);
    let engine = Engine::open(dir.path()).expect("opened");
    let job = block_on(engine.get(id)).expect("no error").expect("it exists");
    assert_eq!(job.live.state, State::Running, "it is redelivered when its lease expires");
}

#[test]
fn the_last_handle_may_be_dropped_on_the_engines_own_thread() {
    /// A task that drops the engine as soon as it is woken.
    struct DropEngineOnWake(std::sync::Mutex<Option<Engine>>, mpsc::Sender<()>);
    impl Wake for DropEngineOnWake {
        fn wake(self: Arc<Self>) {
            drop(self.0.lock().expect("no panic").take());
            self.1.send(()).expect("received");
        }
    }
    let engine = Engine::memory();
    let timeout = Duration::from_millis(1);
    engine.push("q", "x").timeout(timeout).wait().expect("pushed");
    let mut listener = engine.listen();
    assert_eq!(block_on(engine.fetch(ask("q"))).expect("no error").len(), 1);
    let drained = std::iter::from_fn(|| listener.try_next());
    let is_end = |heard: &ListenerItem| matches!(heard, ListenerItem::Event(event) if event.what != EventType::Started);
    let has_ended = drained.filter(is_end).count() > 0;
    let (send, gone) = mpsc::channel();
    let waker = Waker::from(Arc::new(DropEngineOnWake(std::sync::Mutex::new(Some(engine)), send)));
    let mut next = Box::pin(listener.next());
    if has_ended || next.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
        // The run has ended already: drop the engine here.
        waker.wake();
    }
    gone.recv_timeout(Duration::from_secs(10)).expect("the engine is gone");
}
