//! One connection of a worker.

use std::future::{pending, poll_fn};
use std::pin::pin;
use std::time::Duration;

use crore_wire::worker::Hello;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::message::Message;
use super::running::{Event, Running};
use super::way::Way;
use crate::Error;
use crate::backoff::Backoff;

/// How many things are said in one message.
const AT_ONCE: usize = 1000;

/// Works on one connection until it breaks, or the worker is stopped and has nothing left to do.
pub(super) async fn run(
    way: &Way,
    hello: Hello,
    running: &mut Running,
    (stop, stopping): (&CancellationToken, &mut Stopping),
    backoff: &mut Backoff,
) -> Result<(), Error> {
    let mut link = way.open(Message { hello: Some(hello), ..Message::default() }).await?;
    if stopping.has_begun() {
        link.send(Message { drain: true, ..Message::default() })?;
    }
    let mut events = Vec::with_capacity(AT_ONCE);
    let mut is_welcome = false;
    let mut stopped = pin!(stop.cancelled());
    loop {
        if stopping.has_begun() && running.is_idle() {
            return Ok(());
        }
        tokio::select! {
            heard = poll_fn(|context| link.poll_next(context)) => {
                let heard = heard?;
                if let Some(welcome) = &heard.welcome {
                    backoff.reset();
                    is_welcome = true;
                    tracing::debug!(kept = welcome.kept.len(), "welcome");
                    let reports = running.unanswered();
                    if !reports.is_empty() {
                        link.send(Message { reports, ..Message::default() })?;
                    }
                }
                heard.finished.into_iter().for_each(|one| running.answered(one));
                running.lose(&heard.lost);
                heard.jobs.into_iter().for_each(|job| running.begin(job));
                // After the jobs: one message may hand a job over and ask it to stop.
                running.stop(&heard.stop);
            }
            // It has a sender of its own, so that there is always another one to come.
            _ = running.says.recv_many(&mut events, AT_ONCE), if is_welcome => {
                // Short jobs that came together end together, and are reported in one message.
                yield_now().await;
                while events.len() < AT_ONCE && let Ok(event) = running.says.try_recv() {
                    events.push(event);
                }
                link.send(gathered(running, &mut events))?;
            }
            () = &mut stopped, if !stopping.has_begun() => {
                stopping.begin();
                link.send(Message { drain: true, ..Message::default() })?;
            }
            () = stopping.next() => {}
        }
        let now = Instant::now();
        if stopping.finish_by.is_some_and(|at| at <= now) && stopping.end_by.is_none() {
            running.stop_all();
            stopping.end_by = Some(now + stopping.times.ending);
        }
        if stopping.end_by.is_some_and(|at| at <= now) {
            let reports = running.interrupt();
            if !reports.is_empty() {
                link.send(Message { reports, ..Message::default() })?;
            }
        }
    }
}

/// How long what runs may go on when the worker is told to stop, and how long it may then take to end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub(super) grace: Duration,
    pub(super) ending: Duration,
}

/// How far a stop has come; it goes on when the connection breaks.
#[derive(Debug)]
pub(super) struct Stopping {
    times: Times,
    /// What runs may finish until then.
    finish_by: Option<Instant>,
    /// It was asked to stop, and may end until then; then it is handed back.
    end_by: Option<Instant>,
}

impl Stopping {
    pub(super) const fn new(times: Times) -> Self {
        Self { times, finish_by: None, end_by: None }
    }

    pub(super) const fn has_begun(&self) -> bool {
        self.finish_by.is_some()
    }

    /// The worker is told to stop; to be told twice changes nothing.
    pub(super) fn begin(&mut self) {
        self.finish_by.get_or_insert_with(|| Instant::now() + self.times.grace);
    }

    /// When nothing is waited for any more.
    fn over_at(&self) -> Option<Instant> {
        self.end_by.or_else(|| Some(self.finish_by? + self.times.ending))
    }

    /// Whether all the time for it is over.
    pub(super) fn is_over(&self) -> bool {
        self.over_at().is_some_and(|at| at <= Instant::now())
    }

    /// Comes when it is.
    pub(super) async fn over(&self) {
        match self.over_at() {
            Some(at) => sleep_until(at).await,
            None => pending().await,
        }
    }

    /// Comes when there is something to do.
    async fn next(&self) {
        match self.end_by.or(self.finish_by).filter(|at| *at > Instant::now()) {
            Some(at) => sleep_until(at).await,
            None => pending().await,
        }
    }
}

/// What running jobs have said, in one message.
fn gathered(running: &mut Running, events: &mut Vec<Event>) -> Message {
    let mut says = Message::default();
    for event in events.drain(..) {
        match event {
            Event::Note(note) => says.notes.push(note),
            Event::Over(report) if running.is_its_own(&report) => {
                running.over(&report);
                says.reports.push(report);
            }
            // It is another's by now.
            Event::Over(_) => {}
        }
    }
    says
}
