//! One stream, from its hello to its end.
//!
//! It is polled by the connection that it belongs to: whatever is ready goes into one message, so that a
//! busy stream is woken once for many jobs.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crore::store::jobs::{Renew, Renewed};
use crore::store::views::Note;
use crore::{Engine, Error};
use crore_core::{Code, Delivery, Job, JobId, Span};
use crore_wire::grpc::v1;
use futures_util::stream::{FuturesOrdered, FuturesUnordered, Stream, StreamExt};
use tokio::time::{Instant, Sleep, sleep_until, timeout};
use tonic::{Status, Streaming};

use super::super::fault::{failed, invalid, missing};
use super::super::work::{delivered, finish};
use super::desk::{Desk, Hold, Notice};
use super::hello::{Hello, slots};
use super::looking::Looking;
use super::sessions::GRACE;
use crate::Doors;
use crate::http::Fault;

/// How long a stream may take to say hello.
const HELLO_TIME: Duration = Duration::from_secs(10);
/// How many messages with reports may be on their way to the disk before no more are read.
const MOST_UNDER_WAY: usize = 64;
/// How long an ended stream waits for jobs that may be on their way to it.
const LAST_LOOK: Duration = Duration::from_millis(50);
/// A message is sent when it has about so many bytes: every client takes four times as many.
const MESSAGE_BYTES: usize = 1 << 20;

type Doing<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The stream of a worker, as its answers.
pub(in super::super) struct Session {
    doors: Doors,
    /// `None`: the worker will say nothing more.
    says: Option<Streaming<v1::WorkerSays>>,
    stage: Stage,
    /// Jobs that have yet to be sent.
    to_send: std::vec::IntoIter<Job>,
}

enum Stage {
    /// It has not said hello.
    New(Pin<Box<Sleep>>),
    /// It is asked which of its deliveries it keeps.
    Entering(Doing<Result<Entered, Error>>),
    At(Box<Work>),
    Over,
}

/// A worker that was let in.
struct Entered {
    hello: Hello,
    desk: Arc<Desk>,
    welcome: v1::Welcome,
    lost: Vec<v1::Held>,
}

/// A worker at work.
struct Work {
    incarnation: Arc<str>,
    desk: Arc<Desk>,
    ask: crore::fetch::Fetch,
    slots: usize,
    /// It wants nothing more.
    drains: bool,
    /// The server gives nothing more; told once.
    closing: Option<Doing<()>>,
    fetching: Option<Looking>,
    reports: FuturesOrdered<Doing<Result<Vec<v1::Finished>, Status>>>,
    /// What nobody is told about.
    aside: FuturesUnordered<Doing<()>>,
    renewal: Renewal,
    /// Leases were renewed. That is said in a message, even if there is nothing else in it: while a worker does not
    /// read, the next message cannot go out, the stream is not polled any more, and its leases end.
    renewed: bool,
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

impl Session {
    pub(in super::super) fn new(doors: Doors, says: Streaming<v1::WorkerSays>) -> Self {
        let stage = Stage::New(Box::pin(sleep_until(Instant::now() + HELLO_TIME)));
        Self { doors, says: Some(says), stage, to_send: Vec::new().into_iter() }
    }

