//! A session after its handshake: receives messages, fetches jobs, renews leases.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crore::Error;
use crore::fetch::Fetch;
use crore::resources::WorkerVersions;
use crore::store::views::Note;
use crore_api::{Fault, Grant, planted};
use crore_core::{Code, Job};
use crore_wire::worker::{self, DeliveryRef, ReportResponse, ServerMessage, WorkerMessage};
use futures_util::stream::{FuturesUnordered, StreamExt};

use super::BoxFuture;
use super::handshake::{Profile, slots};
use super::in_flight::InFlight;
use super::incarnation::{DeliveryNotice, Incarnation};
use super::outbox::{Outbox, return_jobs};
use super::pending_fetch::PendingFetch;
use super::renewal::LeaseRenewal;
use super::reports::report;
use super::session::{PollingMode, SessionError};
use crate::Doors;

/// Maximum number of background tasks per session; reading pauses above it.
const MAX_BACKGROUND: usize = 64;

/// Reports that are being processed.
pub(super) type ReportsInFlight = InFlight<Result<Vec<ReportResponse>, Error>>;

/// A session after its handshake.
pub(super) struct ActiveSession {
    doors: Doors,
    grant: Grant,
    polling_mode: PollingMode,
    incarnation: Arc<Incarnation>,
    fetch_template: Fetch,
    /// Its versions are known to the engine while it is connected.
    _versions: Option<WorkerVersions>,
    slots: usize,
    /// The worker takes no more jobs.
    is_draining: bool,
    /// Completes when the server stops delivering jobs; the worker is notified once.
    closing: Option<BoxFuture<()>>,
    /// The worker was told that an operator asks it to exit.
    has_sent_exit: bool,
    fetch: Option<PendingFetch>,
    outbox: Outbox,
    reports: ReportsInFlight,
    /// Tasks without a response: notes, and the ends of jobs without a lease.
    background: FuturesUnordered<BoxFuture<()>>,
    renewal: LeaseRenewal,
}

impl ActiveSession {
    pub(super) fn new(
        (doors, grant): (Doors, Grant),
        mode: PollingMode,
        profile: &Profile,
        incarnation: Arc<Incarnation>,
        reports: ReportsInFlight,
    ) -> Self {
        let until = doors.clone();
        let mut renewal = LeaseRenewal::Idle;
        renewal.schedule(incarnation.shortest_lease());
        Self {
            polling_mode: mode,
            incarnation,
            _versions: doors.engine().deliveries().connect_versions(profile.fetch_template()),
            fetch_template: profile.fetch_template().clone(),
            slots: profile.slots(),
            is_draining: false,
            closing: Some(Box::pin(async move { until.closing().await })),
            has_sent_exit: false,
            fetch: None,
            outbox: Outbox::new(profile.fetch_template().handled.is_some()),
            reports,
            background: FuturesUnordered::new(),
            renewal,
            doors,
            grant,
        }
    }

    /// Whether another message may be received.
    pub(super) fn has_room(&self) -> bool {
        self.reports.has_room() && self.background.len() < MAX_BACKGROUND
    }

    /// Whether the responses to all reports are ready.
    pub(super) fn has_no_pending_reports(&self) -> bool {
        self.reports.is_empty()
    }

    pub(super) fn receive(&mut self, mut message: WorkerMessage) -> Result<(), Fault> {
        if message.hello.is_some() {
            return Err(Fault::new(Code::Refused, "hello was already sent"));
        }
        if let Some(n) = message.slots {
            self.slots = slots(n)?;
        }
        let engine = self.doors.engine().clone();
        self.incarnation.presence().record_message(self.slots, engine.status().now());
        self.is_draining |= message.drain;
        let bytes = message.size();
        if self.grant.only().is_some() {
            message.notes.retain(|note| self.incarnation.holds(note.held));
        }
        // Losing a note is acceptable. But the notes of a message are written before its reports, because notes about
        // a job that has ended are dropped.
        let noted = (!message.notes.is_empty()).then(|| {
            let (engine, notes) = (engine.clone(), message.notes.into_iter().map(note).collect());
            Box::pin(async move { drop(engine.deliveries().note(notes).await) })
        });
        if message.reports.is_empty() {
            noted.into_iter().for_each(|noted| self.background.push(noted));
            return Ok(());
        }
        self.reports.reserve(bytes)?;
        let (api, grant) = (self.doors.api().clone(), self.grant.clone());
        let report = report(api, grant, Arc::clone(&self.incarnation), message.reports);
        match noted {
            None => self.reports.push(bytes, report),
            Some(noted) => self.reports.push(bytes, async move {
                noted.await;
                report.await
            }),
        }
        Ok(())
    }

