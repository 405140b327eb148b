//! One server process, as a push worker sees it.

use std::sync::Arc;

use crore_core::{Delivery, JobId, Time};
use crore_testkit::Error;
use crore_testkit::history::RecordedResponse;
use crore_testkit::history::response::RecordedDelivery;
use crore_wire::api::DeliveryId;
use crore_wire::{Format, Raw};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};

use super::QUEUE;
use super::response::WorkerCrash;
use super::worker::ChaosPushWorker;
use crate::context::HeldDelivery;
use crate::draft::name;

/// Accepts jobs while one server process runs.
#[derive(Debug)]
pub(super) struct PushWorkerSession {
    worker: Arc<ChaosPushWorker>,
    end: oneshot::Sender<()>,
    serving: Option<JoinHandle<()>>,
}

/// A posted job.
#[derive(Debug, Deserialize)]
struct PostedJob {
    job_id: String,
    argument: Raw,
    delivery: DeliveryId,
    retry_count: u32,
}

impl PushWorkerSession {
    pub(super) fn begin(worker: &Arc<ChaosPushWorker>) -> Result<Self, Error> {
        let failed = |error| Error::Failed(format!("a push worker cannot listen: {error}"));
        let (end, ended) = oneshot::channel();
        worker.open_fetches();
        let listener = worker.inner().listener.as_ref().map(std::net::TcpListener::try_clone);
        let serving = match listener {
            None => None,
            Some(listener) => {
                let listener = listener.and_then(TcpListener::from_std).map_err(failed)?;
                Some(tokio::spawn(serve(Arc::clone(worker), listener, ended)))
            }
        };
        Ok(Self { worker: Arc::clone(worker), end, serving })
    }

    /// Ends the session; the server has exited, and what it has sent is still received.
    pub(super) async fn end(self) {
        let Self { worker, end, serving } = self;
        // A worker that does not listen has no receiver.
        let _ = end.send(());
        if let Some(serving) = serving
            && let Err(error) = serving.await
        {
            worker.context.add_anomaly(format!("a push worker panicked: {error}"));
        }
        worker.close_fetches();
    }
}

async fn serve(
    worker: Arc<ChaosPushWorker>,
    listener: TcpListener,
    mut ended: oneshot::Receiver<()>,
) {
    let mut calls = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                if let Ok((stream, _)) = accepted {
                    calls.spawn(serve_connection(Arc::clone(&worker), stream));
                }
            }
            _ = &mut ended => break,
        }
    }
    // Connections that were made before the server ended are still in the backlog.
    while let Some(stream) = next_in_backlog(&worker) {
        calls.spawn(serve_connection(Arc::clone(&worker), stream));
    }
    while calls.join_next().await.is_some() {}
}

fn next_in_backlog(worker: &ChaosPushWorker) -> Option<TcpStream> {
    let accepted = worker.inner().listener.as_ref()?.accept().ok()?;
    accepted.0.set_nonblocking(true).ok()?;
    TcpStream::from_std(accepted.0).ok()
}

async fn serve_connection(worker: Arc<ChaosPushWorker>, stream: TcpStream) {
    let service = service_fn(|request| receive_job(&worker, request));
    // The result does not matter: a crashing worker and a killed server both end it with an error.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn receive_job(
    worker: &Arc<ChaosPushWorker>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, WorkerCrash> {
    let path = request.uri().path().to_owned();
    let registration = path.trim_start_matches('/').split('/').next().and_then(|n| n.parse().ok());
    let body = request.into_body().collect().await.map_err(|_| WorkerCrash)?.to_bytes();
    let held = match record_delivery(worker, &body) {
        Ok(held) => held,
        Err(what) => {
            worker.context.add_anomaly(format!("invalid job posted to `{path}`: {what}"));
            return Err(WorkerCrash);
        }
    };
    worker.respond(registration.unwrap_or(usize::MAX), held).await
}

/// Records a delivery.
fn record_delivery(worker: &ChaosPushWorker, body: &[u8]) -> Result<HeldDelivery, String> {
    let job: PostedJob = Format::Msgpack.decode(body).map_err(|invalid| format!("{invalid:?}"))?;
    let id: u64 = job.job_id.parse().map_err(|_| format!("invalid job id `{}`", job.job_id))?;
    let (id, delivery) = (JobId(id), Delivery::from(job.delivery));
    let argument = job.argument.bytes();
    let (payload, known) = worker
        .context
        .job_by_argument(argument)
        .ok_or_else(|| format!("job {id} was never pushed"))?;
    let granted = RecordedDelivery {
        id,
        queue: name(QUEUE),
        attempt: job.retry_count + 1,
        delivery,
        lease: known.lease,
        payload,
        priority: known.priority,
        // It is not sent. These jobs are not judged by their order in the queue.
        due: Time::MAX,
    };
    worker
        .context
        .record_answer(worker.next_open_fetch(), RecordedResponse::Fetched(vec![granted]));
    Ok(HeldDelivery { id, delivery, lease: known.lease })
}
