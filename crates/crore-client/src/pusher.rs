//! Batches concurrent pushes on one gRPC stream.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use crore_core::JobId;
use crore_wire::grpc::v1;
use crore_wire::grpc::v1::jobs_client::JobsClient;
use futures_util::Stream;
use tokio::sync::{mpsc, oneshot};
use tonic::Streaming;

use crate::Error;
use crate::backoff::ReconnectBackoff;
use crate::client::{AuthenticatedChannel, pushed_id};

/// Maximum jobs of a batch.
const BATCH_JOBS: usize = 1000;
/// A batch is sent once its payloads reach this many bytes.
const BATCH_BYTES: usize = 4 << 20;
/// Maximum pushes waiting to be sent.
const QUEUE_CAPACITY: usize = 10_000;

type PushReply = oneshot::Sender<Result<JobId, Error>>;

/// A push that waits to be sent.
#[derive(Debug)]
struct QueuedPush {
    job: v1::NewJob,
    reply: PushReply,
}

/// Handle to the task that sends pushes.
#[derive(Debug)]
pub(crate) struct Pusher(mpsc::Sender<QueuedPush>);

/// Callers waiting for a response, by batch, in the order of sending.
type UnansweredPushes = Arc<Mutex<VecDeque<Vec<PushReply>>>>;

impl Pusher {
    pub(crate) fn start(channel: AuthenticatedChannel) -> Self {
        let (pushes, to_send) = mpsc::channel(QUEUE_CAPACITY);
        tokio::spawn(run(JobsClient::new(channel), to_send));
        Self(pushes)
    }

    pub(crate) async fn push(&self, job: v1::NewJob) -> Result<JobId, Error> {
        let (reply, response) = oneshot::channel();
        self.0.send(QueuedPush { job, reply }).await.map_err(|_| Error::Unknown)?;
        response.await.unwrap_or(Err(Error::Unknown))
    }
}

/// Runs one push stream after another, as long as a client exists.
async fn run(mut client: JobsClient<AuthenticatedChannel>, mut pushes: mpsc::Receiver<QueuedPush>) {
    let mut backoff = ReconnectBackoff::new();
    // A stream is only opened once there is a push.
    while let Some(first) = pushes.recv().await {
        let unanswered = UnansweredPushes::default();
        let (return_pushes, returned) = oneshot::channel();
        let batches = PushBatches {
            first: Some(first),
            pushes: Some(pushes),
            unanswered: Arc::clone(&unanswered),
            return_pushes: Some(return_pushes),
        };
        let ended = match client.push_stream(batches).await {
            Ok(responses) => {
                read_responses(responses.into_inner(), &unanswered, &mut backoff).await
            }
            Err(status) => Err(status.into()),
        };
        // Pushes that were sent and not answered may have been stored.
        let error = ended.err().unwrap_or(Error::Unknown);
        let left = std::mem::take(&mut *lock(&unanswered));
        for reply in left.into_iter().flatten() {
            let _ = reply.send(Err(error_for_unanswered(&error)));
        }
        let Ok(returned) = returned.await else { return };
        pushes = returned;
        tokio::time::sleep_until(tokio::time::Instant::now() + backoff.next()).await;
    }
}

/// The error for unanswered pushes: a refusal of the stream applies to all of them; after a broken connection it is
/// unknown whether they were stored.
fn error_for_unanswered(error: &Error) -> Error {
    match error {
        Error::Refused(problem) => Error::Refused(problem.clone()),
        Error::Unavailable(_) | Error::Unknown | Error::Malformed(_) => Error::Unknown,
    }
}

fn lock(unanswered: &UnansweredPushes) -> std::sync::MutexGuard<'_, VecDeque<Vec<PushReply>>> {
    unanswered.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn read_responses(
    mut responses: Streaming<v1::PushResponse>,
    unanswered: &UnansweredPushes,
    backoff: &mut ReconnectBackoff,
) -> Result<(), Error> {
    while let Some(response) = responses.message().await? {
        backoff.reset();
        let Some(replies) = lock(unanswered).pop_front() else { return Err(Error::Unknown) };
        for (reply, pushed) in replies.into_iter().zip(response.jobs) {
            // The caller may have stopped waiting.
            let _ = reply.send(pushed_id(pushed));
        }
    }
    Ok(())
}

/// The pushes as a stream of batches: each takes all waiting pushes, up to the maximum size. On drop, the receiver is
/// returned for the next stream.
struct PushBatches {
    first: Option<QueuedPush>,
    pushes: Option<mpsc::Receiver<QueuedPush>>,
    unanswered: UnansweredPushes,
    return_pushes: Option<oneshot::Sender<mpsc::Receiver<QueuedPush>>>,
}

impl Stream for PushBatches {
    type Item = v1::PushRequest;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<v1::PushRequest>> {
        let mut batch = Vec::new();
        let (mut replies, mut bytes) = (Vec::new(), 0);
        while batch.len() < BATCH_JOBS && bytes < BATCH_BYTES {
            let next = match self.first.take() {
                Some(first) => Some(first),
                None => match self.pushes.as_mut().map(|pushes| pushes.poll_recv(context)) {
                    Some(Poll::Ready(next)) => next,
                    Some(Poll::Pending) if batch.is_empty() => return Poll::Pending,
                    Some(Poll::Pending) | None => break,
                },
            };
            let Some(QueuedPush { job, reply }) = next else {
                // All clients are dropped.
                if batch.is_empty() {
                    return Poll::Ready(None);
                }
                break;
            };
            bytes += job.payload.as_ref().map_or(0, bytes::Bytes::len);
            batch.push(job);
            replies.push(reply);
        }
        lock(&self.unanswered).push_back(replies);
        Poll::Ready(Some(v1::PushRequest { jobs: batch, ..v1::PushRequest::default() }))
    }
}

impl Drop for PushBatches {
    fn drop(&mut self) {
        if let (Some(pushes), Some(back)) = (self.pushes.take(), self.return_pushes.take()) {
            let _ = back.send(pushes);
        }
    }
}
