//! `Join`: the stream of a worker, jobs one way and reports the other.
//!
//! It is polled by the connection that it belongs to, which asks for the next job when there is room for one:
//! a worker that does not read holds nothing up but the few jobs that were taken for it. Leases are not renewed:
//! a reservation lasts as long as its producer said.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use crore::fetch::Fetch;
use crore::finish::{Finish, Finished};
use crore::store::jobs::{Order, Which};
use crore::{Engine, Error};
use crore_core::machine::{Again, Outcome};
use crore_core::{Code, Delivery, Invalid, Job, Name, Span};
use crore_wire::grpc::lakh::{self, JobResult, JobStatus};
use futures_util::future::OptionFuture;
use futures_util::stream::{FuturesUnordered, Stream, StreamExt};
use prost::Message;
use tokio::time::{Instant, timeout};
use tonic::{Status, Streaming};

use super::held::{Held, Key, key};
use super::names::Names;
use super::translate::{client_id, say};
use crate::Doors;
use crate::grpc::failed;

/// The most jobs that are taken for a worker before it reads them.
const BUFFER: usize = 10;
/// How long a look for jobs lasts: it is begun anew then.
const LOOK: Span = Span::from_secs(3600);
/// How many reports are written at once.
const REPORTS: usize = 1000;
/// How long an ended stream waits for what may be on its way.
const LAST_LOOK: Duration = Duration::from_millis(50);
/// Jobs are handed to the connection in pieces of at least so many bytes, if there are so many.
const PIECE: usize = 32 << 10;
/// What stands before each message.
const FRAME: usize = 5;

type Doing<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The stream of a worker, as it is answered.
pub(super) struct Joined(Option<Box<Join>>);

