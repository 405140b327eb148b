//! A worker at work: what it says is taken, jobs are looked for, leases are renewed.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crore::store::jobs::{Renew, Renewed};
use crore::store::views::Note;
use crore::{Engine, Error};
use crore_api::Fault;
use crore_core::{Code, Delivery, Job, JobId, Span};
use crore_wire::grpc::v1;
use futures_util::stream::{FuturesUnordered, StreamExt};
use prost::Message;
use tokio::time::{Instant, Sleep, sleep_until};
use tonic::Status;

use super::super::fault::{failed, invalid};
use super::super::under_way::UnderWay;
use super::super::work::{Told, finish};
use super::desk::{Desk, Notice};
use super::hello::{Hello, slots};
use super::looking::Looking;
use super::session::Doing;
use crate::Doors;
use crate::bug::planted;

/// How many of those things may be under way of which a worker is told nothing, before no more is read.
const MOST_ASIDE: usize = 64;

/// A worker at work.
pub(super) struct Work {
    pub(super) incarnation: Arc<str>,
    pub(super) desk: Arc<Desk>,
    pub(super) ask: crore::fetch::Fetch,
    pub(super) told: Told,
    pub(super) slots: usize,
    /// It wants nothing more.
    pub(super) drains: bool,
    /// The server gives nothing more; told once.
    pub(super) closing: Option<Doing<()>>,
    pub(super) fetching: Option<Looking>,
    pub(super) reports: UnderWay<Result<Vec<v1::Finished>, Status>>,
    /// What nobody is told about.
    pub(super) aside: FuturesUnordered<Doing<()>>,
    renewal: Renewal,
    /// Leases were renewed. That is said in a message, even if there is nothing else in it: while a worker does not
    /// read, the next message cannot go out, the stream is not polled any more, and its leases end.
    pub(super) renewed: bool,
}

/// When leases are renewed.
enum Renewal {
    /// There is none.
    Idle,
    /// Then.
    At(Pin<Box<Sleep>>),
    /// It is being done.
    Now(Doing<Result<Vec<(Renew, Renewed)>, Error>>),
}

impl Work {
    pub(super) fn new(doors: &Doors, hello: Hello, desk: Arc<Desk>) -> Self {
        let closing = {
            let doors = doors.clone();
            Box::pin(async move { doors.closing().await })
        };
        let mut renewal = Renewal::Idle;
        renewal.by(desk.leases().1);
        Self {
            incarnation: hello.incarnation,
            desk,
            ask: hello.ask,
            told: Told::default(),
            slots: hello.slots,
            drains: false,
            closing: Some(closing),
            fetching: None,
            reports: UnderWay::new(),
            aside: FuturesUnordered::new(),
            renewal,
            renewed: false,
        }
    }

    /// Whether more may be read.
    pub(super) fn has_room(&self) -> bool {
        self.reports.has_room() && self.aside.len() < MOST_ASIDE
    }

    /// Takes what the worker says.
    pub(super) fn take(&mut self, doors: &Doors, said: v1::WorkerSays) -> Result<(), Status> {
        if said.hello.is_some() {
            return Err(Fault::new(Code::Refused, "hello was said before").into());
        }
        if let Some(n) = said.slots {
            self.slots = slots(n).map_err(invalid)?;
        }
        self.desk.heard(self.slots, doors.engine().now());
        self.drains |= said.drain;
        let bytes = said.encoded_len();
        // Notes are for people, and one that is not kept is not missed; but those of a job that is over count as
        // long as its report does not.
        let noted = (!said.notes.is_empty()).then(|| {
            let (engine, notes) = (doors.engine().clone(), said.notes.into_iter().map(note));
            let notes = notes.collect();
            Box::pin(async move { drop(engine.note(notes).await) })
        });
        if said.finish.is_empty() {
            noted.into_iter().for_each(|noted| self.aside.push(noted));
            return Ok(());
        }
        let report = report(doors.clone(), Arc::clone(&self.desk), said.finish);
        match noted {
            None => self.reports.push(bytes, report),
            Some(noted) => self.reports.push(bytes, async move {
                noted.await;
                report.await
            }),
        }
        Ok(())
    }

