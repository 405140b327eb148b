//! LightJQ: one job per call, and a push worker that the server calls for each job. The worker's response is its
//! report, which the server does not acknowledge.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use crore_wire::Format;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep_until};

use super::super::load::{BenchProducer, BenchWorker};
use super::super::payload::Template;

/// Queue of all LightJQ jobs.
pub(super) const QUEUE: &str = "lightjq";
const MSGPACK: &str = "application/msgpack";
/// Time in which the server may still call a worker that has unregistered.
const LAST_CALLS: Duration = Duration::from_millis(300);

pub(super) async fn push(producer: &mut BenchProducer) -> anyhow::Result<()> {
    let load = producer.load.clone();
    let template = template(&load.name, load.plan.payload);
    let mut connection = load.target.http(MSGPACK).await?;
    load.wait_for_start().await;
    while let Some(batch) = load.source.next().await {
        let mut body = Vec::with_capacity(template.len());
        template.write(batch.numbers.start, batch.begun, &mut body);
        connection.post("/job", Bytes::from(body)).await?;
        producer.pushed(&batch);
    }
    Ok(())
}

#[derive(Debug, Serialize, Deserialize)]
struct Argument {
    text: String,
}

/// A complete job in MessagePack whose argument is `size` bytes long.
fn template(name: &str, size: usize) -> Template {
    #[derive(Serialize)]
    struct NewJob<'a> {
        name: &'a str,
        argument: Argument,
    }
    let encoded = |text: usize| {
        let argument = Argument { text: "x".repeat(text) };
        let around = Format::Msgpack.encode(&argument).len() - text;
        (around, Format::Msgpack.encode(&NewJob { name, argument }))
    };
    // The length of MessagePack's framing depends on the length of the text.
    let (around, _) = encoded(size);
    let text = size - around;
    let (_, whole) = encoded(text);
    Template::new(&whole[..whole.len() - text], b"", whole.len())
}

/// A job as the server sends it to a worker.
#[derive(Debug, Deserialize)]
struct CalledJob {
    name: String,
    argument: Argument,
}

#[derive(Debug, Serialize)]
struct WorkerRegistration {
    name: String,
    max_jobs: u32,
    url: String,
}

#[derive(Debug, Deserialize)]
struct RegistrationResponse {
    worker_id: String,
}

pub(super) async fn work(worker: &mut BenchWorker) -> anyhow::Result<()> {
    let load = worker.load.clone();
    let listener = TcpListener::bind((load.target.own_address().await?, 0)).await?;
    let url = format!("http://{}", listener.local_addr()?);
    let about = WorkerRegistration { name: worker.name(), max_jobs: load.plan.slots, url };
    let mut connection = load.target.http(MSGPACK).await?;
    let answer = connection.post("/worker", Format::Msgpack.encode(&about).into()).await?;
    let RegistrationResponse { worker_id } = Format::Json.decode(&answer)?;
    load.ready.add_permits(1);
    let fresh = BenchWorker::new(&load, worker.index);
    let shared = Arc::new(Mutex::new(std::mem::replace(worker, fresh)));
    accept(&listener, &shared, load.stop.cancelled()).await?;
    // The first connection may have been closed as idle.
    let connection = load.target.http(MSGPACK).await?;
    let mut connection = connection.with("worker-id", &worker_id)?;
    connection.call(Method::DELETE, "/worker", Bytes::new()).await?;
    accept(&listener, &shared, sleep_until(Instant::now() + LAST_CALLS)).await?;
    std::mem::swap(worker, &mut shared.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(())
}

/// Serves calls until `until` completes.
async fn accept(
    listener: &TcpListener,
    worker: &Arc<Mutex<BenchWorker>>,
    until: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let mut until = std::pin::pin!(until);
    loop {
        let (stream, _): (_, SocketAddr) = tokio::select! {
            biased;
            accepted = listener.accept() => accepted.context("cannot accept calls")?,
            () = &mut until => return Ok(()),
        };
        // Otherwise Nagle's algorithm may delay a response.
        let _ = stream.set_nodelay(true);
        let worker = Arc::clone(worker);
        tokio::spawn(async move {
            let answer = service_fn(|request| respond(request, &worker));
            // The server retries a call that breaks off.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
        });
    }
}

/// Responds with success; to a job of another run with 404.
async fn respond(
    request: Request<Incoming>,
    worker: &Mutex<BenchWorker>,
) -> Result<Response<Empty<Bytes>>, hyper::Error> {
    let body = request.into_body().collect().await?.to_bytes();
    let job = Format::Msgpack.decode::<CalledJob>(&body).ok();
    let mut worker = worker.lock().unwrap_or_else(PoisonError::into_inner);
    let job = job.filter(|job| job.name == worker.load.name);
    let mut response = Response::new(Empty::new());
    *response.status_mut() = match job {
        Some(job) => {
            let mut held_jobs = Vec::with_capacity(1);
            worker.delivered([Some(job.argument.text.as_bytes())], &mut held_jobs);
            worker.reported(held_jobs.into_iter().flatten());
            StatusCode::NO_CONTENT
        }
        None => StatusCode::NOT_FOUND,
    };
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_has_the_requested_size_for_every_length_encoding() {
        for size in [48, 250, 255, 260, 300, 65_540, 70_000] {
            let template = template("bench", size);
            let mut body = Vec::new();
            template.write(7, 9, &mut body);
            #[derive(Deserialize)]
            struct PushedJob {
                name: String,
                argument: Argument,
            }
            let job: PushedJob = Format::Msgpack.decode(&body).expect("a job");
            assert_eq!(job.name, "bench");
            assert!(job.argument.text.starts_with("00000000000000070000000000000009"));
            let stored = Format::Msgpack.encode(&job.argument).len();
            assert!(stored.abs_diff(size) <= 2, "{stored} bytes instead of {size}");
        }
    }
}