    /// Everything that is ready, in one message. Pending: nothing is ready.
    pub(super) fn poll_message(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<ServerMessage, SessionError>> {
        let mut message = ServerMessage::default();
        if self.incarnation.is_replaced() {
            return Poll::Ready(Err(SessionError::Replaced));
        }
        // Before the requests of operators are read, so that the next one wakes the task.
        self.incarnation.watch(context.waker());
        self.poll_reports(&mut message, context)?;
        self.poll_fetch(&mut message.lost, context)?;
        // Lost leases before jobs, so that no message delivers a job that is already lost.
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
        if self.incarnation.presence().is_stopping() && !self.has_sent_exit {
            self.has_sent_exit = true;
            message.exit = true;
        }
        if !self.outbox.is_empty() {
            // The rest goes with the next message.
            context.waker().wake_by_ref();
        }
        // A renewal is sent even as an empty message: when a worker does not read, that message cannot go out, the
        // session is not polled any more, and its leases expire.
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
        // Notes before reports: notes about a job that has ended are dropped.
        while let Poll::Ready(Some(())) = self.background.poll_next_unpin(context) {}
        while let Poll::Ready(Some(finished)) = self.reports.poll_next(context) {
            message.finished.extend(finished?);
        }
        if !had_room && self.has_room() {
            // Input that was left unread for lack of room does not wake the task.
            context.waker().wake_by_ref();
        }
        Ok(())
    }

    /// Fetches jobs while there are slots for them.
    fn poll_fetch(
        &mut self,
        lost: &mut Vec<DeliveryRef>,
        context: &mut Context<'_>,
    ) -> Result<(), Error> {
        while self.outbox.is_empty() {
            if self.incarnation.presence().is_quiet()
                && let Some(fetch) = &mut self.fetch
            {
                fetch.cancel();
            }
            if self.fetch.is_none() {
                self.fetch = self.begin_fetch();
            }
            let Some(fetch) = &mut self.fetch else { return Ok(()) };
            let Poll::Ready(jobs) = Pin::new(fetch).poll(context) else { return Ok(()) };
            self.fetch = None;
            let jobs = jobs?;
            if jobs.is_empty() {
                // The server is stopping, or the fetch reached its maximum duration.
                continue;
            }
            lost.extend(self.incarnation.add_jobs(&jobs));
            self.renewal.schedule(jobs.iter().filter_map(|job| job.spec.lease).min());
            self.outbox.fill(jobs);
        }
        Ok(())
    }

    fn begin_fetch(&self) -> Option<PendingFetch> {
        let engine = self.doors.engine();
        let extra = usize::from(planted!("bug-31") && !self.reports.is_empty());
        let free = (self.slots + extra).saturating_sub(self.incarnation.len());
        let may_fetch = !self.is_draining
            && !self.incarnation.presence().is_quiet()
            && !self.doors.is_closing()
            && !engine.lifecycle().is_stopping();
        (free > 0 && may_fetch).then(|| {
            let n = free.min(engine.status().caps().fetch);
            let request = Fetch { n, ..self.fetch_template.clone() };
            match self.polling_mode {
                PollingMode::ByConnection => PendingFetch::new(engine, request),
                PollingMode::Always => PendingFetch::inline(engine, request),
            }
        })
    }

    /// Marks jobs without a lease as done: such a job is done when it is sent.
    fn end_unleased(&mut self, jobs: Vec<Job>, context: &mut Context<'_>) {
        if !jobs.is_empty() {
            let engine = self.doors.engine().clone();
            self.background
                .push(Box::pin(async move { drop(engine.deliveries().hand_over(jobs).await) }));
            // Starts it now: the session is not polled again until its worker reads.
            while let Poll::Ready(Some(())) = self.background.poll_next_unpin(context) {}
        }
    }

    /// Passes on changes to its jobs that others made.
    fn take_notices(&self, message: &mut ServerMessage, context: &mut Context<'_>) {
        for notice in self.incarnation.take_notices(context.waker()) {
            match notice {
                DeliveryNotice::Stop(held) => message.stop.push(held),
                DeliveryNotice::Lost(held) => {
                    if self.incarnation.release(held) {
                        message.lost.push(held);
                        // Its slot is free.
                        context.waker().wake_by_ref();
                    }
                }
            }
        }
    }

    /// Closes the connection. Unsent jobs go to other workers, received reports are applied, and held deliveries stay
    /// held for the grace period.
    pub(super) fn close(self) -> impl Future<Output = ()> {
        let Self { doors, incarnation, fetch, outbox, mut reports, mut background, .. } = self;
        let mut unsent = outbox.into_jobs();
        for job in &unsent {
            incarnation.release(DeliveryRef { id: job.id, delivery: job.live.delivery });
        }
        async move {
            let engine = doors.engine();
            if let Some(fetch) = fetch {
                unsent.extend(fetch.end().await.unwrap_or_default());
            }
            return_jobs(engine, &unsent).await;
            while background.next().await.is_some() {}
            while reports.next().await.is_some() {}
            doors.sessions().disconnect(engine.clone(), incarnation);
        }
    }
}

fn note(
    worker::WorkerNote { held: DeliveryRef { id, delivery }, percent, text }: worker::WorkerNote,
) -> Note {
    let text = text.into();
    match percent {
        Some(percent) => Note::Progress { id, delivery, percent: percent.min(100) as u8, text },
        None => Note::Line { id, delivery, text },
    }
}
