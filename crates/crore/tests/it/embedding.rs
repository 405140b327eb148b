//! From push to end, as a program that embeds the queue uses it.

use std::sync::Arc;
use std::time::Duration;

use crore::{Engine, Work, block_on};

#[test]
fn a_job_is_pushed_run_and_removed() {
    let engine = Engine::memory();
    let id = engine.push("mail", "hello").wait().expect("pushed");
    let ran = engine.pop_blocking("mail", |work: &Work<'_>| {
        assert_eq!((work.id, work.payload()), (id, b"hello".as_slice()));
        Ok::<_, String>(())
    });
    assert_eq!(ran.expect("no error"), Some(Ok(())));
    assert_eq!(block_on(engine.get(id)).expect("no error"), None);
}

#[test]
fn a_fetch_from_an_empty_queue_returns_no_job() {
    let engine = Engine::memory();
    let ran = engine.pop_blocking("mail", |_: &Work<'_>| Ok::<_, String>(()));
    assert_eq!(ran.expect("no error"), None);
}

#[test]
fn a_failed_job_is_kept_and_its_attempts_are_counted() {
    let engine = Engine::memory();
    engine.push("mail", "hello").wait().expect("pushed");
    for attempt in 1..=3 {
        let ran = engine.pop_blocking("mail", |work: &Work<'_>| {
            assert_eq!(work.attempt(), attempt);
            Err::<(), _>("no")
        });
        assert_eq!(ran.expect("no error"), Some(Err("no")));
    }
}

#[test]
fn smaller_priorities_are_delivered_first_and_equal_ones_in_order() {
    let engine = Engine::memory();
    for (priority, text) in [(0, "b"), (1, "d"), (0, "c"), (-5, "a")] {
        engine.push("q", text).priority(priority).wait().expect("pushed");
    }
    let mut order = String::new();
    while let Some(ran) = engine
        .pop_blocking("q", |work: &Work<'_>| {
            order.push_str(std::str::from_utf8(work.payload()).expect("text"));
            Ok::<_, String>(())
        })
        .expect("no error")
    {
        ran.expect("it succeeds");
    }
    assert_eq!(order, "abcd");
}

#[test]
fn a_waiting_worker_gets_pushed_jobs_and_stops_on_request() {
    let engine = Engine::memory();
    let worker = engine.worker(["q"]).parallel(3);
    let stop = worker.stopper();
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let running = scope.spawn(|| {
            let send = std::sync::Mutex::new(send);
            worker.run_blocking(|work: &Work<'_>| {
                send.lock().expect("no panic").send(work.payload().to_vec()).expect("received");
                Ok::<_, String>(())
            })
        });
        for n in 0..100u8 {
            engine.push("q", vec![n]).wait().expect("pushed");
        }
        let mut got: Vec<u8> = (0..100).map(|_| receive.recv().expect("one")[0]).collect();
        got.sort_unstable();
        assert_eq!(got, (0..100).collect::<Vec<u8>>());
        stop.stop();
        assert_eq!(running.join().expect("no panic").expect("no error"), 100);
    });
}

#[test]
fn a_worker_of_a_quiesced_engine_finishes_its_jobs_and_ends() {
    let engine = Engine::memory();
    engine.push("q", "one").wait().expect("pushed");
    engine.push("q", "two").wait().expect("pushed");
    let ran = engine.worker(["q"]).run_blocking(|_| {
        engine.lifecycle().quiesce();
        Ok::<_, String>(())
    });
    assert_eq!(ran.expect("no error"), 1);
}

#[test]
fn a_delayed_job_is_delivered_when_due() {
    let engine = Engine::memory();
    engine.push("q", "later").after(Duration::from_millis(30)).wait().expect("pushed");
    let ask = crore::fetch::Fetch {
        wait: crore::core::Span::from_secs(10),
        ..crore::fetch::Fetch::new(name("q"), name("w"))
    };
    let jobs = block_on(engine.fetch(ask)).expect("no error");
    assert_eq!(jobs.len(), 1);
}

#[test]
fn a_reopened_store_delivers_pushed_jobs_in_order() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("jobs.crore");
    let engine = Engine::open(&path).expect("opened");
    for text in ["a", "b", "c"] {
        engine.push("q", text).wait().expect("pushed");
    }
    engine.stop().expect("stopped");
    drop(engine);
    let engine = Engine::open(&path).expect("opened again");
    let mut order = String::new();
    for _ in 0..3 {
        let ran = engine.pop_blocking("q", |work: &Work<'_>| {
            order.push_str(std::str::from_utf8(work.payload()).expect("text"));
            Ok::<_, String>(())
        });
        ran.expect("no error").expect("one").expect("it succeeds");
    }
    assert_eq!(order, "abc");
}

#[test]
fn a_wait_for_a_result_does_not_poll() {
    let engine = Arc::new(Engine::memory());
    let id = engine.push("q", "x").keep_result(Duration::from_secs(60)).wait().expect("pushed");
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| block_on(engine.wait(id, crore::core::Span::from_secs(10))));
        let ran = engine.pop_blocking("q", |_: &Work<'_>| Ok::<_, String>(b"done".to_vec()));
        ran.expect("no error").expect("one").expect("it succeeds");
        let ended = waits.join().expect("no panic").expect("no error").expect("in time");
        assert_eq!(&*ended.result.expect("a result").bytes, b"done");
    });
}

fn name(text: &str) -> crore::core::Name {
    crore::core::Name::new("name", text).expect("a valid name")
}