/// A worker that has joined.
struct Join {
    doors: Doors,
    names: Names,
    ask: Fetch,
    /// `None`: the worker will report nothing more.
    reports: Option<Streaming<JobResult>>,
    /// What went wrong with its reports; told when those that came before are written.
    fault: Option<Status>,
    /// Reports on their way to the disk; those that come meanwhile go together after them.
    reporting: Option<Doing<Result<(), Error>>>,
    fetching: Option<Doing<Result<Vec<Job>, Error>>>,
    /// Jobs that have yet to be sent.
    to_send: std::vec::IntoIter<Job>,
    held: Held,
    given: Given,
    handing: FuturesUnordered<Doing<(Key, Delivery)>>,
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
        let (queues, most) = (names.queues(), doors.engine().caps().fetch);
        if queues.len() > most {
            let why = format!("{} names, at most {most} are allowed", queues.len());
            return Err(Invalid::new(Code::CountRange, "job_names", why));
        }
        let ask = Fetch { queues, kinds: None, n: 1, order: Order::Merged, worker, wait: Span::ZERO };
        let until = doors.clone();
        Ok(Self(Some(Box::new(Join {
            doors,
            names,
            ask,
            reports: Some(reports),
            fault: None,
            reporting: None,
            fetching: None,
            to_send: Vec::new().into_iter(),
            held: Held::default(),
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

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Self::Item>> {
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
        if let Err(status) = self.poll_reports(context) {
            return Poll::Ready(Some(Err(status)));
        }
        while let Poll::Ready(Some((key, delivery))) = self.handing.poll_next_unpin(context) {
            self.held.drop_one(&key, delivery);
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
        let awaits_reports = !self.held.is_empty() && self.reports.is_some();
        let is_over = self.closing.is_none() && !awaits_reports && self.reporting.is_none();
        if is_over { Poll::Ready(None) } else { Poll::Pending }
    }

    /// The next job that was taken for it and is still its.
    fn next(&mut self) -> Option<lakh::Job> {
        loop {
            let job = self.to_send.next()?;
            let Some(hold) = self.held.send(&job, Instant::now()) else { continue };
            let said = say(&job);
            self.given.bytes += said.encoded_len() + FRAME;
            if !hold.is_reserved {
                self.given.jobs.push(key(&job));
            }
            return Some(said);
        }
    }

    /// A job of which no report is expected is with its worker, and done.
    fn hand_over(&mut self, key: Key) {
        let Some(hold) = self.held.get(&key) else { return };
        let engine = self.doors.engine().clone();
        self.handing.push(Box::pin(async move {
            if let Err(error) = engine.handed_over(hold.job, hold.delivery).await {
                tracing::warn!(job = %hold.job, %error, "a job that was handed over is not known to be done");
            }
            (key, hold.delivery)
        }));
    }

    /// Looks for jobs: waits for one, and takes twice as many each time there are more, so that a few jobs are
    /// shared by those who wait, and many are handed out fast.
    fn poll_fetch(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let engine = self.doors.engine();
        let fetching = match &mut self.fetching {
            Some(fetching) => fetching,
            None if self.ask.queues.is_empty() => return Poll::Pending,
            None if self.doors.is_closing() || engine.is_stopping() => return Poll::Pending,
            None => {
                let wait = if self.ask.n == 1 { LOOK } else { Span::ZERO };
                let (engine, ask) = (engine.clone(), Fetch { wait, ..self.ask.clone() });
                self.fetching.insert(Box::pin(async move { engine.fetch(ask).await }))
            }
        };
        let jobs = ready!(fetching.as_mut().poll(context));
        self.fetching = None;
        let jobs = jobs?;
        self.ask.n = match jobs.len() == self.ask.n {
            true => (jobs.len() * 2).min(BUFFER).min(engine.caps().fetch),
            false => 1,
        };
        let now = Instant::now();
        jobs.iter().for_each(|job| self.held.take(job, now));
        self.to_send = jobs.into_iter();
        Poll::Ready(Ok(()))
    }

    /// Reads reports and has them written, one lot after the other: the first about a job counts.
    fn poll_reports(&mut self, context: &mut Context<'_>) -> Result<(), Status> {
        loop {
            if let Some(reporting) = &mut self.reporting {
                let Poll::Ready(reported) = reporting.as_mut().poll(context) else { return Ok(()) };
                self.reporting = None;
                reported.map_err(failed)?;
            }
            let finishes = self.read(context);
            if finishes.is_empty() {
                return self.fault.take().map_or(Ok(()), Err);
            }
            self.reporting = Some(Box::pin(report(self.doors.engine().clone(), finishes)));
        }
    }

    /// What the worker has reported.
    fn read(&mut self, context: &mut Context<'_>) -> Vec<Finish> {
        let mut finishes = Vec::new();
        while finishes.len() < REPORTS
            && let Some(reports) = &mut self.reports
            && let Poll::Ready(came) = reports.poll_next_unpin(context)
        {
            match came {
                Some(Ok(said)) => finishes.extend(self.finish(&said)),
                Some(Err(status)) => (self.reports, self.fault) = (None, Some(status)),
                None => self.reports = None,
            }
        }
        finishes
    }

    /// A report in our words; `None`: it is none.
    fn finish(&mut self, said: &JobResult) -> Option<Finish> {
        let ignored = |why: &str| {
            tracing::warn!(id = ?said.job_id, name = ?said.job_name, status = said.status, "a report is ignored: {why}");
            None
        };
        if !self.names.have(&said.job_name) {
            return ignored("its name is not among its call's");
        }
        let outcome = match JobStatus::try_from(said.status) {
            Ok(JobStatus::Succeeded) => Outcome::Done { result: None },
            Ok(JobStatus::Failed) => {
                let error = "its worker reported a failure".into();
                Outcome::Failed { error, detail: None, again: Again::ByPolicy }
            }
            Err(_) => return ignored("there is no such status"),
        };
        let key: Key = (said.job_name.as_str().into(), said.job_id.as_str().into());
        let (job, delivery) = match self.held.get(&key) {
            Some(hold) if !hold.is_reserved => return ignored("the job has no reservation"),
            Some(hold) => {
                self.held.drop_one(&key, hold.delivery);
                (Which::Id(hold.job), Some(hold.delivery))
            }
            // It was handed to another, or in another life of the server.
            None => match client_id(&said.job_name, &said.job_id) {
                Ok(id) => (Which::Client(id), None),
                Err(_) => return ignored("there is no such job"),
            },
        };
        Some(Finish { job, delivery, report: outcome.into() })
    }

    /// The stream is over. What its worker said before is heard, and its jobs are given to others at once: all of
    /// them, unless the server ends. Then those that it has stay its own, and it may report them to the next.
    async fn leave(mut self: Box<Self>) {
        let engine = self.doors.engine().clone();
        // A look that is under way may have found something; it ends before anything is given back to be found.
        let fetching = self.fetching.take().map(|fetching| timeout(LAST_LOOK, fetching));
        let heard = timeout(LAST_LOOK, poll_fn(|context| self.poll_last(context)));
        let (_, fetched) = tokio::join!(heard, OptionFuture::from(fetching));
        if let Some(reporting) = self.reporting.take() {
            // What cannot be written is done again when its reservation ends.
            let _ = reporting.await;
        }
        while let Some((key, delivery)) = self.handing.next().await {
            self.held.drop_one(&key, delivery);
        }
        let now = Instant::now();
        if let Some(Ok(Ok(jobs))) = fetched {
            jobs.iter().for_each(|job| self.held.take(job, now));
        }
        let ends = self.doors.is_closing();
        let (sent, unsent): (Vec<_>, Vec<_>) = self.held.clear().partition(|hold| hold.is_sent);
        let lost = sent.iter().filter(|hold| !(ends && hold.is_reserved));
        let lost = engine.lapse(lost.map(|hold| (hold.job, hold.delivery)).collect());
        let unsent = unsent.iter().filter(|hold| hold.until > now).map(|hold| Finish {
            job: hold.job.into(),
            delivery: Some(hold.delivery),
            report: Outcome::Interrupted.into(),
        });
        let unsent = engine.finish_all(unsent.collect());
        if let (Err(error), _) | (_, Err(error)) = tokio::join!(lost, unsent) {
            tracing::warn!(%error, "jobs of a worker that went away wait for the end of their leases");
        }
    }

    fn poll_last(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let heard = self.poll_reports(context);
        if heard.is_err() || self.reports.is_none() { Poll::Ready(()) } else { Poll::Pending }
    }
}

async fn report(engine: Engine, finishes: Vec<Finish>) -> Result<(), Error> {
    let finished = engine.finish_all(finishes).await?;
    let old = finished.iter().filter(|one| !matches!(one, Finished::Yes { .. })).count();
    if old > 0 {
        tracing::info!(reports = old, "reports are ignored: their jobs were reported before");
    }
    Ok(())
}