    /// Looks for jobs while there are slots for them.
    pub(super) fn poll_fetch(
        &mut self,
        doors: &Doors,
        to_send: &mut std::vec::IntoIter<Job>,
        lost: &mut Vec<v1::Held>,
        context: &mut Context<'_>,
    ) -> Result<(), Status> {
        while to_send.len() == 0 {
            let twice = usize::from(planted!("bug-31") && !self.reports.is_empty());
            let free = (self.slots + twice).saturating_sub(self.desk.len());
            let may_look = !self.drains && !doors.is_closing() && !doors.engine().is_stopping();
            if self.fetching.is_none() && free > 0 && may_look {
                let n = free.min(doors.engine().caps().fetch);
                let ask = crore::fetch::Fetch { n, ..self.ask.clone() };
                self.fetching = Some(Looking::new(doors.engine(), ask));
            }
            let Some(fetching) = &mut self.fetching else { return Ok(()) };
            let Poll::Ready(jobs) = Pin::new(fetching).poll(context) else { return Ok(()) };
            self.fetching = None;
            let jobs = jobs.map_err(failed)?;
            if jobs.is_empty() {
                // The server ends, or it looks again.
                continue;
            }
            lost.extend(self.desk.take(&jobs));
            let shortest = jobs.iter().filter_map(|job| job.spec.lease).min();
            self.renewal.by(shortest);
            *to_send = jobs.into_iter();
        }
        Ok(())
    }

    /// Jobs without a lease are done when they are handed over, which is now.
    pub(super) fn hand_over(&mut self, doors: &Doors, jobs: Vec<Job>, context: &mut Context<'_>) {
        if !jobs.is_empty() {
            let engine = doors.engine().clone();
            self.aside.push(Box::pin(async move { drop(engine.hand_over(jobs).await) }));
            // It is begun now: the stream is not polled again before its worker reads.
            while let Poll::Ready(Some(())) = self.aside.poll_next_unpin(context) {}
        }
    }

    /// Renews leases in time.
    pub(super) fn poll_renewal(
        &mut self,
        doors: &Doors,
        says: &mut v1::ServerSays,
        context: &mut Context<'_>,
    ) {
        loop {
            match &mut self.renewal {
                Renewal::Idle => return,
                Renewal::At(sleep) => {
                    if sleep.as_mut().poll(context).is_pending() {
                        return;
                    }
                    let (leases, _) = self.desk.leases();
                    self.renewal = match leases.is_empty() {
                        true => Renewal::Idle,
                        false => Renewal::Now(Box::pin(renew(doors.engine().clone(), leases))),
                    };
                }
                Renewal::Now(renewing) => {
                    let Poll::Ready(renewed) = renewing.as_mut().poll(context) else { return };
                    self.renewal = Renewal::Idle;
                    self.renewed = true;
                    // What could not be renewed now is tried again, and ends otherwise.
                    for (lease, renewed) in renewed.unwrap_or_default() {
                        let held = v1::Held { id: lease.id.0, delivery: lease.delivery.0 };
                        match renewed {
                            Renewed::Until { stop: true, .. } => says.stop.push(held),
                            Renewed::Until { stop: false, .. } => {}
                            Renewed::Stale => {
                                if self.desk.drop_one(lease.id, lease.delivery) {
                                    says.lost.push(held);
                                }
                            }
                        }
                    }
                    let (_, shortest) = self.desk.leases();
                    self.renewal.by(shortest);
                }
            }
        }
    }

