//! Pushes that are made at the same time travel together, on one stream.

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
use crate::backoff::Backoff;
use crate::client::{Line, taken};

/// The most jobs of one batch.
const BATCH_JOBS: usize = 1000;
/// A batch is sent when its payloads have so many bytes.
const BATCH_BYTES: usize = 4 << 20;
/// How many pushes may wait to be sent.
const WAITING: usize = 10_000;

type Answer = oneshot::Sender<Result<JobId, Error>>;

/// A push that waits to be sent.
#[derive(Debug)]
struct Push {
    job: v1::NewJob,
    answer: Answer,
}

/// Gathers pushes.
#[derive(Debug)]
pub(crate) struct Pusher(mpsc::Sender<Push>);

/// Those who wait for an answer, batch by batch, in the order in which they were sent.
type Asked = Arc<Mutex<VecDeque<Vec<Answer>>>>;

impl Pusher {
    pub(crate) fn start(line: Line) -> Self {
        let (pushes, to_send) = mpsc::channel(WAITING);
        tokio::spawn(run(JobsClient::new(line), to_send));
        Self(pushes)
    }

    pub(crate) async fn push(&self, job: v1::NewJob) -> Result<JobId, Error> {
        let (answer, answered) = oneshot::channel();
        self.0.send(Push { job, answer }).await.map_err(|_| Error::Unknown)?;
        answered.await.unwrap_or(Err(Error::Unknown))
    }
}

/// One stream after the other, as long as there is something to push.
async fn run(mut client: JobsClient<Line>, mut pushes: mpsc::Receiver<Push>) {
    let mut backoff = Backoff::new();
    // The stream is only opened for somebody.
    while let Some(first) = pushes.recv().await {
        let asked = Asked::default();
        let (back, given_back) = oneshot::channel();
        let gather = Gather {
            first: Some(first),
            pushes: Some(pushes),
            asked: Arc::clone(&asked),
            back: Some(back),
        };
        let ended = match client.push_stream(gather).await {
            Ok(answers) => hear(answers.into_inner(), &asked, &mut backoff).await,
            Err(status) => Err(status.into()),
        };
        // Whoever was sent and not answered does not know.
        let error = ended.err().unwrap_or(Error::Unknown);
        let left = std::mem::take(&mut *lock(&asked));
        for answer in left.into_iter().flatten() {
            let _ = answer.send(Err(unknown(&error)));
        }
        let Ok(given_back) = given_back.await else { return };
        pushes = given_back;
        tokio::time::sleep_until(tokio::time::Instant::now() + backoff.next()).await;
    }
}

/// A refusal of the whole stream holds for all; a broken connection leaves them in doubt.
fn unknown(error: &Error) -> Error {
    match error {
        Error::Refused(problem) => Error::Refused(problem.clone()),
        Error::Unavailable(_) | Error::Unknown | Error::Malformed(_) => Error::Unknown,
    }
}

fn lock(asked: &Asked) -> std::sync::MutexGuard<'_, VecDeque<Vec<Answer>>> {
    asked.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn hear(
    mut answers: Streaming<v1::PushResponse>,
    asked: &Asked,
    backoff: &mut Backoff,
) -> Result<(), Error> {
    while let Some(answer) = answers.message().await? {
        backoff.reset();
        let Some(waiting) = lock(asked).pop_front() else { return Err(Error::Unknown) };
        for (answer, pushed) in waiting.into_iter().zip(answer.jobs) {
            // Whoever does not wait any more is not told.
            let _ = answer.send(taken(pushed));
        }
    }
    Ok(())
}

/// The pushes as a stream of batches: whatever waits goes into one. Gives the rest back when it is dropped.
struct Gather {
    first: Option<Push>,
    pushes: Option<mpsc::Receiver<Push>>,
    asked: Asked,
    back: Option<oneshot::Sender<mpsc::Receiver<Push>>>,
}

impl Stream for Gather {
    type Item = v1::PushRequest;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<v1::PushRequest>> {
        let mut batch = Vec::new();
        let (mut answers, mut bytes) = (Vec::new(), 0);
        while batch.len() < BATCH_JOBS && bytes < BATCH_BYTES {
            let next = match self.first.take() {
                Some(first) => Some(first),
                None => match self.pushes.as_mut().map(|pushes| pushes.poll_recv(context)) {
                    Some(Poll::Ready(next)) => next,
                    Some(Poll::Pending) if batch.is_empty() => return Poll::Pending,
                    Some(Poll::Pending) | None => break,
                },
            };
            let Some(Push { job, answer }) = next else {
                // There is nobody left who could push.
                if batch.is_empty() {
                    return Poll::Ready(None);
                }
                break;
            };
            bytes += job.payload.as_ref().map_or(0, bytes::Bytes::len);
            batch.push(job);
            answers.push(answer);
        }
        lock(&self.asked).push_back(answers);
        Poll::Ready(Some(v1::PushRequest { jobs: batch, ..v1::PushRequest::default() }))
    }
}

impl Drop for Gather {
    fn drop(&mut self) {
        if let (Some(pushes), Some(back)) = (self.pushes.take(), self.back.take()) {
            let _ = back.send(pushes);
        }
    }
}
