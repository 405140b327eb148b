//! A store that errs, dawdles or has given up: everybody is told, nobody hangs, and what was to be
//! done is done as soon as it can be. And what the engine says about itself.

use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use crore::act::Act;
use crore::core::job::{Ended, Needs, Retain, When, Why};
use crore::core::limit::Limit;
use crore::core::machine::Outcome;
use crore::core::push::{After, AfterRef};
use crore::core::schedule::{Missed, Timing};
use crore::core::{Code, GroupId, Job, JobId, Span, Spec, State};
use crore::events::{Happened, Heard, Listener};
use crore::explain::Reason;
use crore::fetch::Fetch;
use crore::finish::{Finish, Finished};
use crore::store::jobs::Renew;
use crore::store::registry::QueueSettings;
use crore::store::views::{Query, Step};
use crore::store::{Memory, SystemClock};
use crore::{Engine, Error, Options, Work, block_on};
use crore_testkit::eventually;

use crate::scene::{
    HOUR, LEASE, MINUTE, SECOND, Scene, Task, ask, job, jobs, name, on_both, spec, wait_for,
};
use crate::sick_store::{Sick, Verb};

const DONE: Outcome = Outcome::Done { result: None };

/// The code of whatever an engine call gives.
fn code<T>(future: impl Future<Output = Result<T, Error>>) -> Option<Code> {
    block_on(future).err().map(|error| error.code())
}

