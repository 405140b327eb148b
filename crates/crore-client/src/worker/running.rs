//! What a worker is at: it outlives a broken connection.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use crore_core::id::Spread;
use crore_core::machine;
use crore_core::{Delivery as Number, Invalid, JobId};
use crore_wire::worker::{Delivered, Finished, Held, Note, Verdict};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::Handler;
use super::delivery::{Delivery, Outcome};
use super::message::Report;

/// What running jobs say.
#[derive(Debug)]
pub(super) enum Event {
    /// One is over.
    Over(Report),
    /// One says something.
    Note(Note),
}

/// Things by the number of a hand-over, which the server gives out.
type ByNumber<T> = HashMap<Number, T, BuildHasherDefault<Spread>>;

/// What a worker is at.
pub(super) struct Running {
    handlers: HashMap<String, Handler>,
    any: Option<Handler>,
    jobs: ByNumber<(JobId, CancellationToken)>,
    /// Reports that were not answered yet, and are said again on another connection.
    unanswered: ByNumber<Report>,
    events: mpsc::UnboundedSender<Event>,
    pub(super) says: mpsc::UnboundedReceiver<Event>,
}

impl Running {
    pub(super) fn new(handlers: HashMap<String, Handler>, any: Option<Handler>) -> Self {
        let (events, says) = mpsc::unbounded_channel();
        let (jobs, unanswered) = (ByNumber::default(), ByNumber::default());
        Self { handlers, any, jobs, unanswered, events, says }
    }

    /// Whether nothing runs and nothing waits for an answer.
    pub(super) fn is_idle(&self) -> bool {
        self.jobs.is_empty() && self.unanswered.is_empty()
    }

    /// The deliveries that it has.
    pub(super) fn held(&self) -> Vec<Held> {
        let running = self.jobs.iter().map(|(delivery, (id, _))| held(*id, *delivery));
        running.chain(self.unanswered.values().map(|report| report.held)).collect()
    }

    /// Begins to run a job.
    pub(super) fn begin(&mut self, job: Delivered) {
        let held = job.held();
        let cancel = CancellationToken::new();
        self.jobs.insert(held.delivery, (held.id, cancel.clone()));
        let events = self.events.clone();
        let handler = self.any.as_ref().or_else(|| self.handlers.get(job.kind.as_str())).cloned();
        let delivery = Delivery::new(job, cancel.clone(), events.clone());
        tokio::spawn(async move {
            // A handler that panics has failed, and takes nobody with it.
            let mut over = Over { held, events, outcome: None };
            over.outcome = Some(match handler {
                Some(handler) => run(&handler, delivery, &cancel).await,
                None => Outcome::interrupted(),
            });
        });
    }

    /// A job is over; its report is to be sent.
    pub(super) fn over(&mut self, report: &Report) {
        self.jobs.remove(&report.held.delivery);
        self.unanswered.insert(report.held.delivery, report.clone());
    }

    /// A report was answered.
    pub(super) fn answered(&mut self, finished: Finished) {
        let Finished { held, verdict } = finished;
        let said = self.unanswered.remove(&held.delivery);
        if let Verdict::Finished { .. } = verdict {
            return;
        }
        tracing::warn!(id = held.id.0, ?verdict, "a report does not count");
        if let Verdict::Refused(why) = verdict
            && let Some(less) = said.and_then(|said| less_than(&said, &why))
        {
            // The job is still this worker's, and would be for ever: it has failed, of that.
            self.jobs.insert(held.delivery, (held.id, CancellationToken::new()));
            let _ = self.events.send(Event::Over(less));
        }
    }

    /// Jobs are asked to stop.
    pub(super) fn stop(&self, held: &[Held]) {
        for one in held {
            if let Some((_, cancel)) = self.jobs.get(&one.delivery) {
                cancel.cancel();
            }
        }
    }

    /// Jobs are another's: what they say does not count any more.
    pub(super) fn lose(&mut self, held: &[Held]) {
        self.stop(held);
        for one in held {
            self.jobs.remove(&one.delivery);
            self.unanswered.remove(&one.delivery);
        }
    }

    /// Whether a job is still this worker's.
    pub(super) fn is_its_own(&self, report: &Report) -> bool {
        self.jobs.contains_key(&report.held.delivery)
    }

    /// Everything that runs is asked to stop.
    pub(super) fn stop_all(&self) {
        self.jobs.values().for_each(|(_, cancel)| cancel.cancel());
    }

    /// Hands everything back that runs.
    pub(super) fn interrupt(&mut self) -> Vec<Report> {
        let jobs = std::mem::take(&mut self.jobs);
        let outcome = Outcome::interrupted();
        let reports = jobs.into_iter().map(|(delivery, (id, cancel))| {
            cancel.cancel();
            Report { held: held(id, delivery), outcome: outcome.clone() }
        });
        let reports: Vec<_> = reports.collect();
        for report in &reports {
            self.unanswered.insert(report.held.delivery, report.clone());
        }
        reports
    }

    /// Reports to be said again.
    pub(super) fn unanswered(&self) -> Vec<Report> {
        self.unanswered.values().cloned().collect()
    }
}

/// What is reported instead of something that was refused: a failure, in words alone; `None`: it was no more than that.
fn less_than(said: &Report, why: &Invalid) -> Option<Report> {
    if let machine::Outcome::Failed { detail: None, .. } = &said.outcome.said
        && said.outcome.on_done.is_empty()
    {
        return None;
    }
    let Invalid { field, message, .. } = why;
    let outcome = Outcome::dead(format!("what was reported was refused: {field}: {message}"));
    Some(Report { held: said.held, outcome })
}

const fn held(id: JobId, delivery: Number) -> Held {
    Held { id, delivery }
}

/// Runs a handler, and cancels it when its time is over.
async fn run(handler: &Handler, delivery: Delivery, cancel: &CancellationToken) -> Outcome {
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

/// Sees to it that every job that was begun is reported.
struct Over {
    held: Held,
    events: mpsc::UnboundedSender<Event>,
    /// `None`: its handler panicked.
    outcome: Option<Outcome>,
}

impl Drop for Over {
    fn drop(&mut self) {
        let outcome = self.outcome.take();
        let outcome = outcome.unwrap_or_else(|| Outcome::failed("the handler panicked"));
        // Nobody waits for it when the worker is gone.
        let _ = self.events.send(Event::Over(Report { held: self.held, outcome }));
    }
}
