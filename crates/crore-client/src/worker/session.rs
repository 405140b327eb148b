//! The session of a worker on one connection.

use std::future::{pending, poll_fn};
use std::pin::pin;
use std::time::Duration;

use crore_wire::worker::Hello;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::message::OutgoingMessage;
use super::running::{ActiveDeliveries, HandlerEvent};
use super::transport::WorkerTransport;
use crate::Error;
use crate::backoff::ReconnectBackoff;

/// Maximum events per message.
const MAX_EVENTS: usize = 1000;
/// Maximum delay of a report while other jobs are ready.
const REPORT_DELAY: Duration = Duration::from_millis(1);

/// Runs jobs on one connection until it breaks, or until the worker is stopped and idle.
pub(super) async fn run(
    transport: &WorkerTransport,
    hello: Hello,
    running: &mut ActiveDeliveries,
    (stop, stopping): (&CancellationToken, &mut Stopping),
    backoff: &mut ReconnectBackoff,
) -> Result<(), Error> {
    let mut session = transport
        .open(OutgoingMessage { hello: Some(hello), ..OutgoingMessage::default() })
        .await?;
    if stopping.has_begun() {
        session.send(OutgoingMessage { drain: true, ..OutgoingMessage::default() })?;
    }
    let mut events = Vec::with_capacity(MAX_EVENTS);
    // Reports that wait for more, and until when.
    let (mut outgoing, mut send_at) = (OutgoingMessage::default(), None);
    let mut is_welcome = false;
    let mut stopped = pin!(stop.cancelled());
    loop {
        if stopping.has_begun() && running.is_idle() {
            return Ok(());
        }
        tokio::select! {
            message = poll_fn(|context| session.poll_next(context)) => {
                let message = message?;
                if let Some(welcome) = &message.welcome {
                    backoff.reset();
                    is_welcome = true;
                    running.store = welcome.store.as_str().into();
                    tracing::debug!(kept = welcome.kept.len(), "session opened");
                    let reports = running.unanswered();
                    if !reports.is_empty() {
                        session.send(OutgoingMessage { reports, ..OutgoingMessage::default() })?;
                    }
                }
                if message.exit {
                    tracing::info!("asked by the server to stop");
                    stop.cancel();
                }
                message.finished.into_iter().for_each(|one| running.answered(one));
                running.remove_lost(&message.lost);
                // The server may have sent jobs before it learned that the worker stops.
                let is_stopping = stop.is_cancelled();
                message.jobs.into_iter().for_each(|job| match is_stopping {
                    true => running.hand_back(&job),
                    false => running.start(job),
                });
                // After the jobs: one message may deliver a job and ask it to stop.
                running.stop(&message.stop);
            }
            // `running` has a sender of its own, so the channel never closes.
            _ = running.events_receiver.recv_many(&mut events, MAX_EVENTS), if is_welcome => {
                // Short jobs that were delivered together end together, and are reported in one message.
                yield_now().await;
                while events.len() < MAX_EVENTS && let Ok(event) = running.events_receiver.try_recv() {
                    events.push(event);
                }
                collect_events(running, &mut events, &mut outgoing);
                if running.ready.may_wait(outgoing.reports.len()) {
                    send_at.get_or_insert_with(|| Instant::now() + REPORT_DELAY);
                } else {
                    send_at = None;
                    session.send(std::mem::take(&mut outgoing))?;
                }
            }
            () = at_or_never(send_at) => {
                send_at = None;
                session.send(std::mem::take(&mut outgoing))?;
            }
            () = &mut stopped, if !stopping.has_begun() => {
                stopping.begin();
                running.hand_back_waiting();
                session.send(OutgoingMessage { drain: true, ..OutgoingMessage::default() })?;
            }
            () = stopping.next() => {}
            () = at_or_never(running.ready.overdue_at()) => running.hand_back_overdue(),
        }
        let now = Instant::now();
        if stopping.finish_by.is_some_and(|at| at <= now) && stopping.end_by.is_none() {
            running.stop_all();
            stopping.end_by = Some(now + stopping.times.cancel_grace);
        }
        if stopping.end_by.is_some_and(|at| at <= now) {
            let reports = running.interrupt();
            if !reports.is_empty() {
                session.send(OutgoingMessage { reports, ..OutgoingMessage::default() })?;
            }
        }
    }
}

/// Grace period of running jobs when the worker stops, and time that they have to end after their cancellation.
#[derive(Debug, Clone, Copy)]
pub(super) struct StopTimes {
    pub(super) grace: Duration,
    pub(super) cancel_grace: Duration,
}

/// Progress of a graceful stop. It continues across connections.
#[derive(Debug)]
pub(super) struct Stopping {
    times: StopTimes,
    /// End of the grace period.
    finish_by: Option<Instant>,
    /// When cancelled jobs are handed back.
    end_by: Option<Instant>,
}

impl Stopping {
    pub(super) const fn new(times: StopTimes) -> Self {
        Self { times, finish_by: None, end_by: None }
    }

    pub(super) const fn has_begun(&self) -> bool {
        self.finish_by.is_some()
    }

    /// Starts the grace period, once.
    pub(super) fn begin(&mut self) {
        self.finish_by.get_or_insert_with(|| Instant::now() + self.times.grace);
    }

    /// When the stop ends at the latest.
    fn over_at(&self) -> Option<Instant> {
        self.end_by.or_else(|| Some(self.finish_by? + self.times.cancel_grace))
    }

    /// Whether that time has passed.
    pub(super) fn is_over(&self) -> bool {
        self.over_at().is_some_and(|at| at <= Instant::now())
    }

    /// Completes at that time.
    pub(super) async fn over(&self) {
        at_or_never(self.over_at()).await;
    }

    /// Completes at the next step of the stop.
    async fn next(&self) {
        at_or_never(self.end_by.or(self.finish_by).filter(|at| *at > Instant::now())).await;
    }
}

async fn at_or_never(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => pending().await,
    }
}

/// Collects events of running jobs into a message.
fn collect_events(
    running: &mut ActiveDeliveries,
    events: &mut Vec<HandlerEvent>,
    message: &mut OutgoingMessage,
) {
    for event in events.drain(..) {
        match event {
            HandlerEvent::Note(note) => message.notes.push(note),
            HandlerEvent::Ended(report, took) => {
                took.into_iter().for_each(|took| running.run_ended(took));
                // The lease may have been lost.
                if running.is_held(&report) {
                    running.job_ended(&report);
                    message.reports.push(report);
                }
            }
        }
    }
    message.slots = running.ready.announce().or(message.slots);
}
