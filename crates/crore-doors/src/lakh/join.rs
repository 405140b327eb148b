//! `Join`: the bidirectional stream of a worker, which receives jobs and sends reports.
//!
//! The connection polls the stream for the next job when it has room for one, so few jobs are fetched for a worker
//! that does not read. Leases are not renewed: the producer sets the duration of a reservation.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use crore::Error;
use crore::fetch::Fetch;
use crore::finish::Finish;
use crore::store::jobs::QueueOrder;
use crore_api::Grant;
use crore_api::calls::restrict_fetch;
use crore_core::machine::Outcome;
use crore_core::version::KindVersions;
use crore_core::{Code, Invalid, Job, Name, Span};
use crore_wire::grpc::lakh::{self, JobResult};
use crore_wire::worker::DeliveryRef;
use futures_util::future::{FutureExt, OptionFuture};
use futures_util::stream::{FuturesUnordered, Stream, StreamExt};
use prost::Message;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tonic::{Status, Streaming};

use super::names::JobNames;
use super::reports::{ReportReader, SharedReservations};
use super::reservations::{JobKey, key};
use super::translate::to_lakh;
use crate::Doors;
use crate::grpc::failed;
use crate::lightjq;
use crate::worker_session::PendingFetch;

/// Maximum number of unread jobs fetched for a worker.
const BUFFER: usize = 10;
/// Maximum duration of one fetch; the stream then fetches again.
const FETCH_WAIT: Span = Span::from_secs(3600);
/// Time for which an ended stream waits for reports that may be on their way.
const REPORT_GRACE: Duration = Duration::from_millis(50);
/// The connection writes jobs out in pieces of at least this many bytes, if there are that many.
const FLUSH_BYTES: usize = 32 << 10;
/// Bytes before each gRPC message.
const MESSAGE_HEADER_BYTES: usize = 5;

type JoinFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The response stream of a worker.
pub(crate) struct JoinedStream(Option<Box<JoinedWorker>>);

/// A worker that has joined.
struct JoinedWorker {
    doors: Doors,
    names: Arc<JobNames>,
    fetch_template: Fetch,
    leases: Arc<SharedReservations>,
    /// The task that reads its reports; `None`: it has ended.
    reports: Option<JoinHandle<Result<(), Status>>>,
    /// Dropped to stop that task.
    stop_reports: oneshot::Sender<()>,
    fetch: Option<PendingFetch>,
    /// Fetched jobs that are not sent yet.
    to_send: std::vec::IntoIter<Job>,
    unflushed: UnflushedJobs,
    handing_over: FuturesUnordered<JoinFuture<(JobKey, DeliveryRef)>>,
    /// Completes when the server stops delivering jobs.
    closing: Option<JoinFuture<()>>,
}

/// Jobs given to the connection since it last wrote them out.
#[derive(Debug, Default)]
struct UnflushedJobs {
    /// Jobs without a reservation: they are done once written out.
    jobs: Vec<JobKey>,
    bytes: usize,
    /// Whether the stream was pending, so that the connection wrote out what it had.
    was_pending: bool,
}

impl UnflushedJobs {
    /// Takes the jobs that the connection has certainly written out, now that it polls again.
    fn take_flushed(&mut self) -> Vec<JobKey> {
        if !std::mem::take(&mut self.was_pending) && self.bytes < FLUSH_BYTES {
            return Vec::new();
        }
        std::mem::take(self).jobs
    }
}

/// Names `job_names` as the field of an error: a Lakh client knows no queues and kinds.
fn with_job_names(invalid: Invalid) -> Invalid {
    Invalid { field: "job_names".to_owned(), ..invalid }
}

/// The LightJQ jobs with these names, as far as the caller may have them. They are kinds in one queue.
fn lightjq_jobs(grant: &Grant, names: &[Name]) -> Vec<(Name, Name)> {
    let Ok(queue) = Name::new("queue", lightjq::QUEUE) else { return Vec::new() };
    let names = names.iter().filter(|name| grant.covers(&queue, name));
    names.map(|name| (queue.clone(), name.clone())).collect()
}

