//! Wake-ups: which fetches a job wakes, and that no fetch waits while a job for it is ready.

use std::sync::atomic::{AtomicUsize, Ordering};

use crore::core::{Job, Span};
use crore::fetch::Fetch;
use crore::{Engine, Error, block_on};

use crate::test_engine::{
    HOUR, MINUTE, SECOND, Task, TestEngine, ask, job, jobs, name, on_both, wait_for,
};

type WaitingTask<'a> = Task<'a, Result<Vec<Job>, Error>>;

fn start_waiting(engine: &Engine, ask: Fetch) -> WaitingTask<'_> {
    Task::waiting(engine.fetch(ask))
}

/// Polls woken fetches until there are none; returns the jobs in the order of the waiters.
fn poll_woken_fetches(waiters: &mut Vec<WaitingTask<'_>>) -> Vec<Job> {
    let mut got = Vec::new();
    loop {
        let before = (got.len(), waiters.iter().map(Task::wakes).sum::<usize>());
        waiters.retain_mut(|waiter| match waiter.poll_if_woken() {
            Some(jobs) => {
                got.extend(jobs.expect("no error"));
                false
            }
            None => true,
        });
        if before.1 == 0 {
            return got;
        }
    }
}

fn woken(waiters: &[WaitingTask<'_>]) -> usize {
    waiters.iter().filter(|waiter| waiter.wakes() > 0).count()
}

#[test]
fn one_job_wakes_one_of_a_thousand_fetches_which_wakes_one_more() {
    let scene = TestEngine::memory();
    let mut waiters: Vec<_> =
        (0..1000).map(|_| start_waiting(&scene.engine, wait_for("q"))).collect();
    scene.push(job("q"));
    assert_eq!(woken(&waiters), 1);
    let got = waiters.iter_mut().find_map(Task::poll_if_woken).expect("the job").expect("no error");
    assert_eq!(got.len(), 1);
    assert_eq!(woken(&waiters), 1, "the fetch that got it passes the wake-up on");
    assert_eq!(poll_woken_fetches(&mut waiters).len(), 0);
    assert_eq!(woken(&waiters), 0);
}

#[test]
fn the_longest_waiting_fetch_is_next_even_if_it_found_nothing() {
    let scene = TestEngine::memory();
    let wait = || start_waiting(&scene.engine, wait_for("q"));
    let mut waiters = [wait(), wait(), wait()];
    for n in 0..9 {
        scene.push(job("q"));
        let next = n % waiters.len();
        assert!(
            waiters[next].poll_if_woken().is_some(),
            "job {n} goes to the fetch that waits longest"
        );
        // The fetch is repeated before the others have checked for more jobs.
        waiters[next] = wait();
        assert!(waiters.iter_mut().all(|waiter| waiter.poll_if_woken().is_none()));
    }
}

#[test]
fn one_job_wakes_one_fetch_per_kind_and_only_the_one_that_got_it_wakes_another() {
    let scene = TestEngine::memory();
    let kinds = [None, Some("work"), Some("other"), Some("third")];
    let wait = |n: usize| {
        let kinds = kinds[n % kinds.len()].map(|kind| vec![name(kind)]);
        start_waiting(&scene.engine, Fetch { kinds, ..wait_for("q") })
    };
    let mut waiters: Vec<_> = (0..1000).map(wait).collect();
    scene.push(job("q"));
    assert_eq!(woken(&waiters), kinds.len());
    let mut polls = 0;
    while woken(&waiters) > 0 {
        waiters.retain_mut(|waiter| {
            polls += usize::from(waiter.wakes() > 0);
            waiter.poll_if_woken().is_none()
        });
    }
    assert_eq!((polls, waiters.len()), (kinds.len() + 1, 999));
}

#[test]
fn a_batch_of_ten_jobs_reaches_ten_waiting_fetches() {
    let scene = TestEngine::memory();
    let mut waiters: Vec<_> =
        (0..20).map(|_| start_waiting(&scene.engine, wait_for("q"))).collect();
    scene.push_all(jobs("q", 10));
    assert_eq!(poll_woken_fetches(&mut waiters).len(), 10);
    assert_eq!((waiters.len(), scene.engine.deliveries().waiting()), (10, 10));
}

#[test]
fn ten_jobs_reach_ten_threads_on_both_stores() {
    on_both(|scene| {
        std::thread::scope(|threads| {
            let fetch = || block_on(scene.engine.fetch(wait_for("q"))).expect("no error").len();
            let waiters: Vec<_> = (0..10).map(|_| threads.spawn(fetch)).collect();
            scene.push_all(jobs("q", 3));
            scene.push_all(jobs("q", 7));
            let got: usize = waiters.into_iter().map(|waiter| waiter.join().expect("ends")).sum();
            assert_eq!(got, 10);
        });
    });
}

#[test]
fn a_fetch_dropped_with_a_wake_up_passes_it_on() {
    let scene = TestEngine::memory();
    let first = start_waiting(&scene.engine, wait_for("q"));
    let mut second = start_waiting(&scene.engine, wait_for("q"));
    scene.push(job("q"));
    assert_eq!((first.wakes(), second.wakes()), (1, 0));
    drop(first);
    assert_eq!(second.poll_if_woken().expect("woken").expect("no error").len(), 1);
}

#[test]
fn a_fetch_for_one_kind_gets_that_kind_only() {
    let scene = TestEngine::memory();
    let of = |kind: &str| Fetch { kinds: Some(vec![name(kind)]), ..wait_for("q") };
    let mut mail = start_waiting(&scene.engine, of("mail"));
    let mut print = start_waiting(&scene.engine, of("print"));
    let mut one = job("q");
    one.spec.kind = name("print");
    scene.push(one);
    let got = print.poll_if_woken().expect("woken").expect("no error");
    assert_eq!(got[0].spec.kind, name("print"));
    assert!(mail.poll_if_woken().is_none());
    let mut other = job("q");
    other.spec.kind = name("mail");
    scene.push(other);
    assert!(mail.poll_if_woken().is_some());
}

#[test]
fn a_fetch_for_several_queues_is_woken_by_each() {
    let scene = TestEngine::memory();
    for queue in ["a", "b", "c"] {
        let all = Fetch { queues: vec![name("a"), name("b"), name("c")], ..wait_for("a") };
        let mut waiter = start_waiting(&scene.engine, all);
        scene.push(job("elsewhere"));
        assert_eq!(waiter.wakes(), 0);
        scene.push(job(queue));
        let got = waiter.poll_if_woken().expect("woken").expect("no error");
        assert_eq!(got[0].spec.queue, name(queue));
    }
    assert_eq!(scene.engine.deliveries().waiting(), 0);
}

#[test]
fn a_fetch_may_take_kinds_of_other_queues_besides() {
    let scene = TestEngine::memory();
    let also = vec![(name("other"), name("mail")), (name("other"), name("sms"))];
    let of = |kind: &str| {
        let mut job = job("other");
        job.spec.kind = name(kind);
        job
    };
    for pushed in [of("mail"), of("sms"), job("q")] {
        let fetch = Fetch { also: also.clone(), ..wait_for("q") };
        let mut waiter = start_waiting(&scene.engine, fetch);
        scene.push(of("print"));
        assert!(waiter.poll_if_woken().is_none());
        let (queue, kind) = (pushed.spec.queue.clone(), pushed.spec.kind.clone());
        scene.push(pushed);
        let got = waiter.poll_if_woken().expect("woken").expect("no error");
        assert_eq!((&got[0].spec.queue, &got[0].spec.kind), (&queue, &kind));
    }
    for _ in 0..3 {
        scene.push(job("q"));
        scene.push(of("mail"));
    }
    let fetch = |n| block_on(scene.engine.fetch(Fetch { n, also: also.clone(), ..ask("q") }));
    assert_eq!(fetch(5).expect("no error").len(), 5);
    assert_eq!(fetch(5).expect("no error").len(), 1);
}

#[test]
fn a_fetch_ends_at_its_timeout_and_not_before() {
    let scene = TestEngine::memory();
    let mut waiter = start_waiting(&scene.engine, Fetch { wait: MINUTE, ..ask("q") });
    scene.pass(Span::from_millis(59_999));
    assert!(waiter.poll_if_woken().is_none());
    scene.pass(Span::from_millis(1));
    assert_eq!(waiter.poll_if_woken().expect("woken").expect("no error"), []);
    assert_eq!(scene.engine.deliveries().waiting(), 0);
}

#[test]
fn a_fetch_for_several_jobs_returns_those_ready_when_the_first_is() {
    let scene = TestEngine::memory();
    let mut waiter = start_waiting(&scene.engine, Fetch { n: 5, ..wait_for("q") });
    scene.push_all(jobs("q", 3));
    assert_eq!(waiter.poll_if_woken().expect("woken").expect("no error").len(), 3);
}

#[test]
fn a_rate_limit_wakes_a_waiting_fetch_when_it_allows_the_next_job() {
    let scene = TestEngine::memory();
    let limit = crore::core::limit::Limit::parse("rate 1/10s").expect("a limit");
    block_on(scene.engine.limits().set(name("slow"), limit)).expect("set");
    scene.push_all(jobs("q", 3));
    assert_eq!(scene.fetch_n("q", 3).len(), 1);
    let mut waiters: Vec<_> =
        (0..10).map(|_| start_waiting(&scene.engine, wait_for("q"))).collect();
    scene.pass(SECOND.times(9));
    assert_eq!(poll_woken_fetches(&mut waiters).len(), 0);
    scene.pass(SECOND);
    assert_eq!(woken(&waiters), 1, "one permit admits one job");
    assert_eq!(poll_woken_fetches(&mut waiters).len(), 1);
    scene.pass(SECOND.times(10));
    assert_eq!(poll_woken_fetches(&mut waiters).len(), 1);
    assert_eq!(waiters.len(), 8);
}

#[test]
fn a_returned_permit_wakes_a_waiting_fetch() {
    on_both(|scene| {
        let limit = crore::core::limit::Limit::parse("concurrency 1").expect("a limit");
        block_on(scene.engine.limits().set(name("one"), limit)).expect("set");
        scene.push_all(jobs("q", 2));
        let first = scene.fetch("q");
        let mut waiter = start_waiting(&scene.engine, wait_for("q"));
        assert!(waiter.poll_if_woken().is_none());
        scene.done(&first);
        let got = crore_testkit::eventually(std::time::Duration::from_secs(10), || {
            waiter.poll_if_woken()
        });
        assert_eq!(got.expect("no error").len(), 1);
    });
}

#[test]
fn a_paused_queue_delivers_nothing_and_wakes_waiting_fetches_when_resumed() {
    on_both(|scene| {
        block_on(scene.engine.queues().pause(name("q"))).expect("paused");
        scene.push(job("q"));
        assert_eq!(scene.try_fetch("q"), None);
        let mut waiter = start_waiting(&scene.engine, wait_for("q"));
        block_on(scene.engine.queues().resume(name("q"))).expect("resumed");
        let got = crore_testkit::eventually(std::time::Duration::from_secs(10), || {
            waiter.poll_if_woken()
        });
        assert_eq!(got.expect("no error").len(), 1);
    });
}

#[test]
fn a_queue_is_drained_when_none_of_its_jobs_runs() {
    let scene = TestEngine::memory();
    scene.push_all(jobs("q", 2));
    scene.push(job("other"));
    let (first, _) = (scene.fetch("q"), scene.fetch("other"));
    let mut drain = Task::waiting(scene.engine.queues().drain(name("q"), HOUR));
    assert_eq!(scene.try_fetch("q"), None, "it is paused");
    assert_eq!(drain.wakes(), 0);
    scene.done(&first);
    assert!(drain.poll_if_woken().expect("drained").expect("no error"));
    assert!(block_on(scene.engine.queues().get(&name("q"))).expect("settings").paused);
}

#[test]
fn a_queue_is_drained_by_reports_of_other_threads_on_both_stores() {
    on_both(|scene| {
        scene.push_all(jobs("q", 20));
        let running = scene.fetch_n("q", 10);
        std::thread::scope(|threads| {
            let drain = threads.spawn(|| block_on(scene.engine.queues().drain(name("q"), HOUR)));
            running.iter().for_each(|job| scene.done(job));
            assert!(drain.join().expect("ends").expect("no error"));
        });
        assert_eq!(scene.try_fetch("q"), None);
    });
}

#[test]
fn a_queue_not_drained_in_time_stays_paused_and_is_reported() {
    let scene = TestEngine::memory();
    scene.push(job("q"));
    let running = scene.fetch("q");
    let mut drain = Task::waiting(scene.engine.queues().drain(name("q"), SECOND));
    scene.pass(SECOND);
    assert!(!drain.poll_if_woken().expect("it times out").expect("no error"));
    assert!(block_on(scene.engine.queues().get(&name("q"))).expect("settings").paused);
    scene.done(&running);
    assert!(block_on(scene.engine.queues().drain(name("q"), Span::ZERO)).expect("no error"));
}

#[test]
fn a_stop_wakes_all_waiting_fetches_without_jobs() {
    let scene = TestEngine::memory();
    let id = scene.push(job("elsewhere"));
    let mut waiters: Vec<_> =
        (0..10).map(|_| start_waiting(&scene.engine, wait_for("q"))).collect();
    let mut ended = Task::waiting(scene.engine.wait(id, HOUR));
    scene.engine.stop().expect("stopped");
    assert_eq!(woken(&waiters), 10);
    assert_eq!(poll_woken_fetches(&mut waiters), []);
    assert!(waiters.is_empty());
    assert!(matches!(ended.poll_if_woken(), Some(Err(Error::Stopping))));
    assert_eq!(block_on(scene.engine.fetch(wait_for("q"))).expect("no error"), []);
    let pushed = block_on(scene.engine.push_all(job("q").into()));
    assert!(matches!(pushed, Err(Error::Stopping)));
}

#[test]
fn a_quiesced_engine_refuses_pushes_and_accepts_reports() {
    on_both(|scene| {
        scene.push(job("q"));
        scene.push(job("q"));
        let running = scene.fetch("q");
        let mut waiter = Task::waiting(scene.engine.fetch(wait_for("elsewhere")));
        scene.engine.lifecycle().quiesce();
        assert_eq!(waiter.poll_if_woken().expect("woken").expect("no error"), []);
        assert_eq!(block_on(scene.engine.fetch(wait_for("q"))).expect("no error"), []);
        let pushed = block_on(scene.engine.push_all(job("q").into()));
        assert!(matches!(pushed, Err(Error::Stopping)));

        assert_eq!(block_on(scene.engine.lifecycle().idle(Span::ZERO)).expect("no error"), 1);
        let mut idle = Task::waiting(scene.engine.lifecycle().idle(HOUR));
        scene.done(&running);
        assert_eq!(idle.poll_if_woken().expect("woken").expect("no error"), 0);
    });
}

#[test]
fn a_drain_ends_when_the_engine_stops() {
    let scene = TestEngine::memory();
    scene.push(job("q"));
    scene.fetch("q");
    let mut drain = Task::waiting(scene.engine.queues().drain(name("q"), HOUR));
    scene.engine.stop().expect("stopped");
    assert!(matches!(drain.poll_if_woken(), Some(Err(Error::Stopping))));
}

#[test]
fn invalid_fetches_are_refused_with_the_field() {
    let scene = TestEngine::memory();
    let refused = |ask: Fetch| match block_on(scene.engine.fetch(ask)) {
        Err(Error::Invalid(invalid)) => invalid.field,
        other => panic!("not refused: {other:?}"),
    };
    assert_eq!(refused(Fetch { n: 0, ..ask("q") }), "n");
    assert_eq!(refused(Fetch { n: 1001, ..ask("q") }), "n");
    assert_eq!(refused(Fetch { queues: Vec::new(), ..ask("q") }), "queues");
    assert_eq!(refused(Fetch { kinds: Some(Vec::new()), ..ask("q") }), "kinds");
    let names = |n: usize| (0..n).map(|n| name(&n.to_string())).collect::<Vec<_>>();
    let many = Fetch { queues: names(1000), kinds: Some(names(11)), ..ask("q") };
    assert_eq!(refused(many), "kinds");
    let most = Fetch { queues: names(1000), kinds: Some(names(10)), ..ask("q") };
    assert_eq!(block_on(scene.engine.fetch(most)).expect("no error"), []);
}

const JOBS: usize = 400;

/// Eight threads fetch and four push. A missed wake-up hangs the test, since the clock stands still.
fn fetch_and_push_concurrently(scene: &TestEngine, do_leave: bool) {
    let done = AtomicUsize::new(0);
    std::thread::scope(|threads| {
        for fetcher in 0..8 {
            let done = &done;
            threads.spawn(move || {
                let queues = if fetcher % 2 == 0 { vec!["a", "b"] } else { vec!["a"] };
                let mut ask = Fetch { n: 1 + fetcher % 3, ..wait_for("a") };
                ask.queues = queues.into_iter().map(name).collect();
                ask.kinds = (fetcher % 4 == 2).then(|| vec![name("work")]);
                while done.load(Ordering::SeqCst) < JOBS {
                    let early = do_leave.then(|| poll_briefly(&scene.engine, &ask)).flatten();
                    let jobs = early.unwrap_or_else(|| {
                        block_on(scene.engine.fetch(ask.clone())).expect("no error")
                    });
                    for job in jobs {
                        scene.done(&job);
                        if done.fetch_add(1, Ordering::SeqCst) + 1 == JOBS {
                            scene.engine.stop().expect("stopped");
                        }
                    }
                }
            });
        }
        for pusher in 0..4 {
            threads.spawn(move || {
                for _ in 0..JOBS / 20 {
                    scene.push_all(jobs("a", 4));
                    scene.push_all(jobs(if pusher == 0 { "b" } else { "a" }, 1));
                }
            });
        }
    });
    assert_eq!(done.into_inner(), JOBS);
}

#[test]
fn no_ready_job_is_missed_by_waiting_fetches() {
    on_both(|scene| fetch_and_push_concurrently(scene, false));
}

#[test]
fn no_ready_job_is_missed_when_fetches_are_dropped() {
    fetch_and_push_concurrently(&TestEngine::memory(), true);
}

/// Polls a fetch a few times, then drops it unless it has returned.
fn poll_briefly(engine: &Engine, ask: &Fetch) -> Option<Vec<Job>> {
    let mut fetch = Task::new(engine.fetch(ask.clone()));
    (0..3).find_map(|_| {
        std::thread::yield_now();
        fetch.poll().map(|jobs| jobs.expect("no error"))
    })
}
