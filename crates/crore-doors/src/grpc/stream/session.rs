//! One stream, from its hello to its end.
//!
//! It is polled by the connection that it belongs to, or by the worker itself if that sits in the same process:
//! whatever is ready goes into one message, so that a busy stream is woken once for many jobs.

use std::collections::HashSet;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crore::finish::Finish;
use crore::{Engine, Error};
use crore_api::Fault;
use crore_core::machine::Outcome;
use crore_core::{Code, Job};
use crore_wire::grpc::v1;
use futures_util::stream::{Stream, StreamExt};
use tokio::time::{Instant, Sleep, sleep_until};
use tonic::Status;

use super::super::fault::{failed, invalid, missing};
use super::super::work::delivered;
use super::at_work::Work;
use super::enter::{Entered, enter};
use super::hello::Hello;
use crate::Doors;

/// How long a stream may take to say hello.
const HELLO_TIME: Duration = Duration::from_secs(10);
/// A message is sent when it has about so many bytes: every client takes four times as many.
const MESSAGE_BYTES: usize = 1 << 20;

/// What a worker says, or why it could not be understood.
type Said = Result<v1::WorkerSays, Status>;

pub(super) type Doing<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The stream of a worker, as its answers.
pub(crate) struct Session<S> {
    doors: Doors,
    /// `None`: the worker will say nothing more.
    says: Option<S>,
    stage: Stage,
    /// Jobs that have yet to be sent.
    to_send: std::vec::IntoIter<Job>,
    /// Why nothing more that the worker says can be understood; told when its reports are answered.
    broken: Option<Status>,
}

enum Stage {
    /// It has not said hello.
    New(Pin<Box<Sleep>>),
    /// It is asked which of its deliveries it keeps.
    Entering(Doing<Result<Entered, Error>>),
    At(Box<Work>),
    Over,
}

impl<S: Stream<Item = Said> + Unpin> Session<S> {
    pub(crate) fn new(doors: Doors, says: S) -> Self {
        let stage = Stage::New(Box::pin(sleep_until(Instant::now() + HELLO_TIME)));
        Self { doors, says: Some(says), stage, to_send: Vec::new().into_iter(), broken: None }
    }

    /// What the worker says next, if it has said anything.
    fn poll_says(&mut self, context: &mut Context<'_>) -> Poll<Option<Said>> {
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
        if let Err(status) = self.read(context) {
            return Poll::Ready(Some(Err(status)));
        }
        let Stage::At(work) = &mut self.stage else { return Poll::Ready(None) };
        if work.desk.is_replaced() {
            let why = "the same incarnation has another stream";
            return Poll::Ready(Some(Err(Status::aborted(why))));
        }
        let had_room = work.has_room();
        // Notes before reports: those about a job that is over do not count.
        while let Poll::Ready(Some(())) = work.aside.poll_next_unpin(context) {}
        while let Poll::Ready(Some(finished)) = work.reports.poll_next(context) {
            match finished {
                Ok(finished) => says.finished.extend(finished),
                Err(status) => return Poll::Ready(Some(Err(status))),
            }
        }
        if !had_room && work.has_room() {
            // What was not read for want of it wakes nobody any more.
            context.waker().wake_by_ref();
        }
        if let Err(status) =
            work.poll_fetch(&self.doors, &mut self.to_send, &mut says.lost, context)
        {
            return Poll::Ready(Some(Err(status)));
        }
        // The ends of leases before jobs, so that a message never gives a delivery that is over.
        work.poll_renewal(&self.doors, &mut says, context);
        work.hear(&mut says, context);
        if withdraw(&mut self.to_send, &mut says.lost) > 0 {
            // There are slots for others.
            context.waker().wake_by_ref();
        }
        let (mut bytes, mut free) = (0, Vec::new());
        while bytes < MESSAGE_BYTES
            && let Some(job) = self.to_send.next()
        {
            bytes += job.spec.payload.bytes.len() + 128;
            let mut told = delivered(&self.doors, &job);
            if work.ask.handled.is_some() {
                told.handler = work.told.handled(&self.doors, &job);
            }
            says.jobs.push(told);
            if job.spec.lease.is_none() {
                free.push(job);
            }
        }
        work.hand_over(&self.doors, free, context);
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
        if is_over { Poll::Ready(self.broken.take().map(Err)) } else { Poll::Pending }
    }