    /// Passes on what became of its jobs elsewhere.
    pub(super) fn hear(&mut self, says: &mut v1::ServerSays, context: &mut Context<'_>) {
        for notice in self.desk.hear(context.waker()) {
            match notice {
                Notice::Stop(id, delivery) => {
                    says.stop.push(v1::Held { id: id.0, delivery: delivery.0 });
                }
                Notice::Lost(id, delivery) => {
                    if self.desk.drop_one(id, delivery) {
                        says.lost.push(v1::Held { id: id.0, delivery: delivery.0 });
                        // There is a slot for another one.
                        context.waker().wake_by_ref();
                    }
                }
            }
        }
    }
}

impl Renewal {
    /// Leases of this length are there from now on.
    fn by(&mut self, lease: Option<Span>) {
        let Some(lease) = lease else { return };
        let at = Instant::now() + Engine::renew_every(lease).into();
        match self {
            Self::Idle => *self = Self::At(Box::pin(sleep_until(at))),
            Self::At(sleep) if at < sleep.deadline() => sleep.as_mut().reset(at),
            Self::At(_) | Self::Now(_) => {}
        }
    }
}

fn note(said: v1::Note) -> Note {
    let (id, delivery, text) = (JobId(said.id), Delivery(said.delivery), said.text.into());
    match said.percent {
        Some(percent) => Note::Progress { id, delivery, percent: percent.min(100) as u8, text },
        None => Note::Line { id, delivery, text },
    }
}

/// Reports; of what is refused the worker still has the jobs, and what it does not have is not asked about. All is
/// answered in order.
fn report(
    doors: Doors,
    desk: Arc<Desk>,
    reports: Vec<v1::Report>,
) -> impl Future<Output = Result<Vec<v1::Finished>, Status>> {
    // Its slots are free from now on.
    let (reports, strange) = desk.give(reports);
    async move {
        let its_own = match reports.is_empty() {
            true => Vec::new(),
            false => reported(&doors, &desk, reports).await?,
        };
        if strange.is_empty() {
            return Ok(its_own);
        }
        let mut finished = Vec::with_capacity(its_own.len() + strange.len());
        let mut its_own = its_own.into_iter();
        for (place, v1::Held { id, delivery }) in strange {
            finished.extend(its_own.by_ref().take(place - finished.len()));
            let verdict = v1::Verdict::Stale.into();
            finished.push(v1::Finished { id, delivery, verdict, ..v1::Finished::default() });
        }
        finished.extend(its_own);
        Ok(finished)
    }
}

async fn reported(
    doors: &Doors,
    desk: &Desk,
    reports: Vec<v1::Report>,
) -> Result<Vec<v1::Finished>, Status> {
    if planted!("bug-32") && reports.iter().all(|report| report.on_done.is_empty()) {
        return Ok(too_early(doors.clone(), reports));
    }
    let finished = finish(doors, reports).await?;
    for one in finished.iter().filter(|one| one.verdict() == v1::Verdict::Refused) {
        let job = doors.engine().get(JobId(one.id)).await.map_err(failed)?;
        desk.take(job.filter(|job| job.live.delivery.0 == one.delivery).as_slice());
    }
    Ok(finished)
}

/// The planted mistake: the answers to reports that are still on their way to the engine.
fn too_early(doors: Doors, reports: Vec<v1::Report>) -> Vec<v1::Finished> {
    let answer = |&v1::Report { id, delivery, .. }: &v1::Report| v1::Finished {
        id,
        delivery,
        verdict: v1::Verdict::Finished.into(),
        ..v1::Finished::default()
    };
    let answers = reports.iter().map(answer).collect();
    drop(tokio::spawn(async move { drop(finish(&doors, reports).await) }));
    answers
}

/// Renews leases, as many at a time as one may.
pub(super) async fn renew(
    engine: Engine,
    leases: Vec<Renew>,
) -> Result<Vec<(Renew, Renewed)>, Error> {
    let mut all = Vec::with_capacity(leases.len());
    for some in leases.chunks(engine.caps().fetch) {
        let renewed = engine.renew(some.to_vec()).await?;
        all.extend(some.iter().copied().zip(renewed));
    }
    Ok(all)
}
