//! A store that fails, is slow or is poisoned: every caller gets an error, no call hangs, and pending work is done
//! as soon as possible.

use std::sync::Arc;
use std::time::Duration;

use crore::actions::JobAction;
use crore::core::job::{DeliveryEnd, DueTime};
use crore::core::limit::Limit;
use crore::core::machine::Outcome;
use crore::core::schedule::{Missed, Timing};
use crore::core::{Code, GroupId, Span, Spec, State};
use crore::fetch::Fetch;
use crore::finish::Finish;
use crore::store::jobs::Renew;
use crore::store::registry::QueueSettings;
use crore::store::views::{ListQuery, StatStep};
use crore::store::{Memory, SystemClock};
use crore::{Engine, Options, Work, block_on};
use crore_testkit::eventually;

use crate::faulty_store::{FaultyStore, Verb};
use crate::handlers::handler;
use crate::test_engine::{
    HOUR, LEASE, MINUTE, SECOND, Task, TestEngine, ask, code, job, jobs, name, spec, wait_for,
};

const DONE: Outcome = Outcome::Done { result: None };

#[test]
fn every_call_to_an_engine_on_a_poisoned_store_fails() {
    let (scene, faulty) = FaultyStore::test_engine();
    let id = scene.push(job("q"));
    let running = scene.fetch("q");
    faulty.poison();
    let (engine, delivery) = (&scene.engine, running.live.delivery);
    let query =
        ListQuery { state: State::Ready, queue: None, kind: None, key: None, after: None, n: 10 };
    let timing = Timing::parse("timing", "every 1m").expect("a timing");
    let limit = Limit::parse("concurrency 1").expect("a limit");
    let lease = Renew { id, delivery, span: None };
    let codes = [
        code(engine.push_all(job("q").into())),
        code(async { engine.push("q", "x").await }),
        code(engine.fetch(ask("q"))),
        code(engine.fetch(wait_for("q"))),
        code(engine.finish(Finish::of(&running, DONE))),
        code(engine.deliveries().handed_over(id, delivery)),
        code(engine.renew(vec![lease])),
        code(engine.jobs().act(id.into(), &JobAction::Cancel)),
        code(engine.jobs().act_on_all(
            &Default::default(),
            &JobAction::Cancel,
            crore::actions::BulkMode::Apply,
            |_| true,
        )),
        code(engine.get(id)),
        code(engine.list(query)),
        code(engine.jobs().counts(None)),
        code(engine.jobs().stats(name("done"), StatStep::Hour)),
        code(engine.wait(id, HOUR)),
        code(engine.explain(id)),
        code(engine.deliveries().progress(id, delivery, 1, "")),
        code(engine.deliveries().line(id, delivery, "")),
        code(engine.jobs().notes(id)),
        code(engine.groups().get(GroupId(1))),
        code(engine.groups().seal(GroupId(1))),
        code(engine.queues().pause(name("q"))),
        code(engine.queues().resume(name("q"))),
        code(engine.queues().drain(name("q"), HOUR)),
        code(engine.queues().get(&name("q"))),
        code(engine.queues().list()),
        code(engine.queues().set(name("q"), QueueSettings::default())),
        code(engine.schedules().set(name("s"), timing, Missed::Skip, job("q"))),
        code(engine.schedules().pause(&name("s"))),
        code(engine.schedules().remove(name("s"))),
        code(engine.schedules().list()),
        code(engine.limits().set(name("l"), limit)),
        code(engine.limits().remove(name("l"))),
        code(engine.limits().list()),
        code(engine.handlers().set(name("k"), handler())),
        code(engine.workers().set(name("w"), "", HOUR)),
        code(engine.workers().list()),
        code(async { engine.pop("q", async |_: &Work<'_>| Ok::<_, String>(())).await }),
    ];
    for (n, code) in codes.into_iter().enumerate() {
        assert_eq!(code, Some(Code::Poisoned), "call {n}");
    }
    scene.clock.advance(HOUR);
    assert_eq!(code(engine.upkeep().run_once()), Some(Code::Poisoned));
    assert!(engine.upkeep().due_at() > scene.now(), "it is retried, but not at once");
    scene.engine.stop().expect("stopped");
}

#[test]
fn a_store_error_is_returned_and_the_next_call_succeeds() {
    let (scene, faulty) = FaultyStore::test_engine();
    faulty.err_once(Verb::Push);
    assert_eq!(code(scene.engine.push_all(job("q").into())), Some(Code::Unavailable));
    scene.push(job("q"));
    faulty.err_once(Verb::Claim);
    assert_eq!(code(scene.engine.fetch(ask("q"))), Some(Code::Unavailable));
    let fetched = scene.fetch("q");
    faulty.err_once(Verb::Apply);
    assert_eq!(code(scene.engine.finish(Finish::of(&fetched, DONE))), Some(Code::Unavailable));
    scene.done(&fetched);
}

#[test]
fn a_woken_fetch_that_fails_passes_the_wake_up_on() {
    let (scene, faulty) = FaultyStore::test_engine();
    let mut first = Task::waiting(scene.engine.fetch(wait_for("q")));
    let mut second = Task::waiting(scene.engine.fetch(wait_for("q")));
    scene.push(job("q"));
    faulty.err_once(Verb::Claim);
    assert!(first.poll_if_woken().expect("woken").is_err());
    assert_eq!(second.poll_if_woken().expect("woken").expect("no error").len(), 1);
}

#[test]
fn a_fetch_dropped_during_a_slow_claim_passes_the_wake_up_on() {
    let (scene, faulty) = FaultyStore::test_engine();
    let mut first = Task::waiting(scene.engine.fetch(wait_for("q")));
    let mut second = Task::waiting(scene.engine.fetch(wait_for("q")));
    scene.push(job("q"));
    faulty.hold(Verb::Claim);
    assert!(first.poll_if_woken().is_none());
    drop(first);
    faulty.release(Verb::Claim);
    assert_eq!(second.poll_if_woken().expect("woken").expect("no error").len(), 1);
}

#[test]
fn a_slow_call_delays_no_other_call() {
    let (scene, faulty) = FaultyStore::test_engine();
    let id = scene.push(job("q"));
    faulty.hold(Verb::Push);
    let mut push = Task::waiting(scene.engine.push_all(job("slow").into()));
    let fetched = scene.fetch("q");
    assert_eq!(fetched.id, id);
    scene.done(&fetched);
    faulty.release(Verb::Push);
    assert_eq!(push.poll_if_woken().expect("answered").expect("no error").jobs.len(), 1);
}

/// Makes upkeep fail at a verb, and runs it again when it is due.
fn fail_upkeep_once(scene: &TestEngine, faulty: &FaultyStore, verb: Verb, after: Span) {
    faulty.err_once(verb);
    scene.clock.advance(after);
    assert_eq!(code(scene.engine.upkeep().run_once()), Some(Code::Unavailable), "{verb:?}");
    assert!(scene.engine.upkeep().due_at() > scene.now(), "{verb:?} is not retried at once");
    scene.pass(SECOND);
}

#[test]
fn upkeep_retries_failed_store_calls() {
    let (scene, faulty) = FaultyStore::test_engine();
    let mut later = job("q");
    later.due = DueTime::After(MINUTE);
    let id = scene.push(later);
    fail_upkeep_once(&scene, &faulty, Verb::Promote, MINUTE);
    assert_eq!(scene.state(id), State::Ready);
    scene.fetch("q");
    fail_upkeep_once(&scene, &faulty, Verb::Lapsed, LEASE);
    assert_eq!(scene.state(id), State::Ready);
    scene.fetch("q");
    fail_upkeep_once(&scene, &faulty, Verb::Apply, LEASE);
    assert_eq!(scene.get(id).live.crashes, 2);
}

#[test]
fn a_timeout_is_enforced_after_a_failed_store_call() {
    let (scene, faulty) = FaultyStore::test_engine();
    let id = scene.push(Spec { timeout: Some(SECOND.times(8)), ..spec("q") });
    scene.pass(SECOND.times(6));
    scene.fetch("q");
    fail_upkeep_once(&scene, &faulty, Verb::Apply, SECOND.times(8));
    assert_eq!(scene.get(id).live.history[0].ended, DeliveryEnd::TimedOut);
}

#[test]
fn counts_survive_a_failed_store_call() {
    let (scene, faulty) = FaultyStore::test_engine();
    scene.push_all(jobs("q", 3));
    fail_upkeep_once(&scene, &faulty, Verb::Note, SECOND.times(5));
    let stats = block_on(scene.engine.jobs().stats(name("pushed"), StatStep::Hour)).expect("stats");
    assert_eq!(stats.iter().map(|(_, n)| n).sum::<u64>(), 3);
}

#[test]
fn a_schedule_fires_after_a_failed_store_call() {
    let (scene, faulty) = FaultyStore::test_engine();
    let timing = Timing::parse("timing", "every 1m").expect("a timing");
    let set = scene.engine.schedules().set(name("s"), timing, Missed::Skip, job("q"));
    block_on(set).expect("set");
    scene.settle();
    fail_upkeep_once(&scene, &faulty, Verb::Apply, MINUTE);
    assert_eq!(scene.fetch_n("q", 10).len(), 1);
}

#[test]
fn one_lost_renewal_expires_not_even_the_shortest_lease() {
    let (scene, faulty) = FaultyStore::test_engine();
    let id = scene.push(Spec { lease: Some(SECOND), ..spec("q") });
    let pop = scene.engine.pop("q", async |_: &Work<'_>| {
        std::future::pending::<()>().await;
        Ok::<_, String>(())
    });
    let running = Task::waiting(pop);
    faulty.err_once(Verb::Renew);
    scene.clock.advance(Span::from_millis(333));
    assert_eq!(code(scene.engine.upkeep().run_once()), Some(Code::Unavailable));
    for _ in 0..10 {
        scene.pass(Span::from_millis(333));
    }
    let live = scene.get(id).live;
    assert_eq!((live.state, live.crashes), (State::Running, 0));
    drop(running);
    scene.pass(SECOND);
    assert_eq!(scene.state(id), State::Ready);
}

#[test]
fn a_limit_applies_even_if_reading_it_back_failed() {
    let (scene, faulty) = FaultyStore::test_engine();
    let limit = Limit::parse("concurrency 0").expect("a limit");
    faulty.err_once(Verb::Entries);
    assert_eq!(code(scene.engine.limits().set(name("l"), limit)), Some(Code::Unavailable));
    scene.push(job("q"));
    scene.pass(SECOND);
    assert_eq!(scene.try_fetch("q"), None);
}

/// An engine with its own thread, on the system clock.
fn engine_with_thread(faulty: &Arc<FaultyStore>) -> Engine {
    Engine::on(Arc::<FaultyStore>::clone(faulty), Arc::new(SystemClock), Options::default())
        .expect("created")
}

#[test]
fn a_pending_upkeep_call_blocks_neither_fetch_timeouts_nor_stop() {
    let faulty = FaultyStore::new(Memory::default());
    let engine = engine_with_thread(&faulty);
    for verb in [Verb::Promote, Verb::Lapsed, Verb::Prune, Verb::Entries] {
        faulty.hold(verb);
    }
    let mut later = job("q");
    later.due = DueTime::After(Span::from_millis(1));
    block_on(engine.push_all(later.into())).expect("pushed");
    let wait = Span::from_millis(50);
    let fetched = block_on(engine.fetch(Fetch { wait, ..ask("q") })).expect("no error");
    assert_eq!(fetched, []);
    engine.stop().expect("stopped");
}

#[test]
fn a_worker_on_a_failing_store_ends_when_the_engine_stops() {
    let faulty = FaultyStore::new(Memory::default());
    let engine = engine_with_thread(&faulty);
    for _ in 0..1000 {
        faulty.err_once(Verb::Claim);
    }
    std::thread::scope(|scope| {
        let worker = engine.worker(["q"]);
        let run = scope.spawn(|| worker.run_blocking(|_: &Work<'_>| Ok::<_, String>(())));
        eventually(Duration::from_secs(10), || faulty.errs_left(Verb::Claim) < 1000);
        engine.stop().expect("stopped");
        assert_eq!(run.join().expect("no panic").expect("no error"), 0);
    });
}

#[test]
fn a_report_is_retried_and_its_lease_renewed_while_the_store_is_unavailable() {
    let (scene, faulty) = FaultyStore::test_engine();
    let id = scene.push(job("q"));
    faulty.err_once(Verb::Apply);
    let run = async |_: &Work<'_>| Ok::<_, String>(());
    let mut pop = Task::waiting(scene.engine.pop("q", run));
    assert_eq!(scene.state(id), State::Running);
    scene.pass(SECOND);
    assert_eq!(pop.poll_if_woken().expect("reported").expect("no error"), Some(Ok(())));
    assert_eq!(scene.state(id), State::Done);
}

#[test]
fn a_panic_in_one_thread_stops_the_worker() {
    let engine = Engine::memory();
    std::thread::scope(|scope| {
        let worker = engine.worker(["q"]).parallel(4);
        let run = scope.spawn(|| {
            worker
                .run_blocking(|_: &Work<'_>| -> Result<(), String> { panic!("the closure's own") })
        });
        eventually(Duration::from_secs(10), || engine.deliveries().waiting() == 4);
        // One attempt, so that only one thread panics.
        engine.push("q", "x").attempts(1).wait().expect("pushed");
        let panicked = run.join().expect_err("it is passed on");
        assert_eq!(panicked.downcast_ref::<&str>(), Some(&"the closure's own"));
    });
}

#[test]
fn an_error_in_one_thread_stops_the_worker() {
    let faulty = FaultyStore::new(Memory::default());
    let engine = engine_with_thread(&faulty);
    std::thread::scope(|scope| {
        let worker = engine.worker(["q"]).parallel(4);
        let run = scope.spawn(|| worker.run_blocking(|_: &Work<'_>| Ok::<_, String>(())));
        eventually(Duration::from_secs(10), || engine.deliveries().waiting() == 4);
        faulty.hold(Verb::Claim);
        block_on(engine.push_all(job("q").into())).expect("pushed");
        faulty.poison();
        faulty.release(Verb::Claim);
        // The woken thread gets the error; the others stop waiting.
        let ended = run.join().expect("no panic");
        assert_eq!(ended.expect_err("poisoned").code(), Code::Poisoned);
    });
}