    /// What the worker says next, if it has said anything.
    fn poll_says(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<v1::WorkerSays, Status>>> {
        let Some(says) = &mut self.says else { return Poll::Pending };
        let said = says.poll_next_unpin(context);
        if let Poll::Ready(None | Some(Err(_))) = &said {
            self.says = None;
        }
        said
    }

    /// The first message.
    fn poll_hello(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Status>> {
        if let Stage::New(late) = &mut self.stage
            && late.as_mut().poll(context).is_ready()
        {
            return Poll::Ready(Err(Fault::new(Code::TooSlow, "no hello came").into()));
        }
        let said = match std::task::ready!(self.poll_says(context)) {
            Some(said) => said?,
            None => return Poll::Ready(Err(missing("hello"))),
        };
        let hello = said.hello.ok_or_else(|| missing("hello"))?;
        let hello = Hello::read(hello).map_err(|bad| invalid(bad.inside("hello")))?;
        self.stage = Stage::Entering(Box::pin(enter(self.doors.clone(), hello)));
        Poll::Ready(Ok(()))
    }

    /// Whatever is ready, in one message; `None`: the stream is over.
    fn poll_work(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<v1::ServerSays, Status>>> {
        let mut says = v1::ServerSays::default();
        if let Err(status) = self.read(context, &mut says) {
            return Poll::Ready(Some(Err(status)));
        }
        let Stage::At(work) = &mut self.stage else { return Poll::Ready(None) };
        if work.desk.is_replaced() {
            let why = "the same incarnation has another stream";
            return Poll::Ready(Some(Err(Status::aborted(why))));
        }
        while let Poll::Ready(Some(finished)) = work.reports.poll_next_unpin(context) {
            match finished {
                Ok(finished) => says.finished.extend(finished),
                Err(status) => return Poll::Ready(Some(Err(status))),
            }
        }
        while let Poll::Ready(Some(())) = work.aside.poll_next_unpin(context) {}
        if let Err(status) = work.poll_fetch(&self.doors, &mut self.to_send, context) {
            return Poll::Ready(Some(Err(status)));
        }
        let mut bytes = 0;
        while bytes < MESSAGE_BYTES
            && let Some(job) = self.to_send.next()
        {
            bytes += job.spec.payload.bytes.len() + 128;
            says.jobs.push(delivered(&self.doors, &job));
        }
        work.poll_renewal(&self.doors, &mut says, context);
        work.hear(&mut says, context);
        if let Some(closing) = &mut work.closing
            && closing.as_mut().poll(context).is_ready()
        {
            work.closing = None;
            says.drain = true;
        }
        if self.to_send.len() > 0 {
            // The rest goes with the next message.
            context.waker().wake_by_ref();
        }
        if std::mem::take(&mut work.renewed) || says != v1::ServerSays::default() {
            return Poll::Ready(Some(Ok(says)));
        }
        let is_over = self.says.is_none() && work.reports.is_empty();
        if is_over { Poll::Ready(None) } else { Poll::Pending }
    }

    /// Reads all that the worker has said, as long as there is room for it.
    fn read(&mut self, context: &mut Context<'_>, says: &mut v1::ServerSays) -> Result<(), Status> {
        loop {
            match &self.stage {
                Stage::At(work) if work.reports.len() < MOST_UNDER_WAY => {}
                _ => return Ok(()),
            }
            let Poll::Ready(said) = self.poll_says(context) else { return Ok(()) };
            let Some(said) = said else { return Ok(()) };
            // A connection that breaks is not heard of any more.
            let Ok(said) = said else { return Ok(()) };
            if let Stage::At(work) = &mut self.stage {
                work.take(&self.doors, said, says)?;
            }
        }
    }
}

impl Work {
    /// Takes what the worker says.
    fn take(
        &mut self,
        doors: &Doors,
        said: v1::WorkerSays,
        says: &mut v1::ServerSays,
    ) -> Result<(), Status> {
        if said.hello.is_some() {
            return Err(Fault::new(Code::Refused, "hello was said before").into());
        }
        if let Some(n) = said.slots {
            self.slots = slots(n).map_err(invalid)?;
        }
        self.drains |= said.drain;
        if !said.finish.is_empty() {
            let (reports, strange) = self.desk.give(said.finish);
            says.finished.extend(strange.into_iter().map(|held| v1::Finished {
                id: held.id,
                delivery: held.delivery,
                verdict: v1::Verdict::Stale.into(),
                ..v1::Finished::default()
            }));
            if !reports.is_empty() {
                let report = report(doors.clone(), Arc::clone(&self.desk), reports);
                self.reports.push_back(Box::pin(report));
            }
        }
        if !said.notes.is_empty() {
            self.note(doors.engine().clone(), said.notes);
        }
        Ok(())
    }

    fn note(&self, engine: Engine, notes: Vec<v1::Note>) {
        let notes = notes.into_iter().map(note).collect();
        // Notes are for people, and one that is not kept is not missed.
        self.aside.push(Box::pin(async move { drop(engine.note(notes).await) }));
    }

    /// Looks for jobs while there are slots for them.
    fn poll_fetch(
        &mut self,
        doors: &Doors,
        to_send: &mut std::vec::IntoIter<Job>,
        context: &mut Context<'_>,
    ) -> Result<(), Status> {
        while to_send.len() == 0 {
            let free = self.slots.saturating_sub(self.desk.len());
            if self.fetching.is_none() && free > 0 && !self.drains && !doors.is_closing() {
                let n = free.min(doors.engine().caps().fetch);
                let (engine, ask) = (doors.engine().clone(), self.ask.clone());
                let ask = crore::fetch::Fetch { n, ..ask };
                self.fetching = Some(Looking::new(async move { engine.fetch(ask).await }));
            }
            let Some(fetching) = &mut self.fetching else { return Ok(()) };
            let Poll::Ready(jobs) = Pin::new(fetching).poll(context) else { return Ok(()) };
            self.fetching = None;
            let jobs = jobs.map_err(failed)?;
            if jobs.is_empty() {
                // The server ends, or it looks again.
                continue;
            }
            self.desk.take(&jobs);
            for job in jobs.iter().filter(|job| job.spec.lease.is_none()) {
                // Such a job is done when it is handed over, which is now.
                let (engine, id, delivery) = (doors.engine().clone(), job.id, job.live.delivery);
                let handed_over = async move { drop(engine.handed_over(id, delivery).await) };
                self.aside.push(Box::pin(handed_over));
            }
            let shortest = jobs.iter().filter_map(|job| job.spec.lease).min();
            self.renewal.by(shortest);
            *to_send = jobs.into_iter();
        }
        Ok(())
    }

    /// Renews leases in time.
    fn poll_renewal(
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
    fn hear(&mut self, says: &mut v1::ServerSays, context: &mut Context<'_>) {
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

/// Reports; of what is refused the worker still has the jobs.
async fn report(
    doors: Doors,
    desk: Arc<Desk>,
    reports: Vec<v1::Report>,
) -> Result<Vec<v1::Finished>, Status> {
    let finished = finish(&doors, reports).await?;
    for one in finished.iter().filter(|one| one.verdict() == v1::Verdict::Refused) {
        let job = doors.engine().get(JobId(one.id)).await.map_err(failed)?;
        desk.take(job.filter(|job| job.live.delivery.0 == one.delivery).as_slice());
    }
    Ok(finished)
}

/// Renews leases, as many at a time as one may.
async fn renew(engine: Engine, leases: Vec<Renew>) -> Result<Vec<(Renew, Renewed)>, Error> {
    let mut all = Vec::with_capacity(leases.len());
    for some in leases.chunks(engine.caps().fetch) {
        let renewed = engine.renew(some.to_vec()).await?;
        all.extend(some.iter().copied().zip(renewed));
    }
    Ok(all)
}

/// Lets a worker in, with the deliveries that it still has.
async fn enter(doors: Doors, hello: Hello) -> Result<Entered, Error> {
    let engine = doors.engine();
    let desk = Arc::new(Desk::new(hello.ask.worker.clone()));
    let before = doors.sessions().enter(&hello.incarnation, &desk).unwrap_or_default();
    let leases = hello.held.iter().map(|held| {
        let (id, delivery) = (JobId(held.id), Delivery(held.delivery));
        Renew { id, delivery, span: None }
    });
    let (mut kept, mut lost) = (Vec::new(), Vec::new());
    let mut holds = HashMap::new();
    for (lease, renewed) in renew(engine.clone(), leases.collect()).await? {
        let held = v1::Held { id: lease.id.0, delivery: lease.delivery.0 };
        match renewed {
            Renewed::Until { .. } => {
                let known = before.get(&lease.id).map(|hold| hold.lease);
                let lease_span = known.unwrap_or(crore_core::job::DEFAULT_LEASE);
                holds.insert(lease.id, Hold { delivery: lease.delivery, lease: lease_span });
                kept.push(held);
            }
            Renewed::Stale => lost.push(held),
        }
    }
    // What it had and does not know of is given to others.
    let forgotten = before.into_iter().filter(|(id, _)| !holds.contains_key(id));
    let forgotten: Vec<_> = forgotten.map(|(id, hold)| (id, hold.delivery)).collect();
    if !forgotten.is_empty() {
        engine.lapse(forgotten).await?;
    }
    desk.hold(holds);
    let grace_ms = u64::try_from(GRACE.as_millis()).unwrap_or_default();
    Ok(Entered { hello, desk, welcome: v1::Welcome { kept, grace_ms }, lost })
}

impl Stream for Session {
    type Item = Result<v1::ServerSays, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let polled = loop {
            match &mut this.stage {
                Stage::Over => return Poll::Ready(None),
                Stage::New(_) => {
                    if let Err(status) = std::task::ready!(this.poll_hello(context)) {
                        break Poll::Ready(Some(Err(status)));
                    }
                }
                Stage::Entering(entering) => {
                    match std::task::ready!(entering.as_mut().poll(context)) {
                        Ok(entered) => break Poll::Ready(Some(Ok(this.begin(entered)))),
                        Err(error) => break Poll::Ready(Some(Err(failed(error)))),
                    }
                }
                Stage::At(_) => break this.poll_work(context),
            }
        };
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            this.end();
        }
        polled
    }
}

impl Session {
    /// A worker was let in.
    fn begin(&mut self, entered: Entered) -> v1::ServerSays {
        let Entered { hello, desk, welcome, lost } = entered;
        let closing = {
            let doors = self.doors.clone();
            Box::pin(async move { doors.closing().await })
        };
        let mut renewal = Renewal::Idle;
        renewal.by(desk.leases().1);
        self.stage = Stage::At(Box::new(Work {
            incarnation: hello.incarnation,
            desk,
            ask: hello.ask,
            slots: hello.slots,
            drains: false,
            closing: Some(closing),
            fetching: None,
            reports: FuturesOrdered::new(),
            aside: FuturesUnordered::new(),
            renewal,
            renewed: false,
        }));
        v1::ServerSays { welcome: Some(welcome), lost, ..v1::ServerSays::default() }
    }

    /// The stream is over: what the worker still has is given to others, unless it comes back in time.
    fn end(&mut self) {
        let Stage::At(work) = std::mem::replace(&mut self.stage, Stage::Over) else { return };
        let Work { incarnation, desk, fetching, .. } = *work;
        let (engine, sessions) = (self.doors.engine().clone(), self.doors.sessions().clone());
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            if let Some(fetching) = fetching
                && let Ok(Ok(jobs)) = timeout(LAST_LOOK, fetching).await
            {
                desk.take(&jobs);
            }
            sessions.leave(engine, incarnation, desk);
        });
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end();
    }
}
