//! The running jobs of a worker and its unacknowledged reports. They survive a lost connection.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::Arc;
use std::time::Duration;

use crore_core::id::IdHasher;
use crore_core::machine;
use crore_core::{Delivery as Number, Invalid, JobId};
use crore_wire::worker::{DeliveryRef, JobDelivery, ReportResponse, ReportVerdict, WorkerNote};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::HandlerFn;
use super::delivery::{Delivery, Outcome};
use super::message::DeliveryReport;
use super::ready::SlotQueue;

/// Events of running jobs.
#[derive(Debug)]
pub(super) enum HandlerEvent {
    /// A job has ended. A run has a duration; a job that is handed back unstarted has none.
    Ended(DeliveryReport, Option<Duration>),
    /// Progress or a log line.
    Note(WorkerNote),
}

/// A map by delivery number.
type ByDelivery<T> = HashMap<Number, T, BuildHasherDefault<IdHasher>>;

/// The running jobs and unacknowledged reports of a worker.
pub(super) struct ActiveDeliveries {
    handlers: HashMap<String, HandlerFn>,
    any_kind: Option<HandlerFn>,
    /// Identity of the server's store.
    pub(super) store: Arc<str>,
    jobs: ByDelivery<(JobId, CancellationToken)>,
    pub(super) ready: SlotQueue,
    /// Reports without a response yet; they are sent again on the next connection.
    unanswered: ByDelivery<DeliveryReport>,
    events: mpsc::UnboundedSender<HandlerEvent>,
    pub(super) events_receiver: mpsc::UnboundedReceiver<HandlerEvent>,
}

impl ActiveDeliveries {
    pub(super) fn new(
        handlers: HashMap<String, HandlerFn>,
        any_kind: Option<HandlerFn>,
        ready: SlotQueue,
    ) -> Self {
        let (events, events_receiver) = mpsc::unbounded_channel();
        let (jobs, unanswered) = (ByDelivery::default(), ByDelivery::default());
        let store = "".into();
        Self { handlers, any_kind, store, jobs, ready, unanswered, events, events_receiver }
    }

    /// Whether no job runs and no report is unacknowledged.
    pub(super) fn is_idle(&self) -> bool {
        self.jobs.is_empty() && self.unanswered.is_empty()
    }

    /// The deliveries that the worker holds.
    pub(super) fn held(&self) -> Vec<DeliveryRef> {
        let running = self.jobs.iter().map(|(delivery, (id, _))| held(*id, *delivery));
        running.chain(self.unanswered.values().map(|report| report.held)).collect()
    }

    /// Starts a job, or keeps it until there is a slot.
    pub(super) fn start(&mut self, job: JobDelivery) {
        let DeliveryRef { id, delivery } = job.held();
        self.jobs.insert(delivery, (id, CancellationToken::new()));
        if let Some(job) = self.ready.admit(job) {
            self.spawn(job);
        }
    }

    /// Records the end of a run, and starts the next job in its slot.
    pub(super) fn run_ended(&mut self, took: Duration) {
        if let Some(job) = self.ready.ended(took) {
            self.spawn(job);
        }
    }

    /// Runs a job that has a slot.
    fn spawn(&self, job: JobDelivery) {
        let held = job.held();
        let Some((_, cancel)) = self.jobs.get(&held.delivery).cloned() else { return };
        let events = self.events.clone();
        let handler =
            self.any_kind.as_ref().or_else(|| self.handlers.get(job.kind.as_str())).cloned();
        let delivery =
            Delivery::new((Arc::clone(&self.store), job), cancel.clone(), events.clone());
        tokio::spawn(async move {
            // Reports a failure if the handler panics.
            let mut guard = ReportOnDrop { held, events, started: Instant::now(), outcome: None };
            guard.outcome = Some(match handler {
                // A job that was asked to stop while it waited for its slot is not started.
                Some(_) if cancel.is_cancelled() => Outcome::interrupted(),
                Some(handler) => run(&handler, delivery, &cancel).await,
                None => Outcome::interrupted(),
            });
        });
    }

    /// Returns a job without starting it: the worker stops, or the job has waited for too long.
    pub(super) fn hand_back(&mut self, job: &JobDelivery) {
        let held = job.held();
        self.jobs.insert(held.delivery, (held.id, CancellationToken::new()));
        let report = DeliveryReport { held, outcome: Outcome::interrupted() };
        // `self` has a receiver.
        let _ = self.events.send(HandlerEvent::Ended(report, None));
    }

    /// Returns the jobs that wait for a slot.
    pub(super) fn hand_back_waiting(&mut self) {
        self.ready.take_all().iter().for_each(|job| self.hand_back(job));
    }

