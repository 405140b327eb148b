//! Concurrent changes of workers: none is lost.

use std::sync::atomic::{AtomicUsize, Ordering};

use crore::{Engine, block_on};
use crore_core::Handler;
use crore_core::handler::{FollowUpHandler, FollowUpPayload};
use crore_wire::grpc::jobworkerp::data::{Worker, WorkerData, WorkerId};
use tonic::{Code, Status};

use super::{JobworkerpStage, SECOND, command, name, problem};

async fn handler(engine: &Engine, kind: &str) -> Handler {
    let known = engine.handlers().get(&name(kind)).await.expect("a response").expect("it exists");
    (*known.handler).clone()
}

async fn update(stage: &JobworkerpStage, id: i64, data: WorkerData) -> Result<bool, Status> {
    let ask = Worker { id: Some(WorkerId { value: id }), data: Some(data) };
    stage.workers.clone().update(ask).await.map(|updated| updated.into_inner().is_success)
}

/// Runs `does` between a call's read of the workers and its write, `times` times.
fn before_each_write(
    stage: &JobworkerpStage,
    times: usize,
    does: impl Fn(&Engine) + Send + Sync + 'static,
) {
    let (engine, left) = (stage.server.engine.clone(), AtomicUsize::new(times));
    let one_less = |left: usize| left.checked_sub(1);
    stage.server.doors.api().check_handlers(move |_| {
        if left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok() {
            does(&engine);
        }
        Ok(())
    });
}

/// Changes the timeout of a handler, a field that a worker does not have.
fn extend_timeout(engine: &Engine, kind: &str) {
    let before = block_on(handler(engine, kind));
    let timeout = Some(before.timeout.map_or(SECOND, |timeout| timeout.plus(SECOND)));
    let changed = Handler { timeout, ..before };
    block_on(engine.handlers().set(name(kind), changed)).expect("set");
}

#[tokio::test]
async fn an_update_keeps_concurrent_changes_of_other_handler_fields() {
    let stage = JobworkerpStage::start().await;
    let id = stage.create(command("a")).await;
    let mut data = stage.worker(id).await.expect("it exists");
    data.operation = "date".to_owned();
    before_each_write(&stage, 3, |engine| extend_timeout(engine, "a"));
    assert!(update(&stage, id, data).await.expect("updated"));
    let stored = handler(&stage.server.engine, "a").await;
    assert_eq!((stored.timeout, stored.id), (Some(SECOND.times(3)), 1));
    assert_eq!(stored.settings["program"], "date");
}

#[tokio::test]
async fn a_renaming_update_keeps_concurrent_changes() {
    let stage = JobworkerpStage::start().await;
    let id = stage.create(command("a")).await;
    let mut data = stage.worker(id).await.expect("it exists");
    data.name = "b".to_owned();
    before_each_write(&stage, 2, |engine| extend_timeout(engine, "a"));
    assert!(update(&stage, id, data).await.expect("renamed"));
    let stored = handler(&stage.server.engine, "b").await;
    assert_eq!((stored.timeout, stored.id), (Some(SECOND.times(2)), 1));
    assert_eq!(stage.server.engine.handlers().list().await.expect("a response").len(), 1);
}

#[tokio::test]
async fn an_update_applies_to_its_worker_despite_a_concurrent_renaming() {
    let stage = JobworkerpStage::start().await;
    let id = stage.create(command("a")).await;
    let mut data = stage.worker(id).await.expect("it exists");
    data.operation = "date".to_owned();
    before_each_write(&stage, 1, |engine| {
        let known =
            block_on(engine.handlers().get(&name("a"))).expect("a response").expect("it exists");
        let (from, it) = ((name("a"), known.revision), (*known.handler).clone());
        assert!(block_on(engine.handlers().rename(from, name("b"), it)).expect("a response"));
    });
    assert!(update(&stage, id, data.clone()).await.expect("updated"));
    assert_eq!(stage.worker(id).await, Some(data), "and is called at its latest URL");
    assert_eq!(stage.server.engine.handlers().list().await.expect("a response").len(), 1);
}

#[tokio::test]
async fn an_update_of_a_constantly_changing_worker_is_aborted() {
    let stage = JobworkerpStage::start().await;
    let id = stage.create(command("a")).await;
    let mut data = stage.worker(id).await.expect("it exists");
    data.operation = "date".to_owned();
    before_each_write(&stage, usize::MAX, |engine| extend_timeout(engine, "a"));
    let refused = update(&stage, id, data).await.expect_err("too busy");
    assert_eq!(problem(&refused), (Code::Aborted, "refused".to_owned(), String::new()));
    assert_eq!(handler(&stage.server.engine, "a").await.settings["program"], "ls");
}

#[tokio::test]
async fn an_update_keeps_failure_follow_ups_of_other_doors() {
    let stage = JobworkerpStage::start().await;
    let id = stage.create(command("a")).await;
    let summary = FollowUpHandler { kind: name("a"), gives: FollowUpPayload::Summary };
    let before = handler(&stage.server.engine, "a").await;
    let changed = Handler { on_failure: vec![summary.clone()], ..before };
    stage.server.engine.handlers().set(name("a"), changed).await.expect("set");
    let data = stage.worker(id).await.expect("it exists");
    assert!(update(&stage, id, data).await.expect("updated"));
    assert_eq!(handler(&stage.server.engine, "a").await.on_failure, [summary]);
}
