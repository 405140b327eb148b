//! A session after its handshake: messages are taken, jobs are fetched, leases are renewed.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crore::Error;
use crore::fetch::Fetch;
use crore::store::views::Note;
use crore_api::Fault;
use crore_api::planted;
use crore_core::{Code, Job};
use crore_wire::worker::{self, Finished, Held, ServerMessage, WorkerMessage};
use futures_util::stream::{FuturesUnordered, StreamExt};

use super::BoxFuture;
use super::handshake::{Profile, slots};
use super::in_flight::InFlight;
use super::incarnation::{Incarnation, Notice};
use super::outbox::{Outbox, hand_back};
use super::pending_fetch::PendingFetch;
use super::renewal::Renewal;
use super::reports::report;
use super::session::{Polled, SessionError};
use crate::Doors;

/// Maximum number of background tasks per session; reading pauses above it.
const MAX_BACKGROUND: usize = 64;

/// A session after its handshake.
pub(super) struct Working {
    doors: Doors,
    polled: Polled,
    incarnation: Arc<Incarnation>,
    ask: Fetch,
    slots: usize,
    /// The worker takes no more jobs.
    is_draining: bool,
    /// Completes when the server hands out no more jobs, which is told once.
    closing: Option<BoxFuture<()>>,
    fetch: Option<PendingFetch>,
    outbox: Outbox,
    reports: InFlight<Result<Vec<Finished>, Error>>,
    /// Tasks that are not answered: notes, and the ends of jobs without a lease.
    background: FuturesUnordered<BoxFuture<()>>,
    renewal: Renewal,
}

impl Working {
    pub(super) fn new(
        doors: Doors,
        polled: Polled,
        profile: &Profile,
        incarnation: Arc<Incarnation>,
    ) -> Self {
        let until = doors.clone();
        let mut renewal = Renewal::Idle;
        renewal.schedule(incarnation.shortest_lease());
        Self {
            polled,
            incarnation,
            ask: profile.ask().clone(),
            slots: profile.slots(),
            is_draining: false,
            closing: Some(Box::pin(async move { until.closing().await })),
            fetch: None,
            outbox: Outbox::new(profile.ask().handled.is_some()),
            reports: InFlight::new(),
            background: FuturesUnordered::new(),
            renewal,
            doors,
        }
    }

    /// Whether another message may be received.
    pub(super) fn has_room(&self) -> bool {
        self.reports.has_room() && self.background.len() < MAX_BACKGROUND
    }

    /// Whether every report is answered.
    pub(super) fn is_settled(&self) -> bool {
        self.reports.is_empty()
    }

    pub(super) fn receive(&mut self, message: WorkerMessage) -> Result<(), Fault> {
        if message.hello.is_some() {
            return Err(Fault::new(Code::Refused, "hello was said before"));
        }
        if let Some(n) = message.slots {
            self.slots = slots(n)?;
        }
        let engine = self.doors.engine().clone();
        self.incarnation.presence().heard(self.slots, engine.status().now());
        self.is_draining |= message.drain;
        let bytes = message.size();
        // Notes are for people, and one that is not kept is not missed; but those of a job that is over count as
        // long as its report does not.
        let noted = (!message.notes.is_empty()).then(|| {
            let (engine, notes) = (engine.clone(), message.notes.into_iter().map(note).collect());
            Box::pin(async move { drop(engine.deliveries().note(notes).await) })
        });
        if message.reports.is_empty() {
            noted.into_iter().for_each(|noted| self.background.push(noted));
            return Ok(());
        }
        let report = report(engine, Arc::clone(&self.incarnation), message.reports);
        match noted {
            None => self.reports.push(bytes, report),
            Some(noted) => self.reports.push(bytes, async move {
                noted.await;
                report.await
            }),
        }
        Ok(())
    }