impl JoinedStream {
    pub(super) fn new(
        (doors, grant): (Doors, Grant),
        names: JobNames,
        worker: Name,
        reports: Streaming<JobResult>,
    ) -> Result<Self, Invalid> {
        let (queues, max) = (names.queues(), doors.engine().status().caps().fetch);
        if queues.len() > max {
            let why = format!("{} names, at most {max} are allowed", queues.len());
            return Err(Invalid::new(Code::CountRange, "job_names", why));
        }
        let mut fetch_template = Fetch {
            also: lightjq_jobs(&grant, &queues),
            queues,
            kinds: None,
            versions: KindVersions::default(),
            handled: None,
            n: 1,
            order: QueueOrder::Merged,
            worker,
            wait: FETCH_WAIT,
            within: None,
        };
        if grant.only().is_some() {
            // A job has the name of its queue; a restricted worker gets no others from it.
            fetch_template.kinds = Some(fetch_template.queues.clone());
            restrict_fetch(&grant, &mut fetch_template).map_err(with_job_names)?;
        }
        let (leases, engine) = (Arc::<SharedReservations>::default(), doors.engine().clone());
        let (stop_reports, stopped) = oneshot::channel();
        let names = Arc::new(names);
        let reader =
            ReportReader { engine, names: Arc::clone(&names), leases: Arc::clone(&leases) };
        let reports = tokio::spawn(reader.run(reports, stopped));
        let until = doors.clone();
        Ok(Self(Some(Box::new(JoinedWorker {
            doors,
            names,
            fetch_template,
            leases,
            reports: Some(reports),
            stop_reports,
            fetch: None,
            to_send: Vec::new().into_iter(),
            unflushed: UnflushedJobs::default(),
            handing_over: FuturesUnordered::new(),
            closing: Some(Box::pin(async move { until.closing().await })),
        }))))
    }

    fn end(&mut self) {
        let Some(join) = self.0.take() else { return };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(join.close());
        }
    }
}

impl Drop for JoinedStream {
    fn drop(&mut self) {
        self.end();
    }
}

