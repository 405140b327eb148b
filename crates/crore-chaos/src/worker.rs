//! Callers that fetch and report. Most do so correctly; some crash while they hold a job, let their lease end, report
//! twice, or report a job after the server has restarted.

use std::time::Duration;

use crore_core::Span;
use crore_testkit::SeededRng;
use crore_testkit::history::PayloadHash;
use crore_testkit::history::op::{RecordedOutcome, RecordedRetry};
use crore_wire::Raw;
use crore_wire::api::fetch::{Fetch, Order};
use crore_wire::api::finish;
use crore_wire::units::Period;
use tokio::time::timeout;

use crate::calls::{FinishReport, RecordingCaller, done_report, fetch_from};
use crate::client::Unreachable;
use crate::context::HeldDelivery;
use crate::draft::{JobDraft, PushForm, QUEUES, value};
use crate::time::sleep;

/// Works until the server is unreachable.
pub(crate) async fn run_worker(mut caller: RecordingCaller, mut rng: SeededRng) {
    while let Ok(()) = step(&mut caller, &mut rng).await {
        sleep(Duration::from_micros(rng.below(3_000))).await;
    }
}

async fn step(caller: &mut RecordingCaller, rng: &mut SeededRng) -> Result<(), Unreachable> {
    caller.client.connect().await?;
    if rng.percent(10)
        && let Some(held) = caller.context.take_held_delivery()
    {
        let report = random_report(caller, rng, held);
        caller.finish(&[report]).await;
        return Ok(());
    }
    let request = random_fetch(caller, rng);
    if rng.percent(2) {
        // It crashes while it waits for the response; which jobs it was given is unknown.
        let patience = Duration::from_micros(rng.below(2_000));
        let _ = timeout(patience, caller.fetch(&request)).await;
        caller.client.disconnect();
        return Ok(());
    }
    let held = caller.fetch(&request).await;
    if rng.percent(20) && !held.is_empty() {
        caller.client.connect().await?;
        caller.renew(&held).await;
    }
    let reports = random_reports(caller, rng, held);
    if !reports.is_empty() {
        caller.client.connect().await?;
        caller.finish(&reports).await;
    }
    Ok(())
}

fn random_fetch(caller: &RecordingCaller, rng: &mut SeededRng) -> Fetch {
    let first = rng.below(QUEUES.len() as u64) as usize;
    let mut queues = QUEUES.to_vec();
    queues.rotate_left(first);
    queues.truncate(1 + rng.below(QUEUES.len() as u64) as usize);
    let mut fetch = fetch_from(&queues, 1 + rng.below(4) as usize);
    fetch.worker = Some(caller.name.clone());
    fetch.wait = rng.percent(50).then(|| Period(Span::from_millis(rng.below(40))));
    if rng.percent(20) {
        fetch.order = Order::Strict;
    }
    fetch
}

/// The reports to send now for the fetched jobs.
fn random_reports(
    caller: &RecordingCaller,
    rng: &mut SeededRng,
    held: Vec<HeldDelivery>,
) -> Vec<FinishReport> {
    let mut reports = Vec::new();
    for held in held {
        match rng.below(20) {
            // The worker has crashed.
            0 => {}
            // It lets the lease end, and reports later.
            1 | 2 => caller.context.hold_delivery(held),
            3 => {
                let report = random_report(caller, rng, held);
                reports.extend([report.clone(), report]);
            }
            _ => reports.push(random_report(caller, rng, held)),
        }
    }
    reports
}

fn random_report(
    caller: &RecordingCaller,
    rng: &mut SeededRng,
    held: HeldDelivery,
) -> FinishReport {
    let mut report = done_report(held);
    let FinishReport { request, outcome, follow_ups } = &mut report;
    let format = caller.client.format;
    match rng.below(20) {
        0..=2 => {
            request.outcome = finish::Outcome::Failed;
            request.error = Some("it went wrong".to_owned());
            let again = match rng.below(4) {
                0 => RecordedRetry::Never,
                1 => RecordedRetry::After(Span::from_millis(rng.below(40))),
                _ => RecordedRetry::ByPolicy,
            };
            request.retry = (again == RecordedRetry::Never).then_some(false);
            if let RecordedRetry::After(span) = again {
                request.after = Some(Period(span));
            }
            *outcome = RecordedOutcome::Failed { again, detail: None };
        }
        3 => {
            let span = Span::from_millis(rng.below(40));
            (request.outcome, request.after) = (finish::Outcome::Snooze, Some(Period(span)));
            *outcome = RecordedOutcome::Snooze(span);
        }
        4 => {
            (request.outcome, *outcome) =
                (finish::Outcome::Interrupted, RecordedOutcome::Interrupted);
        }
        5 => (request.outcome, *outcome) = (finish::Outcome::Cancel, RecordedOutcome::Cancel),
        n => {
            let text = format!("{}:{}:{}", held.id, held.delivery.0, rng.next_u64());
            let result = value(&text, format);
            *outcome = RecordedOutcome::Done { result: Some(PayloadHash::of(&result)) };
            request.result = Some(Raw::new(format, result.bytes));
            if n == 6 {
                follow_ups.push(JobDraft::new(
                    rng,
                    caller.context.next_seq(),
                    format,
                    PushForm::Member,
                ));
                request.on_done = follow_ups.iter().map(|draft| draft.to_request(format)).collect();
                caller.context.remember(&follow_ups[0]);
            }
        }
    }
    report
}
