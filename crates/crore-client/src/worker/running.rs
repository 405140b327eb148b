//! What a worker is at: it outlives a broken connection.

use std::collections::HashMap;

use crore_wire::grpc::v1;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::Handler;
use super::delivery::{Delivery, Outcome};

/// What running jobs say.
#[derive(Debug)]
pub(super) enum Event {
    /// One is over.
    Over(v1::Report),
    /// One says something.
    Note(v1::Note),
}

/// The number of a hand-over, by which everything is known here.
type Number = u64;

/// What a worker is at.
pub(super) struct Running {
    handlers: HashMap<String, Handler>,
    any: Option<Handler>,
    jobs: HashMap<Number, (u64, CancellationToken)>,
    /// Reports that were not answered yet, and are said again on another connection.
    unanswered: HashMap<Number, v1::Report>,
    events: mpsc::UnboundedSender<Event>,
    pub(super) says: mpsc::UnboundedReceiver<Event>,
}

impl Running {
    pub(super) fn new(handlers: HashMap<String, Handler>, any: Option<Handler>) -> Self {
        let (events, says) = mpsc::unbounded_channel();
        Self { handlers, any, jobs: HashMap::new(), unanswered: HashMap::new(), events, says }
    }

    /// Whether nothing runs and nothing waits for an answer.
    pub(super) fn is_idle(&self) -> bool {
        self.jobs.is_empty() && self.unanswered.is_empty()
    }

    /// The deliveries that it has.
    pub(super) fn held(&self) -> Vec<v1::Held> {
        let running = self.jobs.iter().map(|(delivery, (id, _))| (*id, *delivery));
        let over = self.unanswered.values().map(|report| (report.id, report.delivery));
        running.chain(over).map(|(id, delivery)| v1::Held { id, delivery }).collect()
    }

    /// Begins to run a job.
    pub(super) fn begin(&mut self, job: v1::Delivered) {
        let (id, number) = (job.id, job.delivery);
        let cancel = CancellationToken::new();
        self.jobs.insert(number, (id, cancel.clone()));
        let events = self.events.clone();
        let handler = self.any.as_ref().or_else(|| self.handlers.get(&job.kind)).cloned();
        let delivery = Delivery::new(job, cancel.clone(), events.clone());
        tokio::spawn(async move {
            // A handler that panics has failed, and takes nobody with it.
            let mut over = Over { id, number, events, outcome: None };
            over.outcome = Some(match handler {
                Some(handler) => run(&handler, delivery, &cancel).await,
                None => Outcome::interrupted(),
            });
        });
    }

    /// A job is over; its report is to be sent.
    pub(super) fn over(&mut self, report: &v1::Report) {
        self.jobs.remove(&report.delivery);
        self.unanswered.insert(report.delivery, report.clone());
    }

    /// A report was answered.
    pub(super) fn answered(&mut self, finished: &v1::Finished) {
        let said = self.unanswered.remove(&finished.delivery);
        if finished.verdict() == v1::Verdict::Finished {
            return;
        }
        let (id, verdict) = (finished.id, finished.verdict());
        tracing::warn!(id, ?verdict, problem = ?finished.problem, "a report does not count");
        if verdict == v1::Verdict::Refused
            && let Some(less) = said.and_then(|said| less_than(&said, finished))
        {
            // The job is still this worker's, and would be for ever: it has failed, of that.
            self.jobs.insert(less.delivery, (less.id, CancellationToken::new()));
            let _ = self.events.send(Event::Over(less));
        }
    }

    /// Jobs are asked to stop.
    pub(super) fn stop(&self, held: &[v1::Held]) {
        for one in held {
            if let Some((_, cancel)) = self.jobs.get(&one.delivery) {
                cancel.cancel();
            }
        }
    }

    /// Jobs are another's: what they say does not count any more.
    pub(super) fn lose(&mut self, held: &[v1::Held]) {
        self.stop(held);
        for one in held {
            self.jobs.remove(&one.delivery);
            self.unanswered.remove(&one.delivery);
        }
    }

    /// Whether a job is still this worker's.
    pub(super) fn is_its_own(&self, report: &v1::Report) -> bool {
        self.jobs.contains_key(&report.delivery)
    }

    /// Everything that runs is asked to stop.
    pub(super) fn stop_all(&self) {
        self.jobs.values().for_each(|(_, cancel)| cancel.cancel());
    }

    /// Hands everything back that runs.
    pub(super) fn interrupt(&mut self) -> Vec<v1::Report> {
        let jobs = std::mem::take(&mut self.jobs);
        let outcome = Outcome::interrupted();
        let reports = jobs.into_iter().map(|(delivery, (id, cancel))| {
            cancel.cancel();
            report(id, delivery, outcome.clone())
        });
        let reports: Vec<_> = reports.collect();
        for report in &reports {
            self.unanswered.insert(report.delivery, report.clone());
        }
        reports
    }

    /// Reports to be said again.
    pub(super) fn unanswered(&self) -> Vec<v1::Report> {
        self.unanswered.values().cloned().collect()
    }
}

/// What is reported instead of something that was refused: a failure, in words alone; `None`: it was no more than that.
fn less_than(said: &v1::Report, refused: &v1::Finished) -> Option<v1::Report> {
    if let Some(v1::report::Outcome::Failed(v1::Failed { detail: None, .. })) = &said.outcome
        && said.on_done.is_empty()
        && said.on_dead.is_empty()
    {
        return None;
    }
    let why = refused
        .problem
        .as_ref()
        .map_or_else(String::new, |problem| format!(": {}: {}", problem.field, problem.message));
    let outcome = Outcome::dead(format!("what was reported was refused{why}"));
    Some(report(said.id, said.delivery, outcome))
}

fn report(id: u64, delivery: Number, outcome: Outcome) -> v1::Report {
    let (said, on_done) = (Some(outcome.said), outcome.on_done);
    v1::Report { id, delivery, outcome: said, on_done, on_dead: Vec::new() }
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
    id: u64,
    number: Number,
    events: mpsc::UnboundedSender<Event>,
    /// `None`: its handler panicked.
    outcome: Option<Outcome>,
}

impl Drop for Over {
    fn drop(&mut self) {
        let outcome = self.outcome.take();
        let outcome = outcome.unwrap_or_else(|| Outcome::failed("the handler panicked"));
        // Nobody waits for it when the worker is gone.
        let _ = self.events.send(Event::Over(report(self.id, self.number, outcome)));
    }
}
