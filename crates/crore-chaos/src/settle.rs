//! The end of a run: no more faults, and correct workers finish every job.

use std::time::Duration;

use crore_testkit::history::response::RecordedCount;
use crore_testkit::history::{RecordedOp, RecordedResponse};
use crore_wire::api::queues::Counts;
use crore_wire::api::workers::Workers;

use crate::calls::{RecordingCaller, done_report, fetch_all};
use crate::client::{ApiRequest, CallResult};
use crate::draft::name;
use crate::time::{CALL_TIMEOUT, instant, sleep};

/// Repeats unanswered pushes, and works until every job has ended. The error lists jobs that never end.
pub(crate) async fn settle(caller: &mut RecordingCaller) -> Result<(), String> {
    let away = |_| "the server is unreachable".to_owned();
    let start = instant();
    loop {
        caller.client.connect().await.map_err(away)?;
        while let Some(push) = caller.context.take_pending_push() {
            caller.client.format = push.format;
            caller.send_push(push).await;
            caller.client.connect().await.map_err(away)?;
        }
        let held = caller.fetch(&fetch_all(100)).await;
        caller.client.connect().await.map_err(away)?;
        if held.is_empty() {
            let counts = counts(caller).await?;
            let live = counts.iter().filter(|count| !count.state.has_ended());
            let live: u64 = live.map(|count| count.n).sum();
            if live == 0 {
                return Ok(());
            }
            if start.elapsed() > CALL_TIMEOUT {
                return Err(format!("{live} jobs do not end, though workers wait: {counts:?}"));
            }
            sleep(Duration::from_millis(10)).await;
        } else {
            let reports: Vec<_> = held.into_iter().map(done_report).collect();
            caller.finish(&reports).await;
        }
    }
}

/// Waits until other callers have finished every job. The error lists jobs that never end.
pub(crate) async fn wait_until_ended(
    caller: &mut RecordingCaller,
    at_most: Duration,
) -> Result<(), String> {
    let start = instant();
    loop {
        caller.client.connect().await.map_err(|_| "the server is unreachable".to_owned())?;
        let counts = counts(caller).await?;
        if counts.iter().all(|count| count.state.has_ended()) {
            return Ok(());
        }
        if start.elapsed() > at_most {
            return Err(format!("jobs do not end, though workers wait: {counts:?}"));
        }
        sleep(Duration::from_millis(50)).await;
    }
}

/// The push workers that the server has acknowledged and does not list any more.
pub(crate) async fn missing_workers(
    caller: &mut RecordingCaller,
    workers: &[String],
) -> Result<Vec<String>, String> {
    caller.client.connect().await.map_err(|_| "the server is unreachable".to_owned())?;
    match caller.client.call::<Workers>(&ApiRequest::get("/v1/workers".to_owned())).await {
        CallResult::Answered(there) => {
            let knows = |id: &&String| there.workers.iter().any(|worker| worker.name == **id);
            Ok(workers.iter().filter(|id| !knows(id)).cloned().collect())
        }
        other => Err(format!("workers cannot be listed: {other:?}")),
    }
}

async fn counts(caller: &mut RecordingCaller) -> Result<Vec<RecordedCount>, String> {
    let call = caller.context.recorder.invoke(caller.name.as_str(), RecordedOp::Counts);
    match caller.client.call::<Counts>(&ApiRequest::get("/v1/counts".to_owned())).await {
        CallResult::Answered(counts) => {
            let counts = counts.counts.iter().map(|count| RecordedCount {
                queue: name(&count.queue),
                kind: name(&count.kind),
                state: count.state.into(),
                n: count.n,
            });
            let counts: Vec<_> = counts.collect();
            caller.context.recorder.ok(call, None, RecordedResponse::Counts(counts.clone()));
            Ok(counts)
        }
        other => Err(format!("jobs cannot be counted: {other:?}")),
    }
}