#[test]
fn an_engine_on_a_poisoned_store_says_so_at_every_call() {
    let (scene, sick) = Sick::scene();
    let id = scene.push(job("q"));
    let running = scene.fetch("q");
    sick.poison();
    let (engine, delivery) = (&scene.engine, running.live.delivery);
    let query = Query { state: State::Ready, queue: None, kind: None, after: None, n: 10 };
    let timing = Timing::parse("timing", "every 1m").expect("a timing");
    let limit = Limit::parse("concurrency 1").expect("a limit");
    let lease = Renew { id, delivery, span: None };
    let codes = [
        code(engine.push_all(job("q").into())),
        code(async { engine.push("q", "x").await }),
        code(engine.fetch(ask("q"))),
        code(engine.fetch(wait_for("q"))),
        code(engine.finish(Finish::of(&running, DONE))),
        code(engine.handed_over(id, delivery)),
        code(engine.renew(vec![lease])),
        code(engine.act(id.into(), &Act::Cancel)),
        code(engine.act_on_all(&Default::default(), &Act::Cancel, crore::act::Run::Real, |_| true)),
        code(engine.get(id)),
        code(engine.list(query)),
        code(engine.counts(None)),
        code(engine.stats(name("done"), Step::Hour)),
        code(engine.wait(id, HOUR)),
        code(engine.explain(id)),
        code(engine.progress(id, delivery, 1, "")),
        code(engine.line(id, delivery, "")),
        code(engine.notes(id)),
        code(engine.group(GroupId(1))),
        code(engine.seal(GroupId(1))),
        code(engine.pause(name("q"))),
        code(engine.resume(name("q"))),
        code(engine.drain(name("q"), HOUR)),
        code(engine.queue(&name("q"))),
        code(engine.queues()),
        code(engine.set_queue(name("q"), QueueSettings::default())),
        code(engine.set_schedule(name("s"), timing, Missed::Skip, job("q"))),
        code(engine.set_schedule_paused(&name("s"), true)),
        code(engine.remove_schedule(name("s"))),
        code(engine.schedules()),
        code(engine.set_limit(name("l"), limit)),
        code(engine.remove_limit(name("l"))),
        code(engine.limits()),
        code(engine.set_handler(name("k"), "")),
        code(engine.handlers()),
        code(engine.set_worker(name("w"), "", HOUR)),
        code(engine.workers()),
        code(async { engine.pop("q", async |_: &Work<'_>| Ok::<_, String>(())).await }),
    ];
    for (n, code) in codes.into_iter().enumerate() {
        assert_eq!(code, Some(Code::Poisoned), "call {n}");
    }
    scene.clock.advance(HOUR);
    assert_eq!(code(engine.upkeep_once()), Some(Code::Poisoned));
    assert!(engine.upkeep_at() > scene.now(), "it is tried again, but not at once");
    scene.engine.stop().expect("stopped");
}

#[test]
fn an_error_goes_to_whoever_asked_and_the_next_call_is_served() {
    let (scene, sick) = Sick::scene();
    sick.err_once(Verb::Push);
    assert_eq!(code(scene.engine.push_all(job("q").into())), Some(Code::Unavailable));
    scene.push(job("q"));
    sick.err_once(Verb::Claim);
    assert_eq!(code(scene.engine.fetch(ask("q"))), Some(Code::Unavailable));
    let fetched = scene.fetch("q");
    sick.err_once(Verb::Apply);
    assert_eq!(code(scene.engine.finish(Finish::of(&fetched, DONE))), Some(Code::Unavailable));
    scene.done(&fetched);
}

#[test]
fn whoever_is_woken_into_an_error_passes_the_wake_up_on() {
    let (scene, sick) = Sick::scene();
    let mut first = Task::waiting(scene.engine.fetch(wait_for("q")));
    let mut second = Task::waiting(scene.engine.fetch(wait_for("q")));
    scene.push(job("q"));
    sick.err_once(Verb::Claim);
    assert!(first.poll_if_woken().expect("woken").is_err());
    assert_eq!(second.poll_if_woken().expect("woken").expect("no error").len(), 1);
}

#[test]
fn whoever_leaves_while_the_store_dawdles_passes_the_wake_up_on() {
    let (scene, sick) = Sick::scene();
    let mut first = Task::waiting(scene.engine.fetch(wait_for("q")));
    let mut second = Task::waiting(scene.engine.fetch(wait_for("q")));
    scene.push(job("q"));
    sick.hold(Verb::Claim);
    assert!(first.poll_if_woken().is_none());
    drop(first);
    sick.release(Verb::Claim);
    assert_eq!(second.poll_if_woken().expect("woken").expect("no error").len(), 1);
}

#[test]
fn a_slow_store_is_waited_for_and_holds_nobody_else_up() {
    let (scene, sick) = Sick::scene();
    let id = scene.push(job("q"));
    sick.hold(Verb::Push);
    let mut push = Task::waiting(scene.engine.push_all(job("slow").into()));
    let fetched = scene.fetch("q");
    assert_eq!(fetched.id, id);
    scene.done(&fetched);
    sick.release(Verb::Push);
    assert_eq!(push.poll_if_woken().expect("answered").expect("no error").jobs.len(), 1);
}

#[test]
fn a_job_that_ends_and_goes_while_somebody_begins_to_wait_is_told_of() {
    let (scene, sick) = Sick::scene();
    let id = scene.push(Spec { retain: Retain::Nothing, ..spec("q") });
    let fetched = scene.fetch("q");
    sick.hold(Verb::Get);
    let mut waiter = Task::waiting(scene.engine.wait(id, HOUR));
    scene.done(&fetched);
    sick.release(Verb::Get);
    let ended = waiter.poll().expect("told").expect("no error").expect("ended");
    assert_eq!((ended.id, ended.state), (id, None));
}

/// Upkeep meets the error, and its time comes again.
fn err_in_upkeep(scene: &Scene, sick: &Sick, verb: Verb, after: Span) {
    sick.err_once(verb);
    scene.clock.advance(after);
    assert_eq!(code(scene.engine.upkeep_once()), Some(Code::Unavailable), "{verb:?}");
    assert!(scene.engine.upkeep_at() > scene.now(), "{verb:?} is not tried again at once");
    scene.pass(SECOND);
}

#[test]
fn upkeep_tries_again_what_the_store_could_not_do() {
    let (scene, sick) = Sick::scene();
    let mut later = job("q");
    later.due = When::After(MINUTE);
    let id = scene.push(later);
    err_in_upkeep(&scene, &sick, Verb::Promote, MINUTE);
    assert_eq!(scene.state(id), State::Ready);
    scene.fetch("q");
    err_in_upkeep(&scene, &sick, Verb::Lapsed, LEASE);
    assert_eq!(scene.state(id), State::Ready);
    scene.fetch("q");
    err_in_upkeep(&scene, &sick, Verb::Apply, LEASE);
    assert_eq!(scene.get(id).live.crashes, 2);
}

#[test]
fn a_timeout_outlives_an_error_of_the_store() {
    let (scene, sick) = Sick::scene();
    let id = scene.push(Spec { timeout: Some(SECOND.times(8)), ..spec("q") });
    scene.pass(SECOND.times(6));
    scene.fetch("q");
    err_in_upkeep(&scene, &sick, Verb::Apply, SECOND.times(8));
    assert_eq!(scene.get(id).live.history[0].ended, Ended::TimedOut);
}

#[test]
fn counts_outlive_an_error_of_the_store() {
    let (scene, sick) = Sick::scene();
    scene.push_all(jobs("q", 3));
    err_in_upkeep(&scene, &sick, Verb::Note, SECOND.times(5));
    let stats = block_on(scene.engine.stats(name("pushed"), Step::Hour)).expect("stats");
    assert_eq!(stats.iter().map(|(_, n)| n).sum::<u64>(), 3);
}

#[test]
fn a_schedule_outlives_an_error_of_the_store() {
    let (scene, sick) = Sick::scene();
    let timing = Timing::parse("timing", "every 1m").expect("a timing");
    let set = scene.engine.set_schedule(name("s"), timing, Missed::Skip, job("q"));
    block_on(set).expect("set");
    scene.settle();
    err_in_upkeep(&scene, &sick, Verb::Apply, MINUTE);
    assert_eq!(scene.fetch_n("q", 10).len(), 1);
}

#[test]
fn one_lost_renewal_does_no_harm_even_to_the_shortest_lease() {
    let (scene, sick) = Sick::scene();
    let id = scene.push(Spec { lease: Some(SECOND), ..spec("q") });
    let pop = scene.engine.pop("q", async |_: &Work<'_>| {
        std::future::pending::<()>().await;
        Ok::<_, String>(())
    });
    let running = Task::waiting(pop);
    sick.err_once(Verb::Renew);
    scene.clock.advance(Span::from_millis(333));
    assert_eq!(code(scene.engine.upkeep_once()), Some(Code::Unavailable));
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
fn a_lease_that_is_renewed_while_it_is_taken_back_is_still_watched() {
    let (scene, sick) = Sick::scene();
    let id = scene.push(job("q"));
    let fetched = scene.fetch("q");
    let lease = Renew { id, delivery: fetched.live.delivery, span: None };
    let engine = scene.engine.clone();
    sick.meanwhile(Verb::Lapsed, move || {
        block_on(engine.renew(vec![lease])).expect("renewed");
    });
    scene.pass(LEASE);
    assert_eq!(scene.state(id), State::Running, "it was renewed in time");
    scene.pass(LEASE);
    assert_eq!(scene.state(id), State::Ready, "and its end is noticed all the same");
}

#[test]
fn a_limit_that_was_set_holds_even_if_it_could_not_be_read_back() {
    let (scene, sick) = Sick::scene();
    let limit = Limit::parse("concurrency 0").expect("a limit");
    sick.err_once(Verb::Entries);
    assert_eq!(code(scene.engine.set_limit(name("l"), limit)), Some(Code::Unavailable));
    scene.push(job("q"));
    scene.pass(SECOND);
    assert_eq!(scene.try_fetch("q"), None);
}

#[test]
fn a_limit_that_is_changed_while_jobs_are_looked_through_is_brought_to_all_of_them() {
    let (scene, sick) = Sick::scene();
    let ids: Vec<JobId> = (0..3)
        .flat_map(|_| scene.push_all(jobs("q", 1000)))
        .map(|taken| taken.id().expect("new"))
        .collect();
    let set = |text| {
        let limit = Limit::parse(text).expect("a limit");
        block_on(scene.engine.set_limit(name("l"), limit)).expect("set");
    };
    set("concurrency 1");
    block_on(scene.engine.upkeep_once()).expect("the first thousand");
    sick.hold(Verb::List);
    let mut sweep = Task::waiting(scene.engine.upkeep_once());
    block_on(scene.engine.remove_limit(name("l"))).expect("removed");
    sick.release(Verb::List);
    sweep.poll().expect("ended").expect("no error");
    scene.settle();
    assert!(ids.iter().all(|id| scene.get(*id).spec.limits.is_empty()));
}

#[test]
fn a_job_that_is_pushed_while_a_limit_is_set_is_brought_under_it() {
    let (scene, sick) = Sick::scene();
    sick.hold(Verb::Push);
    let mut push = Task::waiting(scene.engine.push_all(job("q").into()));
    let limit = Limit::parse("concurrency 0").expect("a limit");
    block_on(scene.engine.set_limit(name("l"), limit)).expect("set");
    scene.settle();
    sick.release(Verb::Push);
    push.poll().expect("answered").expect("no error");
    scene.settle();
    assert_eq!(scene.try_fetch("q"), None);
}

/// A thread of its own, and a clock that runs.
fn living(sick: &Arc<Sick>) -> Engine {
    Engine::on(Arc::<Sick>::clone(sick), Arc::new(SystemClock), Options::default()).expect("made")
}

#[test]
fn a_store_that_never_answers_upkeep_keeps_no_fetch_from_its_end_and_no_engine_from_its_stop() {
    let sick = Sick::new(Memory::default());
    let engine = living(&sick);
    for verb in [Verb::Promote, Verb::Lapsed, Verb::Prune, Verb::Entries] {
        sick.hold(verb);
    }
    let mut later = job("q");
    later.due = When::After(Span::from_millis(1));
    block_on(engine.push_all(later.into())).expect("pushed");
    let wait = Span::from_millis(50);
    let fetched = block_on(engine.fetch(Fetch { wait, ..ask("q") })).expect("no error");
    assert_eq!(fetched, []);
    engine.stop().expect("stopped");
}

#[test]
fn a_worker_that_waits_for_a_sick_store_ends_when_the_engine_stops() {
    let sick = Sick::new(Memory::default());
    let engine = living(&sick);
    for _ in 0..1000 {
        sick.err_once(Verb::Claim);
    }
    std::thread::scope(|scope| {
        let worker = engine.worker(["q"]);
        let run = scope.spawn(|| worker.run_blocking(|_: &Work<'_>| Ok::<_, String>(())));
        eventually(Duration::from_secs(10), || sick.errs_left(Verb::Claim) < 1000);
        engine.stop().expect("stopped");
        assert_eq!(run.join().expect("no panic").expect("no error"), 0);
    });
}

#[test]
fn after_a_restart_workers_keep_their_jobs_for_one_more_lease() {
    on_both(|scene| {
        let ids = [scene.push(job("q")), scene.push(job("q"))];
        let running = scene.fetch_n("q", 2);
        scene.clock.advance(LEASE.times(2));
        let scene = scene.restarted();
        scene.pass(SECOND.times(29));
        assert!(ids.iter().all(|id| scene.state(*id) == State::Running));
        assert!(matches!(scene.finish(&running[0], DONE), Finished::Yes { .. }));
        scene.pass(SECOND);
        assert_eq!((scene.state(ids[0]), scene.state(ids[1])), (State::Done, State::Ready));
    });
}

#[test]
fn after_a_restart_runs_still_have_their_timeouts() {
    let scene = Scene::memory();
    let id = scene.push(Spec { timeout: Some(SECOND.times(10)), ..spec("q") });
    scene.fetch("q");
    scene.clock.advance(SECOND.times(4));
    let scene = scene.restarted();
    scene.pass(SECOND.times(6));
    assert_eq!(scene.get(id).live.history[0].ended, Ended::TimedOut);
}

#[test]
fn an_idle_engine_waits_for_nothing_but_a_far_pruning() {
    on_both(|scene| {
        let far = scene.now().after(MINUTE.times(15));
        assert_eq!(scene.engine.upkeep_at(), far);
        scene.push(job("q"));
        scene.done(&scene.fetch("q"));
        scene.pass(HOUR);
        assert_eq!(scene.engine.upkeep_at(), scene.now().after(MINUTE.times(15)));
        let waiter = Task::waiting(scene.engine.fetch(Fetch { wait: MINUTE, ..ask("q") }));
        assert_eq!(scene.engine.upkeep_at(), scene.now().after(MINUTE));
        drop(waiter);
        assert_eq!(scene.engine.upkeep_at(), scene.now().after(MINUTE.times(15)));
    });
}

fn reasons(scene: &Scene, id: JobId) -> Vec<Reason> {
    let explained = block_on(scene.engine.explain(id)).expect("no error").expect("it is there");
    assert_eq!((explained.id, explained.state), (id, scene.state(id)));
    explained.reasons
}

#[test]
fn every_state_has_its_reason() {
    on_both(|scene| {
        let first = scene.push(job("q"));
        assert_eq!(reasons(scene, first), [Reason::NobodyWaits]);
        let second = scene.push(job("q"));
        let behind = Reason::Behind { jobs: 1, or_more: false };
        assert_eq!(reasons(scene, second), [behind, Reason::NobodyWaits]);
        let running = scene.fetch("q");
        let (since, lease_until) = (scene.now(), scene.now().after(LEASE));
        let worker = Some(name("w"));
        let runs = Reason::Running { since, worker, lease_until, stop: false };
        assert_eq!(reasons(scene, first), [runs]);
        let mut held = job("q");
        let on = AfterRef::Job(first);
        held.after.push(After { on, needs: Needs::Success });
        let held = scene.push(held);
        let on = scene.get(held).spec.after.clone();
        assert_eq!(reasons(scene, held), [Reason::WaitsFor { left: 1, on, broken: false }]);
        scene.finish(&running, Outcome::Snooze(MINUTE));
        let at = scene.now().after(MINUTE);
        let due = Reason::DueAt { at, after: MINUTE, attempts: 0, error: None };
        assert_eq!(reasons(scene, first), [due]);
        scene.act(second, &Act::Cancel);
        let ended = Reason::Ended { at: Some(scene.now()), why: Some(Why::Asked) };
        assert_eq!(reasons(scene, second), [ended]);
        assert_eq!(block_on(scene.engine.explain(JobId(4711))).expect("no error"), None);
    });
}

#[test]
fn a_job_that_is_held_by_a_pause_and_a_limit_says_both() {
    let scene = Scene::memory();
    let limit = Limit::parse("concurrency 1").expect("a limit");
    block_on(scene.engine.set_limit(name("l"), limit)).expect("set");
    let ids = [scene.push(job("q")), scene.push(job("q"))];
    scene.fetch("q");
    block_on(scene.engine.pause(name("q"))).expect("paused");
    let waiter = Task::waiting(scene.engine.fetch(wait_for("q")));
    let key = scene.get(ids[1]).spec.limits[0].clone();
    let limited = Reason::Limited { key, running: 1, most: Some(1) };
    assert_eq!(reasons(&scene, ids[1]), [Reason::Paused(name("q")), limited]);
    drop(waiter);
}

#[test]
fn a_rate_is_named_only_while_it_holds_the_job_back() {
    on_both(|scene| {
        let limit = Limit::parse("rate 2/1m burst 2").expect("a limit");
        block_on(scene.engine.set_limit(name("l"), limit)).expect("set");
        let limited = |id, running| {
            let key = scene.get(id).spec.limits[0].clone();
            Reason::Limited { key, running, most: None }
        };
        // There is room, and nobody wants it.
        let id = scene.push(job("q"));
        assert_eq!(reasons(scene, id), [Reason::NobodyWaits]);
        scene.done(&scene.fetch("q"));
        // One start more.
        let id = scene.push(Spec { retain: Retain::Nothing, ..spec("q") });
        assert_eq!(reasons(scene, id), [Reason::NobodyWaits]);
        let running = scene.fetch("q");
        let id = scene.push(job("q"));
        assert_eq!(reasons(scene, id), [limited(id, 1), Reason::NobodyWaits]);
        // Of a job that is gone nobody can tell that it has run; but somebody waits in vain.
        scene.done(&running);
        let waiter = Task::waiting(scene.engine.fetch(wait_for("q")));
        assert_eq!(reasons(scene, id), [limited(id, 0)]);
        drop(waiter);
        scene.pass(MINUTE);
        assert_eq!(reasons(scene, id), [Reason::NobodyWaits]);
    });
}

fn heard(listener: &mut Listener) -> Vec<(JobId, Happened)> {
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

#[test]
fn a_queue_is_paused_though_another_sets_it_meanwhile() {
    let (scene, sick) = Sick::scene();
    let engine = scene.engine.clone();
    sick.meanwhile(Verb::Entries, move || {
        let settings = QueueSettings { max_done: 7, ..QueueSettings::default() };
        block_on(engine.set_queue(name("q"), settings)).expect("set");
    });
    block_on(scene.engine.pause(name("q"))).expect("paused");
    let settings = block_on(scene.engine.queue(&name("q"))).expect("settings");
    assert_eq!((settings.paused, settings.max_done), (true, 7));
}

#[test]
fn a_caller_who_leaves_with_his_claim_unanswered_loses_no_job() {
    let (scene, sick) = Sick::scene();
    let id = scene.push(job("q"));
    sick.mute_once(Verb::Claim);
    drop(Task::waiting(scene.engine.fetch(ask("q"))));
    assert_eq!(scene.state(id), State::Running);
    scene.settle();
    scene.pass(LEASE);
    assert_eq!(scene.state(id), State::Ready);
}

#[test]
fn a_caller_who_leaves_with_his_push_unanswered_has_his_job_run_when_it_is_due() {
    let (scene, sick) = Sick::scene();
    let mut later = job("q");
    later.due = When::After(MINUTE);
    sick.mute_once(Verb::Push);
    drop(Task::waiting(scene.engine.push_all(later.into())));
    scene.pass(MINUTE);
    assert!(scene.try_fetch("q").is_some());
}

#[test]
fn a_report_whose_answer_nobody_hears_is_told_to_whoever_waits() {
    let (scene, sick) = Sick::scene();
    for is_dropped in [true, false] {
        let id = scene.push(job("q"));
        let fetched = scene.fetch("q");
        let mut held = job("then");
        held.after.push(After { on: AfterRef::Job(id), needs: Needs::Success });
        let held = scene.push(held);
        let mut waiter = Task::waiting(scene.engine.wait(id, HOUR));
        let mut drain = Task::waiting(scene.engine.drain(name("q"), HOUR));
        let mut listener = scene.engine.listen();
        let report = Finish::of(&fetched, Outcome::Cancel);
        if is_dropped {
            sick.mute_once(Verb::Apply);
            drop(Task::waiting(scene.engine.finish(report)));
        } else {
            sick.forget_once(Verb::Apply);
            assert_eq!(code(scene.engine.finish(report)), Some(Code::Unavailable));
        }
        assert_eq!(scene.state(id), State::Cancelled);
        scene.pass(SECOND);
        let ended = waiter.poll_if_woken().expect("told").expect("no error").expect("ended");
        assert_eq!(ended.state, Some(State::Cancelled));
        assert!(drain.poll_if_woken().expect("told").expect("no error"));
        assert!(heard(&mut listener).contains(&(id, Happened::Became(State::Cancelled))));
        assert_eq!(scene.state(held), State::Cancelled, "what waited for it is broken");
        block_on(scene.engine.resume(name("q"))).expect("goes on");
    }
}

#[test]
fn a_retry_whose_report_nobody_heard_comes_when_it_is_due() {
    let (scene, sick) = Sick::scene();
    scene.push(job("q"));
    let fetched = scene.fetch("q");
    sick.mute_once(Verb::Apply);
    drop(Task::waiting(scene.engine.finish(Finish::of(&fetched, Outcome::Snooze(HOUR)))));
    scene.settle();
    scene.pass(HOUR);
    assert!(scene.try_fetch("q").is_some());
}

#[test]
fn a_limit_or_a_schedule_whose_setting_nobody_heard_holds() {
    let (scene, sick) = Sick::scene();
    let timing = Timing::parse("timing", "every 1m").expect("a timing");
    sick.mute_once(Verb::Define);
    let set = scene.engine.set_schedule(name("s"), timing, Missed::Skip, job("q"));
    drop(Task::waiting(set));
    scene.settle();
    scene.pass(MINUTE);
    assert_eq!(scene.fetch_n("q", 10).len(), 1);
    let limit = Limit::parse("concurrency 0").expect("a limit");
    sick.mute_once(Verb::Define);
    drop(Task::waiting(scene.engine.set_limit(name("l"), limit)));
    scene.settle();
    scene.push(job("elsewhere"));
    assert_eq!(scene.try_fetch("elsewhere"), None);
}

/// Somebody asks for a change of the limits, and it takes effect; he does not hear of it.
fn unheard<T>(sick: &Sick, is_dropped: bool, change: impl Future<Output = Result<T, Error>>) {
    if is_dropped {
        sick.mute_once(Verb::Define);
        drop(Task::waiting(change));
    } else {
        sick.forget_once(Verb::Define);
        assert_eq!(code(change), Some(Code::Unavailable));
    }
}

#[test]
fn limits_that_may_have_been_changed_are_read_again_before_the_next_push() {
    for is_dropped in [true, false] {
        let (scene, sick) = Sick::scene();
        let none = Limit::parse("concurrency 0").expect("a limit");
        unheard(&sick, is_dropped, scene.engine.set_limit(name("l"), none));
        // Upkeep has not come to it yet.
        let held = scene.push(job("q"));
        assert_eq!(scene.get(held).spec.limits.len(), 1);
        unheard(&sick, is_dropped, scene.engine.remove_limit(name("l")));
        let free = scene.push(job("q"));
        assert_eq!(scene.get(free).spec.limits, []);
    }
}

#[test]
fn a_push_under_limits_that_cannot_be_read_is_refused_and_goes_when_they_can() {
    let (scene, sick) = Sick::scene();
    let none = Limit::parse("concurrency 0").expect("a limit");
    unheard(&sick, false, scene.engine.set_limit(name("l"), none));
    sick.err_once(Verb::Entries);
    assert_eq!(code(scene.engine.push_all(job("q").into())), Some(Code::Unavailable));
    let held = scene.push(job("q"));
    assert_eq!(scene.get(held).spec.limits.len(), 1);
}

#[test]
fn limits_that_were_read_before_a_change_do_not_take_the_place_of_those_read_after() {
    let (scene, sick) = Sick::scene();
    let engine = scene.engine.clone();
    let limit = |text| Limit::parse(text).expect("a limit");
    // The answer to the first one's look is on its way while the second is set and read.
    sick.meanwhile(Verb::Entries, move || {
        block_on(engine.set_limit(name("second"), limit("concurrency 0"))).expect("set");
    });
    block_on(scene.engine.set_limit(name("first"), limit("concurrency 9"))).expect("set");
    let id = scene.push(job("q"));
    assert_eq!(scene.get(id).spec.limits.len(), 2);
}

#[test]
fn upkeep_that_is_left_in_the_middle_is_due_still() {
    let (scene, sick) = Sick::scene();
    let mut later = job("q");
    later.due = When::After(MINUTE);
    scene.push(later);
    let running = scene.push(Spec { lease: Some(MINUTE), ..spec("other") });
    scene.fetch("other");
    scene.clock.advance(MINUTE);
    sick.hold(Verb::Promote);
    drop(Task::waiting(scene.engine.upkeep_once()));
    sick.release(Verb::Promote);
    assert!(scene.engine.upkeep_at() <= scene.now());
    scene.settle();
    assert!(scene.try_fetch("q").is_some());
    assert_eq!(scene.state(running), State::Ready);
}

#[test]
fn the_last_handle_may_be_let_go_by_whoever_the_engines_own_thread_wakes() {
    /// A task that owns the engine, and is over as soon as it is woken.
    struct Owns(std::sync::Mutex<Option<Engine>>, std::sync::mpsc::Sender<()>);
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
    while listener.try_next().is_some() {}
    let (send, gone) = std::sync::mpsc::channel();
    let waker = Waker::from(Arc::new(Owns(std::sync::Mutex::new(Some(engine)), send)));
    let mut next = Box::pin(listener.next());
    if next.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
        // The run was ended already, and the engine is let go here.
        waker.wake();
    }
    gone.recv_timeout(Duration::from_secs(10)).expect("the engine is gone");
}

#[test]
fn whoever_waits_for_other_jobs_does_not_count_as_waiting_for_this_one() {
    let scene = Scene::memory();
    let id = scene.push(job("q"));
    let other_kind = Fetch { kinds: Some(vec![name("other")]), ..wait_for("q") };
    let others = [
        Task::waiting(scene.engine.fetch(wait_for("other"))),
        Task::waiting(scene.engine.fetch(other_kind)),
    ];
    assert_eq!(reasons(&scene, id), [Reason::NobodyWaits]);
    drop(others);
    block_on(scene.engine.pause(name("q"))).expect("paused");
    let waiter = Task::waiting(scene.engine.fetch(wait_for("q")));
    assert_eq!(reasons(&scene, id), [Reason::Paused(name("q"))]);
    drop(waiter);
}

#[test]
fn a_report_that_the_store_could_not_take_is_said_again_while_the_lease_is_held() {
    let (scene, sick) = Sick::scene();
    let id = scene.push(job("q"));
    sick.err_once(Verb::Apply);
    let run = async |_: &Work<'_>| Ok::<_, String>(());
    let mut pop = Task::waiting(scene.engine.pop("q", run));
    assert_eq!(scene.state(id), State::Running);
    scene.pass(SECOND);
    assert_eq!(pop.poll_if_woken().expect("reported").expect("no error"), Some(Ok(())));
    assert_eq!(scene.state(id), State::Done);
}

#[test]
fn a_worker_of_which_one_part_ends_by_an_error_ends_as_a_whole() {
    let sick = Sick::new(Memory::default());
    let engine = living(&sick);
    std::thread::scope(|scope| {
        let worker = engine.worker(["q"]).parallel(4);
        let run = scope.spawn(|| worker.run_blocking(|_: &Work<'_>| Ok::<_, String>(())));
        eventually(Duration::from_secs(10), || engine.waiting() == 4);
        sick.hold(Verb::Claim);
        block_on(engine.push_all(job("q").into())).expect("pushed");
        sick.poison();
        sick.release(Verb::Claim);
        // Whoever is woken meets the error; the others wait for nothing any more.
        let ended = run.join().expect("no panic");
        assert_eq!(ended.expect_err("poisoned").code(), Code::Poisoned);
    });
}
