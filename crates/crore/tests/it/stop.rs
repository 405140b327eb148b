//! An engine that is stopped while there is work: what is with the store goes through, what comes later is
//! told so, and nothing is lost.

use std::sync::{Arc, mpsc};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use crore::core::machine::Outcome;
use crore::core::{Code, Job, State};
use crore::events::{Happened, Heard};
use crore::fetch::Fetch;
use crore::finish::{Finish, Finished};
use crore::{Engine, Error, Work, block_on};

use crate::scene::{Task, ask, jobs};

const DONE: Outcome = Outcome::Done { result: None };

fn state(engine: &Engine, job: &Job) -> State {
    block_on(engine.get(job.id)).expect("no error").expect("it is there").live.state
}

#[test]
fn reports_that_are_under_way_go_through_and_later_ones_lose_nothing() {
    // More than go to the store one by one, so that some are gathered meanwhile.
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
        match answer.expect("nobody is left without an answer") {
            Ok(finished) => {
                assert!(matches!(finished, Finished::Yes { .. }), "{finished:?}");
                assert_eq!(state(&engine, job), State::Done);
                done += 1;
            }
            Err(Error::Stopping) => assert_eq!(state(&engine, job), State::Running),
            Err(other) => panic!("{other}"),
        }
    }
    assert!(done >= 64, "those that were with the store went through: {done}");
    assert_eq!(state(&engine, &later[0]), State::Running, "its lease has to end first");
    let again = block_on(engine.finish(Finish::of(&later[0], DONE))).expect("reported");
    assert!(matches!(again, Finished::Yes { .. }), "its worker may say it to the next engine");
}

#[test]
fn a_worker_whose_engine_is_stopped_under_its_job_says_so_at_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let engine = Engine::open(dir.path()).expect("opened");
    let id = engine.push("q", "x").retain().wait().expect("pushed");
    let ((begun, has_begun), (go, goes_on)) = (mpsc::channel(), mpsc::channel());
    let goes_on = std::sync::Mutex::new(goes_on);
    std::thread::scope(|scope| {
        let worker = engine.worker(["q"]);
        let run = scope.spawn(|| {
            worker.run_blocking(|_: &Work<'_>| {
                begun.send(()).expect("heard");
                goes_on.lock().expect("no panic").recv().expect("told");
                Ok::<_, String>(())
            })
        });
        has_begun.recv().expect("begun");
        engine.stop().expect("stopped");
        go.send(()).expect("heard");
        let ended = run.join().expect("no panic");
        assert_eq!(ended.expect_err("it could not be reported").code(), Code::Stopping);
    });
    drop(engine);
    let engine = Engine::open(dir.path()).expect("opened");
    let job = block_on(engine.get(id)).expect("no error").expect("it is there");
    assert_eq!(job.live.state, State::Running, "it is handed out again when its lease has ended");
}

#[test]
fn the_last_handle_may_be_let_go_by_whoever_the_engines_own_thread_wakes() {
    /// A task that owns the engine, and is over as soon as it is woken.
    struct Owns(std::sync::Mutex<Option<Engine>>, mpsc::Sender<()>);
    impl Wake for Owns {
        fn wake(self: Arc<Self>) {
            drop(self.0.lock().expect("no panic").take());
            self.1.send(()).expect("heard");
        }
    }
    let engine = Engine::memory();
    let timeout = Duration::from_millis(1);
    engine.push("q", "x").timeout(timeout).wait().expect("pushed");
    let mut listener = engine.listen();
    assert_eq!(block_on(engine.fetch(ask("q"))).expect("no error").len(), 1);
    let drained = std::iter::from_fn(|| listener.try_next());
    let is_end =
        |heard: &Heard| matches!(heard, Heard::Event(event) if event.what != Happened::Started);
    let has_ended = drained.filter(is_end).count() > 0;
    let (send, gone) = mpsc::channel();
    let waker = Waker::from(Arc::new(Owns(std::sync::Mutex::new(Some(engine)), send)));
    let mut next = Box::pin(listener.next());
    if has_ended || next.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
        // The run was ended already, and the engine is let go here.
        waker.wake();
    }
    gone.recv_timeout(Duration::from_secs(10)).expect("the engine is gone");
}
