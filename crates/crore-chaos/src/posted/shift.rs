//! One life of the server, as one of its workers sees it.

use std::sync::Arc;

use crore_core::{Delivery, JobId, Time};
use crore_testkit::Error;
use crore_testkit::history::Answer;
use crore_testkit::history::answer::Granted;
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
use super::deed::Crash;
use super::place::Worker;
use crate::desk::Held;
use crate::draft::name;

/// One life of the server.
#[derive(Debug)]
pub(super) struct Shift {
    worker: Arc<Worker>,
    over: oneshot::Sender<()>,
    serving: Option<JoinHandle<()>>,
}

/// A job as it is posted.
#[derive(Debug, Deserialize)]
struct Given {
    job_id: String,
    argument: Raw,
    delivery: DeliveryId,
    retry_count: u32,
}

impl Shift {
    pub(super) fn begin(worker: &Arc<Worker>) -> Result<Self, Error> {
        let failed = |error| Error::Failed(format!("a push worker cannot listen: {error}"));
        let (over, ended) = oneshot::channel();
        worker.ask();
        let listener = worker.inner().listener.as_ref().map(std::net::TcpListener::try_clone);
        let serving = match listener {
            None => None,
            Some(listener) => {
                let listener = listener.and_then(TcpListener::from_std).map_err(failed)?;
                Some(tokio::spawn(serve(Arc::clone(worker), listener, ended)))
            }
        };
        Ok(Self { worker: Arc::clone(worker), over, serving })
    }

    /// The server is gone: what it has sent is heard to its end.
    pub(super) async fn end(self) {
        let Self { worker, over, serving } = self;
        // A worker that never was there has nobody to tell.
        let _ = over.send(());
        if let Some(serving) = serving
            && let Err(error) = serving.await
        {
            worker.desk.wrong(format!("a push worker fell over: {error}"));
        }
        worker.ask_no_more();
    }
}

async fn serve(worker: Arc<Worker>, listener: TcpListener, mut ended: oneshot::Receiver<()>) {
    let mut calls = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                if let Ok((stream, _)) = accepted {
                    calls.spawn(hear(Arc::clone(&worker), stream));
                }
            }
            _ = &mut ended => break,
        }
    }
    // Who has called before its end stands in line still.
    while let Some(stream) = in_line(&worker) {
        calls.spawn(hear(Arc::clone(&worker), stream));
    }
    while calls.join_next().await.is_some() {}
}

fn in_line(worker: &Worker) -> Option<TcpStream> {
    let accepted = worker.inner().listener.as_ref()?.accept().ok()?;
    accepted.0.set_nonblocking(true).ok()?;
    TcpStream::from_std(accepted.0).ok()
}

async fn hear(worker: Arc<Worker>, stream: TcpStream) {
    let service = service_fn(|request| take(&worker, request));
    // However it ends: a worker that crashes ends it so, and so does a server that is killed.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn take(
    worker: &Arc<Worker>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Crash> {
    let path = request.uri().path().to_owned();
    let registration = path.trim_start_matches('/').split('/').next().and_then(|n| n.parse().ok());
    let body = request.into_body().collect().await.map_err(|_| Crash)?.to_bytes();
    let held = match given(worker, &body) {
        Ok(held) => held,
        Err(what) => {
            worker.desk.wrong(format!("what was posted to {path} is wrong: {what}"));
            return Err(Crash);
        }
    };
    worker.deal(registration.unwrap_or(usize::MAX), held).await
}

/// Writes down what was given.
fn given(worker: &Worker, body: &[u8]) -> Result<Held, String> {
    let job: Given = Format::Msgpack.decode(body).map_err(|invalid| format!("{invalid:?}"))?;
    let id: u64 = job.job_id.parse().map_err(|_| format!("`{}` is no id", job.job_id))?;
    let (id, delivery) = (JobId(id), Delivery::from(job.delivery));
    let argument = job.argument.bytes();
    let (payload, known) =
        worker.desk.posted(argument).ok_or_else(|| format!("job {id} is nobody's"))?;
    let granted = Granted {
        id,
        queue: name(QUEUE),
        attempt: job.retry_count + 1,
        delivery,
        lease: known.lease,
        payload,
        priority: known.priority,
        // It is not said. None of these jobs is judged by its place in the queue.
        due: Time::MAX,
    };
    worker.desk.answered(worker.answered(), Answer::Fetched(vec![granted]));
    Ok(Held { id, delivery, lease: known.lease })
}