    /// Returns the jobs that have waited too long for a slot.
    pub(super) fn hand_back_overdue(&mut self) {
        self.ready.take_overdue(Instant::now()).iter().for_each(|job| self.hand_back(job));
    }

    /// Moves a job that has ended to the unacknowledged reports.
    pub(super) fn job_ended(&mut self, report: &DeliveryReport) {
        self.jobs.remove(&report.held.delivery);
        self.unanswered.insert(report.held.delivery, report.clone());
    }

    /// Handles the response to a report.
    pub(super) fn answered(&mut self, finished: ReportResponse) {
        let ReportResponse { held, verdict } = finished;
        let report = self.unanswered.remove(&held.delivery);
        if let ReportVerdict::Finished { .. } = verdict {
            return;
        }
        tracing::warn!(id = held.id.0, ?verdict, "report not accepted");
        if let ReportVerdict::Refused(why) = verdict
            && let Some(failure) = report.and_then(|report| reduced_report(&report, &why))
        {
            // The worker still holds the job, so it reports the refusal as a failure.
            self.jobs.insert(held.delivery, (held.id, CancellationToken::new()));
            let _ = self.events.send(HandlerEvent::Ended(failure, None));
        }
    }

    /// Cancels jobs that the server asks to stop.
    pub(super) fn stop(&self, held: &[DeliveryRef]) {
        for one in held {
            if let Some((_, cancel)) = self.jobs.get(&one.delivery) {
                cancel.cancel();
            }
        }
    }

    /// Cancels and drops jobs whose leases were lost. Their reports no longer count.
    pub(super) fn remove_lost(&mut self, held: &[DeliveryRef]) {
        self.stop(held);
        self.ready.remove(held);
        for one in held {
            self.jobs.remove(&one.delivery);
            self.unanswered.remove(&one.delivery);
        }
    }

    /// Whether the worker still holds the job of a report.
    pub(super) fn is_held(&self, report: &DeliveryReport) -> bool {
        self.jobs.contains_key(&report.held.delivery)
    }

    /// Cancels all running jobs.
    pub(super) fn stop_all(&self) {
        self.jobs.values().for_each(|(_, cancel)| cancel.cancel());
    }

    /// Cancels all running jobs and returns the reports that hand them back.
    pub(super) fn interrupt(&mut self) -> Vec<DeliveryReport> {
        let jobs = std::mem::take(&mut self.jobs);
        drop(self.ready.take_all());
        let outcome = Outcome::interrupted();
        let reports = jobs.into_iter().map(|(delivery, (id, cancel))| {
            cancel.cancel();
            DeliveryReport { held: held(id, delivery), outcome: outcome.clone() }
        });
        let reports: Vec<_> = reports.collect();
        for report in &reports {
            self.unanswered.insert(report.held.delivery, report.clone());
        }
        reports
    }

    /// The reports to send again after a reconnect.
    pub(super) fn unanswered(&self) -> Vec<DeliveryReport> {
        self.unanswered.values().cloned().collect()
    }
}

/// The failure to report instead of a refused report; `None`: that was already a plain failure.
fn reduced_report(report: &DeliveryReport, why: &Invalid) -> Option<DeliveryReport> {
    if let machine::Outcome::Failed { detail: None, .. } = &report.outcome.outcome
        && report.outcome.on_done.is_empty()
    {
        return None;
    }
    let Invalid { field, message, .. } = why;
    let outcome = Outcome::dead(format!("the report was refused: {field}: {message}"));
    Some(DeliveryReport { held: report.held, outcome })
}

const fn held(id: JobId, delivery: Number) -> DeliveryRef {
    DeliveryRef { id, delivery }
}

/// Runs a handler, and cancels its token at the deadline.
async fn run(handler: &HandlerFn, delivery: Delivery, cancel: &CancellationToken) -> Outcome {
    let Some(deadline) = delivery.deadline() else { return handler(delivery).await };
    let mut running = handler(delivery);
    tokio::select! {
        outcome = &mut running => outcome,
        () = tokio::time::sleep_until(deadline) => {
            cancel.cancel();
            running.await
        }
    }
}

/// Sends the report of a job on drop, so that every started job is reported.
struct ReportOnDrop {
    held: DeliveryRef,
    events: mpsc::UnboundedSender<HandlerEvent>,
    started: Instant,
    /// `None`: the handler panicked.
    outcome: Option<Outcome>,
}

impl Drop for ReportOnDrop {
    fn drop(&mut self) {
        let outcome = self.outcome.take();
        let outcome = outcome.unwrap_or_else(|| Outcome::failed("the handler panicked"));
        // After the end of the worker there is no receiver.
        let report = DeliveryReport { held: self.held, outcome };
        let _ = self.events.send(HandlerEvent::Ended(report, Some(self.started.elapsed())));
    }
}