impl Stream for JoinedStream {
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

impl JoinedWorker {
    /// The next job; `None`: the server is closing and no report is expected.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<lakh::Job, Status>>> {
        for key in self.unflushed.take_flushed() {
            self.hand_over(key);
        }
        while let Poll::Ready(Some((key, held))) = self.handing_over.poll_next_unpin(context) {
            self.leases.reservations().release(&key, held);
        }
        if let Some(reports) = &mut self.reports
            && let Poll::Ready(result) = reports.poll_unpin(context)
        {
            self.reports = None;
            if let Ok(Err(status)) = result {
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
        self.unflushed.was_pending = true;
        if let Some(closing) = &mut self.closing
            && closing.as_mut().poll(context).is_ready()
        {
            self.closing = None;
        }
        self.leases.register(context.waker());
        let is_settled = self.reports.is_none() || self.leases.reservations().is_settled();
        let is_over = self.closing.is_none() && is_settled;
        if is_over { Poll::Ready(None) } else { Poll::Pending }
    }

    /// The next fetched job that the worker still holds.
    fn next(&mut self) -> Option<lakh::Job> {
        loop {
            let job = self.to_send.next()?;
            let name = self.names.name_of(&job);
            let terms = self.leases.reservations().mark_sent(&job, name, Instant::now());
            let Some(terms) = terms else { continue };
            let message = to_lakh(&job, name);
            self.unflushed.bytes += message.encoded_len() + MESSAGE_HEADER_BYTES;
            if !terms.is_reserved() {
                self.unflushed.jobs.push(key(&job, name));
            }
            return Some(message);
        }
    }

    /// Marks a job without a reservation as done: the worker has it.
    fn hand_over(&mut self, key: JobKey) {
        let Some((held, _)) = self.leases.reservations().get(&key) else { return };
        let engine = self.doors.engine().clone();
        self.handing_over.push(Box::pin(async move {
            if let Err(error) = engine.deliveries().handed_over(held.id, held.delivery).await {
                tracing::warn!(job = %held.id, %error, "cannot mark a handed-over job as done");
            }
            (key, held)
        }));
    }

    /// Fetches jobs: first one, and twice as many each time a fetch is full. Few jobs are thus shared among waiting
    /// workers, and many are delivered fast.
    fn poll_fetch(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let engine = self.doors.engine();
        let fetch = match &mut self.fetch {
            Some(fetch) => fetch,
            None if self.fetch_template.queues.is_empty() => return Poll::Pending,
            None if self.doors.is_closing() || engine.lifecycle().is_stopping() => {
                return Poll::Pending;
            }
            None => {
                let wait = if self.fetch_template.n == 1 { FETCH_WAIT } else { Span::ZERO };
                let request = Fetch { wait, ..self.fetch_template.clone() };
                self.fetch.insert(PendingFetch::new(engine, request))
            }
        };
        let jobs = ready!(fetch.poll_unpin(context));
        self.fetch = None;
        let jobs = jobs?;
        self.fetch_template.n = match jobs.len() == self.fetch_template.n {
            true => (jobs.len() * 2).min(BUFFER).min(engine.status().caps().fetch),
            false => 1,
        };
        let now = Instant::now();
        for job in &jobs {
            self.leases.reservations().add(job, self.names.name_of(job), now);
        }
        self.to_send = jobs.into_iter();
        Poll::Ready(Ok(()))
    }

    /// Closes the stream. Received reports are applied, and the worker's jobs go to others at once. If the server is
    /// closing, jobs that were sent stay reserved instead, so that the worker can report them after the restart.
    async fn close(self: Box<Self>) {
        let Self { doors, names, leases, reports, stop_reports, fetch, mut handing_over, .. } =
            *self;
        let engine = doors.engine();
        let drain_reports = async {
            if let Some(mut reports) = reports
                && timeout(REPORT_GRACE, &mut reports).await.is_err()
            {
                drop(stop_reports);
                // The stream has ended, so an error cannot be reported.
                let _ = reports.await;
            }
        };
        // The pending fetch ends before jobs are returned; it could claim them otherwise.
        let fetch = fetch.map(PendingFetch::end);
        let ((), fetched) = tokio::join!(drain_reports, OptionFuture::from(fetch));
        while let Some((key, held)) = handing_over.next().await {
            leases.reservations().release(&key, held);
        }
        let now = Instant::now();
        if let Some(Ok(jobs)) = fetched {
            jobs.iter().for_each(|job| leases.reservations().add(job, names.name_of(job), now));
        }
        let (sent, unsent): (Vec<_>, Vec<_>) =
            leases.reservations().clear().into_iter().partition(|(_, terms)| terms.is_sent());
        let ends = doors.is_closing();
        let lost = sent.iter().filter(|(_, terms)| !(ends && terms.is_reserved()));
        let lost =
            engine.deliveries().lapse(lost.map(|(held, _)| (held.id, held.delivery)).collect());
        let unsent = unsent.iter().filter(|(_, terms)| !terms.has_expired(now));
        let unsent = unsent.map(|(held, _)| Finish {
            job: held.id.into(),
            delivery: Some(held.delivery),
            report: Outcome::Interrupted.into(),
        });
        let unsent = engine.deliveries().finish_all(unsent.collect());
        if let (Err(error), _) | (_, Err(error)) = tokio::join!(lost, unsent) {
            tracing::warn!(%error, "cannot return jobs of a disconnected worker; they wait for lease expiry");
        }
    }
}
