//! `Join`: the stream of a worker, jobs one way and reports the other.
//!
//! It is polled by the connection that it belongs to, which asks for the next job when there is room for one:
//! what a worker does not read is not taken for it, but for a few. Leases are not renewed: a reservation lasts as
//! long as its producer said.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use crore::Error;
use crore::fetch::Fetch;
use crore::finish::Finish;
use crore::store::jobs::Order;
use crore_core::machine::Outcome;
use crore_core::{Code, Invalid, Job, Name, Span};
use crore_wire::grpc::lakh::{self, JobResult};
use crore_wire::worker::Held;
use futures_util::future::{FutureExt, OptionFuture};
use futures_util::stream::{FuturesUnordered, Stream, StreamExt};
use prost::Message;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tonic::{Status, Streaming};

use super::names::Names;
use super::reports::{Hand, Reports};
use super::reservations::{Key, key};
use super::translate::say;
use crate::Doors;
use crate::grpc::failed;
use crate::worker_session::PendingFetch;

/// The most jobs that are taken for a worker before it reads them.
const BUFFER: usize = 10;
/// How long a look for jobs lasts: it is begun anew then.
const LOOK: Span = Span::from_secs(3600);
/// How long an ended stream waits for what may be on its way.
const LAST_LOOK: Duration = Duration::from_millis(50);
/// Jobs are handed to the connection in pieces of at least so many bytes, if there are so many.
const PIECE: usize = 32 << 10;
/// What stands before each message.
const FRAME: usize = 5;

type Doing<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The stream of a worker, as it is answered.
pub(crate) struct Joined(Option<Box<Join>>);

/// A worker that has joined.
struct Join {
    doors: Doors,
    ask: Fetch,
    hand: Arc<Hand>,
    /// Who hears its reports; `None`: there will be none.
    reports: Option<JoinHandle<Result<(), Status>>>,
    /// To be dropped when they are not to be heard any more.
    over: oneshot::Sender<()>,
    fetch: Option<PendingFetch>,
    /// Jobs that have yet to be sent.
    to_send: std::vec::IntoIter<Job>,
    given: Given,
    handing: FuturesUnordered<Doing<(Key, Held)>>,
    /// Comes when the server gives nothing more.
    closing: Option<Doing<()>>,
}

/// What was given to the connection since it last passed something on.
#[derive(Debug, Default)]
struct Given {
    /// The jobs that are done with that.
    jobs: Vec<Key>,
    bytes: usize,
    /// Whether there was no more to give.
    is_whole: bool,
}

impl Given {
    /// What the connection has passed on for certain, now that it asks again.
    fn passed_on(&mut self) -> Vec<Key> {
        if !std::mem::take(&mut self.is_whole) && self.bytes < PIECE {
            return Vec::new();
        }
        std::mem::take(self).jobs
    }
}

impl Joined {
    pub(super) fn new(
        doors: Doors,
        names: Names,
        worker: Name,
        reports: Streaming<JobResult>,
    ) -> Result<Self, Invalid> {
        let (queues, most) = (names.queues(), doors.engine().status().caps().fetch);
        if queues.len() > most {
            let why = format!("{} names, at most {most} are allowed", queues.len());
            return Err(Invalid::new(Code::CountRange, "job_names", why));
        }
        let (hand, engine) = (Arc::<Hand>::default(), doors.engine().clone());
        let (over, is_over) = oneshot::channel();
        let hears = Reports { engine, names, hand: Arc::clone(&hand) };
        let reports = tokio::spawn(hears.hear(reports, is_over));
        let until = doors.clone();
        Ok(Self(Some(Box::new(Join {
            doors,
            ask: Fetch {
                queues,
                kinds: None,
                handled: None,
                n: 1,
                order: Order::Merged,
                worker,
                wait: LOOK,
            },
            hand,
            reports: Some(reports),
            over,
            fetch: None,
            to_send: Vec::new().into_iter(),
            given: Given::default(),
            handing: FuturesUnordered::new(),
            closing: Some(Box::pin(async move { until.closing().await })),
        }))))
    }

    fn end(&mut self) {
        let Some(join) = self.0.take() else { return };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(join.leave());
        }
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        self.end();
    }
}

impl Stream for Joined {
    type Item = Result<lakh::Job, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(join) = &mut self.0 else { return Poll::Ready(None) };
        let polled = join.poll(context);
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            self.end();
        }
        polled
    }
}