    /// Reads all that the worker has said, as long as there is room for it.
    fn read(&mut self, context: &mut Context<'_>) -> Result<(), Status> {
        loop {
            match &self.stage {
                Stage::At(work) if work.has_room() => {}
                _ => return Ok(()),
            }
            let Poll::Ready(said) = self.poll_says(context) else { return Ok(()) };
            let Some(said) = said else { return Ok(()) };
            let said = match said {
                Ok(said) => said,
                Err(status) => {
                    self.broken = Some(status);
                    return Ok(());
                }
            };
            if let Stage::At(work) = &mut self.stage {
                work.take(&self.doors, said)?;
            }
        }
    }
}

impl<S: Stream<Item = Said> + Unpin> Stream for Session<S> {
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

impl<S> Session<S> {
    /// A worker was let in.
    fn begin(&mut self, entered: Entered) -> v1::ServerSays {
        let Entered { hello, desk, welcome, lost } = entered;
        self.stage = Stage::At(Box::new(Work::new(&self.doors, hello, desk)));
        v1::ServerSays { welcome: Some(welcome), lost, ..v1::ServerSays::default() }
    }

    /// The stream is over: what the worker still has is given to others, unless it comes back in time.
    fn end(&mut self) {
        let stage = std::mem::replace(&mut self.stage, Stage::Over);
        let (engine, sessions) = (self.doors.engine().clone(), self.doors.sessions().clone());
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        match stage {
            Stage::New(_) | Stage::Over => {}
            Stage::Entering(entering) => drop(runtime.spawn(async move {
                if let Ok(Entered { hello, desk, .. }) = entering.await {
                    sessions.leave(engine, hello.incarnation, desk);
                }
            })),
            Stage::At(work) => {
                let mut unsent: Vec<Job> = std::mem::take(&mut self.to_send).collect();
                for job in &unsent {
                    work.desk.drop_one(job.id, job.live.delivery);
                }
                drop(runtime.spawn(async move {
                    let Work { incarnation, desk, fetching, mut reports, mut aside, .. } = *work;
                    if let Some(fetching) = fetching {
                        unsent.extend(fetching.end().await.unwrap_or_default());
                    }
                    hand_back(&engine, &unsent).await;
                    // What it has said counts, though it will not hear of it.
                    while aside.next().await.is_some() {}
                    let mut next = async || poll_fn(|context| reports.poll_next(context)).await;
                    while next().await.is_some() {}
                    sessions.leave(engine, incarnation, desk);
                }));
            }
        }
    }
}

impl<S> Drop for Session<S> {
    fn drop(&mut self) {
        self.end();
    }
}

/// Withdraws jobs whose deliveries are lost before they were sent, and gives their number: the worker is neither given
/// such a job nor told that it is lost. A worker that was told of both would keep the job, and the desk would not: the
/// slot would be given twice.
fn withdraw(to_send: &mut std::vec::IntoIter<Job>, lost: &mut Vec<v1::Held>) -> usize {
    let unsent = to_send.len();
    if unsent == 0 || lost.is_empty() {
        return 0;
    }
    let held = |job: &Job| (job.id.0, job.live.delivery.0);
    let is_lost: HashSet<_> = lost.iter().map(|lost| (lost.id, lost.delivery)).collect();
    let (gone, left): (Vec<Job>, Vec<Job>) =
        std::mem::take(to_send).partition(|job| is_lost.contains(&held(job)));
    let gone: HashSet<_> = gone.iter().map(held).collect();
    lost.retain(|lost| !gone.contains(&(lost.id, lost.delivery)));
    *to_send = left.into_iter();
    unsent - to_send.len()
}

/// Gives jobs to others that were taken for a worker and never sent to it: it has not so much as seen them.
async fn hand_back(engine: &Engine, unsent: &[Job]) {
    let finishes = unsent.iter().map(|job| Finish::of(job, Outcome::Interrupted)).collect();
    if let Err(error) = engine.finish_all(finishes).await {
        tracing::warn!(%error, "jobs that were not sent to their worker wait for the end of their leases");
    }
}
