//! Several who change workers at once: nobody's word is lost.

use std::sync::atomic::{AtomicUsize, Ordering};

use crore::{Engine, block_on};
use crore_core::Handler;
use crore_core::handler::{Follow, Gives};
use crore_wire::grpc::jobworkerp::data::{Worker, WorkerData, WorkerId};
use tonic::{Code, Status};

use super::{SECOND, Stage, command, name, problem};

async fn handler(engine: &Engine, kind: &str) -> Handler {
    let known = engine.handlers().get(&name(kind)).await.expect("asked").expect("it is there");
    (*known.handler).clone()
}

async fn update(stage: &Stage, id: i64, data: WorkerData) -> Result<bool, Status> {
    let ask = Worker { id: Some(WorkerId { value: id }), data: Some(data) };
    stage.workers.clone().update(ask).await.map(|updated| updated.into_inner().is_success)
}

/// Lets something happen between the look of a call at the workers and its write, so many times.
fn meanwhile(stage: &Stage, times: usize, does: impl Fn(&Engine) + Send + Sync + 'static) {
    let (engine, left) = (stage.server.engine.clone(), AtomicUsize::new(times));
    let one_less = |left: usize| left.checked_sub(1);
    stage.server.doors.api().check_handlers(move |_| {
        if left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok() {
            does(&engine);
        }
        Ok(())
    });
}

/// Has somebody else change the timeout of a handler, of which a worker has no word.
fn slower(engine: &Engine, kind: &str) {
    let before = block_on(handler(engine, kind));
    let timeout = Some(before.timeout.map_or(SECOND, |timeout| timeout.plus(SECOND)));
    let changed = Handler { timeout, ..before };
    block_on(engine.handlers().set(name(kind), changed)).expect("set");
}

#[tokio::test]
async fn an_update_keeps_what_another_says_meanwhile_that_a_worker_has_no_word_for() {
    let stage = Stage::start().await;
    let id = stage.create(command("a")).await;
    let mut data = stage.worker(id).await.expect("it is there");
    data.operation = "date".to_owned();
    meanwhile(&stage, 3, |engine| slower(engine, "a"));
    assert!(update(&stage, id, data).await.expect("updated"));
    let stored = handler(&stage.server.engine, "a").await;
    assert_eq!((stored.timeout, stored.id), (Some(SECOND.times(3)), 1));
    assert_eq!(stored.settings["program"], "date");
}

#[tokio::test]
async fn an_update_that_renames_a_worker_keeps_what_another_says_of_it_meanwhile() {
    let stage = Stage::start().await;
    let id = stage.create(command("a")).await;
    let mut data = stage.worker(id).await.expect("it is there");
    data.name = "b".to_owned();
    meanwhile(&stage, 2, |engine| slower(engine, "a"));
    assert!(update(&stage, id, data).await.expect("renamed"));
    let stored = handler(&stage.server.engine, "b").await;
    assert_eq!((stored.timeout, stored.id), (Some(SECOND.times(2)), 1));
    assert_eq!(stage.server.engine.handlers().list().await.expect("asked").len(), 1);
}

#[tokio::test]
async fn an_update_of_a_worker_that_is_renamed_meanwhile_is_of_that_worker() {
    let stage = Stage::start().await;
    let id = stage.create(command("a")).await;
    let mut data = stage.worker(id).await.expect("it is there");
    data.operation = "date".to_owned();
    meanwhile(&stage, 1, |engine| {
        let known =
            block_on(engine.handlers().get(&name("a"))).expect("asked").expect("it is there");
        let (from, it) = ((name("a"), known.revision), (*known.handler).clone());
        assert!(block_on(engine.handlers().rename(from, name("b"), it)).expect("asked"));
    });
    assert!(update(&stage, id, data.clone()).await.expect("updated"));
    assert_eq!(stage.worker(id).await, Some(data), "and is called as it was said last");
    assert_eq!(stage.server.engine.handlers().list().await.expect("asked").len(), 1);
}

#[tokio::test]
async fn an_update_whose_worker_is_changed_again_and_again_is_aborted() {
    let stage = Stage::start().await;
    let id = stage.create(command("a")).await;
    let mut data = stage.worker(id).await.expect("it is there");
    data.operation = "date".to_owned();
    meanwhile(&stage, usize::MAX, |engine| slower(engine, "a"));
    let refused = update(&stage, id, data).await.expect_err("too busy");
    assert_eq!(problem(&refused), (Code::Aborted, "refused".to_owned(), String::new()));
    assert_eq!(handler(&stage.server.engine, "a").await.settings["program"], "ls");
}

#[tokio::test]
async fn an_update_keeps_who_hears_of_failures_by_another_door() {
    let stage = Stage::start().await;
    let id = stage.create(command("a")).await;
    let told = Follow { kind: name("a"), gives: Gives::Summary };
    let before = handler(&stage.server.engine, "a").await;
    let changed = Handler { on_failure: vec![told.clone()], ..before };
    stage.server.engine.handlers().set(name("a"), changed).await.expect("set");
    let data = stage.worker(id).await.expect("it is there");
    assert!(update(&stage, id, data).await.expect("updated"));
    assert_eq!(handler(&stage.server.engine, "a").await.on_failure, [told]);
}