impl Join {
    /// The next job; `None`: there will be none, and no report is waited for.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<lakh::Job, Status>>> {
        for key in self.given.passed_on() {
            self.hand_over(key);
        }
        while let Poll::Ready(Some((key, held))) = self.handing.poll_next_unpin(context) {
            self.hand.reservations().release(&key, held);
        }
        if let Some(reports) = &mut self.reports
            && let Poll::Ready(heard) = reports.poll_unpin(context)
        {
            self.reports = None;
            if let Ok(Err(status)) = heard {
                return Poll::Ready(Some(Err(status)));
            }
        }
        loop {
            if let Some(job) = self.next() {
                return Poll::Ready(Some(Ok(job)));
            }
            match self.poll_fetch(context) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Some(Err(failed(error)))),
                Poll::Pending => break,
            }
        }
        self.given.is_whole = true;
        if let Some(closing) = &mut self.closing
            && closing.as_mut().poll(context).is_ready()
        {
            self.closing = None;
        }
        self.hand.register(context.waker());
        let is_settled = self.reports.is_none() || self.hand.reservations().is_settled();
        let is_over = self.closing.is_none() && is_settled;
        if is_over { Poll::Ready(None) } else { Poll::Pending }
    }

    /// The next job that was taken for it and is still its.
    fn next(&mut self) -> Option<lakh::Job> {
        loop {
            let job = self.to_send.next()?;
            let Some(terms) = self.hand.reservations().send(&job, Instant::now()) else {
                continue;
            };
            let said = say(&job);
            self.given.bytes += said.encoded_len() + FRAME;
            if !terms.is_reserved() {
                self.given.jobs.push(key(&job));
            }
            return Some(said);
        }
    }

    /// A job of which no report is expected is with its worker, and done.
    fn hand_over(&mut self, key: Key) {
        let Some((held, _)) = self.hand.reservations().get(&key) else { return };
        let engine = self.doors.engine().clone();
        self.handing.push(Box::pin(async move {
            if let Err(error) = engine.deliveries().handed_over(held.id, held.delivery).await {
                tracing::warn!(job = %held.id, %error, "a job that was handed over is not known to be done");
            }
            (key, held)
        }));
    }

    /// Looks for jobs: waits for one, and takes twice as many each time there are more, so that a few jobs are
    /// shared by those who wait, and many are handed out fast.
    fn poll_fetch(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let engine = self.doors.engine();
        let fetch = match &mut self.fetch {
            Some(fetch) => fetch,
            None if self.ask.queues.is_empty() => return Poll::Pending,
            None if self.doors.is_closing() || engine.lifecycle().is_stopping() => {
                return Poll::Pending;
            }
            None => {
                let wait = if self.ask.n == 1 { LOOK } else { Span::ZERO };
                let ask = Fetch { wait, ..self.ask.clone() };
                self.fetch.insert(PendingFetch::new(engine, ask))
            }
        };
        let jobs = ready!(fetch.poll_unpin(context));
        self.fetch = None;
        let jobs = jobs?;
        self.ask.n = match jobs.len() == self.ask.n {
            true => (jobs.len() * 2).min(BUFFER).min(engine.status().caps().fetch),
            false => 1,
        };
        let now = Instant::now();
        jobs.iter().for_each(|job| self.hand.reservations().take(job, now));
        self.to_send = jobs.into_iter();
        Poll::Ready(Ok(()))
    }

    /// The stream is over. What its worker said before is heard, and its jobs are given to others at once: all of
    /// them, unless the server ends. Then those that it has stay its own, and it may report them to the next.
    async fn leave(self: Box<Self>) {
        let Self { doors, hand, reports, over, fetch, mut handing, .. } = *self;
        let engine = doors.engine();
        let heard = async {
            if let Some(mut reports) = reports
                && timeout(LAST_LOOK, &mut reports).await.is_err()
            {
                drop(over);
                // Whom could it still be told?
                let _ = reports.await;
            }
        };
        // The fetch under way ends before anything is handed back, or it might claim that.
        let fetch = fetch.map(PendingFetch::end);
        let ((), fetched) = tokio::join!(heard, OptionFuture::from(fetch));
        while let Some((key, held)) = handing.next().await {
            hand.reservations().release(&key, held);
        }
        let now = Instant::now();
        if let Some(Ok(jobs)) = fetched {
            jobs.iter().for_each(|job| hand.reservations().take(job, now));
        }
        let (sent, unsent): (Vec<_>, Vec<_>) =
            hand.reservations().clear().into_iter().partition(|(_, terms)| terms.is_sent());
        let ends = doors.is_closing();
        let lost = sent.iter().filter(|(_, terms)| !(ends && terms.is_reserved()));
        let lost =
            engine.deliveries().lapse(lost.map(|(held, _)| (held.id, held.delivery)).collect());
        let unsent = unsent.iter().filter(|(_, terms)| !terms.is_over(now));
        let unsent = unsent.map(|(held, _)| Finish {
            job: held.id.into(),
            delivery: Some(held.delivery),
            report: Outcome::Interrupted.into(),
        });
        let unsent = engine.deliveries().finish_all(unsent.collect());
        if let (Err(error), _) | (_, Err(error)) = tokio::join!(lost, unsent) {
            tracing::warn!(%error, "jobs of a worker that went away wait for the end of their leases");
        }
    }
}