    /// Everything that is ready, in one message. Pending: nothing is.
    pub(super) fn poll_message(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<ServerMessage, SessionError>> {
        let mut message = ServerMessage::default();
        if self.incarnation.is_replaced() {
            return Poll::Ready(Err(SessionError::Replaced));
        }
        self.poll_reports(&mut message, context)?;
        self.poll_fetch(&mut message.lost, context)?;
        // The ends of leases before jobs, so that a message never gives a delivery that is over.
        let engine = self.doors.engine();
        let has_renewed = self.renewal.poll(engine, &self.incarnation, &mut message, context);
        self.take_notices(&mut message, context);
        if self.outbox.withdraw(&mut message.lost) > 0 {
            // Their slots are free.
            context.waker().wake_by_ref();
        }
        let unleased = self.outbox.send(&self.doors, &mut message);
        self.end_unleased(unleased, context);
        if let Some(closing) = &mut self.closing
            && closing.as_mut().poll(context).is_ready()
        {
            self.closing = None;
            message.drain = true;
        }
        if !self.outbox.is_empty() {
            // The rest goes with the next message.
            context.waker().wake_by_ref();
        }
        // A renewal is told, even in an empty message: while a worker does not read, the next message cannot go out,
        // the session is not polled any more, and its leases end.
        if has_renewed || !message.is_empty() {
            return Poll::Ready(Ok(message));
        }
        Poll::Pending
    }

    fn poll_reports(
        &mut self,
        message: &mut ServerMessage,
        context: &mut Context<'_>,
    ) -> Result<(), Error> {
        let had_room = self.has_room();
        // Notes before reports: those about a job that is over do not count.
        while let Poll::Ready(Some(())) = self.background.poll_next_unpin(context) {}
        while let Poll::Ready(Some(finished)) = self.reports.poll_next(context) {
            message.finished.extend(finished?);
        }
        if !had_room && self.has_room() {
            // A message that was not read for want of room wakes nobody any more.
            context.waker().wake_by_ref();
        }
        Ok(())
    }

    /// Fetches jobs while there are slots for them.
    fn poll_fetch(&mut self, lost: &mut Vec<Held>, context: &mut Context<'_>) -> Result<(), Error> {
        while self.outbox.is_empty() {
            if self.fetch.is_none() {
                self.fetch = self.begin_fetch();
            }
            let Some(fetch) = &mut self.fetch else { return Ok(()) };
            let Poll::Ready(jobs) = Pin::new(fetch).poll(context) else { return Ok(()) };
            self.fetch = None;
            let jobs = jobs?;
            if jobs.is_empty() {
                // The server ends, or the fetch took as long as it may.
                continue;
            }
            lost.extend(self.incarnation.take(&jobs));
            self.renewal.schedule(jobs.iter().filter_map(|job| job.spec.lease).min());
            self.outbox.fill(jobs);
        }
        Ok(())
    }

    fn begin_fetch(&self) -> Option<PendingFetch> {
        let engine = self.doors.engine();
        let twice = usize::from(planted!("bug-31") && !self.reports.is_empty());
        let free = (self.slots + twice).saturating_sub(self.incarnation.len());
        let may_fetch =
            !self.is_draining && !self.doors.is_closing() && !engine.lifecycle().is_stopping();
        (free > 0 && may_fetch).then(|| {
            let n = free.min(engine.status().caps().fetch);
            let ask = Fetch { n, ..self.ask.clone() };
            match self.polled {
                Polled::ByConnection => PendingFetch::new(engine, ask),
                Polled::Always => PendingFetch::inline(engine, ask),
            }
        })
    }

    /// Ends jobs without a lease: they are handed over with this message.
    fn end_unleased(&mut self, jobs: Vec<Job>, context: &mut Context<'_>) {
        if !jobs.is_empty() {
            let engine = self.doors.engine().clone();
            self.background
                .push(Box::pin(async move { drop(engine.deliveries().hand_over(jobs).await) }));
            // It begins now: the session is not polled again before its worker reads.
            while let Poll::Ready(Some(())) = self.background.poll_next_unpin(context) {}
        }
    }

    /// Passes on what became of its jobs elsewhere.
    fn take_notices(&self, message: &mut ServerMessage, context: &mut Context<'_>) {
        for notice in self.incarnation.take_notices(context.waker()) {
            match notice {
                Notice::Stop(held) => message.stop.push(held),
                Notice::Lost(held) => {
                    if self.incarnation.release(held) {
                        message.lost.push(held);
                        // Its slot is free.
                        context.waker().wake_by_ref();
                    }
                }
            }
        }
    }

    /// The connection is closed. Jobs that were not sent go to others, reports that were received are applied, and the
    /// rest waits for the grace period.
    pub(super) fn leave(self) -> impl Future<Output = ()> {
        let Self { doors, incarnation, fetch, outbox, mut reports, mut background, .. } = self;
        let mut unsent = outbox.into_jobs();
        for job in &unsent {
            incarnation.release(Held { id: job.id, delivery: job.live.delivery });
        }
        async move {
            let engine = doors.engine();
            if let Some(fetch) = fetch {
                unsent.extend(fetch.end().await.unwrap_or_default());
            }
            hand_back(engine, &unsent).await;
            while background.next().await.is_some() {}
            while reports.next().await.is_some() {}
            doors.sessions().leave(engine.clone(), incarnation);
        }
    }
}

fn note(worker::Note { held: Held { id, delivery }, percent, text }: worker::Note) -> Note {
    let text = text.into();
    match percent {
        Some(percent) => Note::Progress { id, delivery, percent: percent.min(100) as u8, text },
        None => Note::Line { id, delivery, text },
    }
}
