//! The client side of a push worker: it registers, deregisters and reports.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crore_core::Code;
use crore_testkit::SeededRng;
use crore_testkit::history::op::RecordedOutcome;
use crore_testkit::history::response::RecordedReport;
use crore_testkit::history::{PendingCall, RecordedResponse};
use serde::{Deserialize, Serialize};

use super::MAX_JOBS;
use super::response::LightjqReport;
use super::worker::ChaosPushWorker;
use crate::calls::RecordingCaller;

use crate::client::{ApiRequest, CallResult, EmptyResponse, Unreachable};
use crate::context::HeldDelivery;
use crate::time::{instant, sleep};

/// Maximum number of registrations of a worker in a run.
const MAX_REGISTRATIONS: usize = 4;

/// A report to be sent.
#[derive(Debug)]
pub(super) struct PendingReport {
    pub(super) call: PendingCall,
    /// The registration by which the worker was given the job.
    pub(super) id: String,
    pub(super) held: HeldDelivery,
    pub(super) report: LightjqReport,
    /// When to send it.
    pub(super) at: Instant,
    /// Whether it was sent before, without an answer.
    pub(super) sent: bool,
}

#[derive(Debug, Serialize)]
struct RegisterRequest<'a> {
    name: &'a str,
    max_jobs: u32,
    url: String,
}

#[derive(Debug, Deserialize)]
struct RegisterResponse {
    worker_id: String,
}

/// Registers, reports and deregisters until the server is unreachable.
pub(super) async fn run_client(
    worker: Arc<ChaosPushWorker>,
    mut caller: RecordingCaller,
    mut rng: SeededRng,
) {
    while let Ok(()) = step(&worker, &mut caller, &mut rng).await {
        sleep(Duration::from_micros(rng.below(4_000))).await;
    }
}

async fn step(
    worker: &ChaosPushWorker,
    caller: &mut RecordingCaller,
    rng: &mut SeededRng,
) -> Result<(), Unreachable> {
    caller.client.connect().await?;
    let (starts, leaves) = {
        let inner = worker.inner();
        match (inner.ids.len(), inner.registered.is_empty(), inner.honest) {
            (0, ..) => (100, 0),
            (_, true, _) => (20, 0),
            (..MAX_REGISTRATIONS, _, false) => (1, 1),
            (_, _, false) => (0, 1),
            (_, _, true) => (0, 0),
        }
    };
    if rng.percent(starts) {
        register(worker, caller).await;
    } else if rng.percent(leaves) {
        deregister(worker, caller).await;
    }
    let due = {
        let (now, mut inner) = (instant(), worker.inner());
        let next = inner.pending_reports.iter().position(|due| due.at <= now);
        next.and_then(|next| inner.pending_reports.remove(next))
    };
    if let Some(due) = due {
        caller.client.connect().await?;
        report(worker, caller, due, rng).await;
    }
    Ok(())
}

/// Registers again, without mentioning earlier registrations.
async fn register(worker: &ChaosPushWorker, caller: &mut RecordingCaller) {
    let n = {
        let mut inner = worker.inner();
        inner.ids.push(None);
        inner.ids.len() - 1
    };
    let url = format!("http://{}/{n}", worker.address);
    let register = RegisterRequest { name: worker.name(), max_jobs: MAX_JOBS, url };
    let request = ApiRequest::post("/worker", caller.client.format, &register);
    match caller.client.call::<RegisterResponse>(&request).await {
        CallResult::Answered(registered) => {
            let mut inner = worker.inner();
            inner.ids[n] = Some(registered.worker_id.clone());
            inner.registered.push(registered.worker_id);
        }
        CallResult::Refused(..) => {}
        CallResult::Unknown(why) => worker.context.check_unanswered("register", &why),
    }
}

/// Deregisters the oldest id; the jobs that it holds may still be reported.
async fn deregister(worker: &ChaosPushWorker, caller: &mut RecordingCaller) {
    let id = {
        let mut inner = worker.inner();
        if inner.registered.len() < 2 {
            return;
        }
        inner.registered.remove(0)
    };
    let request = ApiRequest {
        method: "DELETE",
        worker_id: Some(id),
        ..ApiRequest::get("/worker".to_owned())
    };
    match caller.client.call::<EmptyResponse>(&request).await {
        CallResult::Answered(_) => {}
        CallResult::Refused(Code::NotFound, why) => {
            worker.context.add_anomaly(format!("the server lost a push worker: {why}"));
        }
        CallResult::Refused(..) => {}
        CallResult::Unknown(why) => worker.context.check_unanswered("leave", &why),
    }
}

async fn report(
    worker: &ChaosPushWorker,
    caller: &mut RecordingCaller,
    pending: PendingReport,
    rng: &mut SeededRng,
) {
    let PendingReport { call, id, held, report: report_body, at, sent } = pending;
    let result = send_report(caller, &id, &report_body).await;
    match result {
        CallResult::Answered(_) => {
            worker.context.record_ended();
            worker.context.record_answer(
                call,
                RecordedResponse::Reported(RecordedReport::Accepted(Vec::new())),
            );
            if rng.percent(20) {
                report_again(worker, caller, (held, &id, &report_body), rng).await;
            }
        }
        // The worker does not hold the job any more. An earlier attempt to report may have been accepted.
        CallResult::Refused(Code::NotFound, _) if !sent => {
            worker.context.record_answer(call, RecordedResponse::Reported(RecordedReport::Stale));
        }
        CallResult::Refused(_, why) if !sent => worker.context.recorder.fail(call, why),
        CallResult::Refused(_, why) => worker.context.recorder.info(call, why),
        CallResult::Unknown(why) => {
            worker.context.check_unanswered("done", &why);
            if rng.percent(70) {
                worker.inner().pending_reports.push_back(PendingReport {
                    call,
                    id,
                    held,
                    report: report_body,
                    at,
                    sent: true,
                });
            } else {
                worker.context.recorder.info(call, why);
            }
        }
    }
}

/// Repeats an accepted report, which changes nothing, or contradicts it, which must have no effect.
async fn report_again(
    worker: &ChaosPushWorker,
    caller: &mut RecordingCaller,
    (held, id, report): (HeldDelivery, &str, &LightjqReport),
    rng: &mut SeededRng,
) {
    if caller.client.connect().await.is_err() {
        return;
    }
    if rng.percent(50) {
        if let CallResult::Unknown(why) = send_report(caller, id, report).await {
            worker.context.check_unanswered("done", &why);
        }
        return;
    }
    let (other, outcome): (LightjqReport, RecordedOutcome) = LightjqReport::about(held, rng, false);
    let call = worker.begin_report(held, outcome);
    match send_report(caller, id, &other).await {
        // The server confirms a repeated report without saying that it had no effect.
        CallResult::Answered(_) | CallResult::Refused(Code::NotFound, _) => {
            worker.context.record_answer(call, RecordedResponse::Reported(RecordedReport::Stale));
        }
        CallResult::Refused(_, why) => worker.context.recorder.fail(call, why),
        CallResult::Unknown(why) => {
            worker.context.check_unanswered("done", &why);
            worker.context.recorder.info(call, why);
        }
    }
}

async fn send_report(
    caller: &mut RecordingCaller,
    id: &str,
    report: &LightjqReport,
) -> CallResult<EmptyResponse> {
    let request = ApiRequest::post("/done", caller.client.format, report);
    caller.client.call(&ApiRequest { worker_id: Some(id.to_owned()), ..request }).await
}
