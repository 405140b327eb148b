//! LightJQ: one job a call, and a push worker, whom the server calls for each job. It answers with its report, to which
//! the server has nothing to say.

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

use super::super::load::{Producer, Worker};
use super::super::payload::Template;

/// Where all jobs of this door wait.
pub(super) const QUEUE: &str = "lightjq";
const MSGPACK: &str = "application/msgpack";
/// How long a worker that has left may still be called.
const LAST_CALLS: Duration = Duration::from_millis(300);

pub(super) async fn push(producer: &mut Producer) -> anyhow::Result<()> {
    let load = producer.load.clone();
    let template = template(&load.name, load.plan.payload);
    let mut connection = load.line.http(MSGPACK).await?;
    load.until_all_are_ready().await;
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

/// A whole job in MessagePack, whose argument takes up so many bytes.
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
    // How much stands around a text depends on its length.
    let (around, _) = encoded(size);
    let text = size - around;
    let (_, whole) = encoded(text);
    Template::new(&whole[..whole.len() - text], b"", whole.len())
}

/// A job as a worker is given it.
#[derive(Debug, Deserialize)]
struct WorkerJob {
    name: String,
    argument: Argument,
}

#[derive(Debug, Serialize)]
struct NewWorker {
    name: String,
    max_jobs: u32,
    url: String,
}

#[derive(Debug, Deserialize)]
struct Registered {
    worker_id: String,
}

pub(super) async fn work(worker: &mut Worker) -> anyhow::Result<()> {
    let load = worker.load.clone();
    let listener = TcpListener::bind((load.line.own_address().await?, 0)).await?;
    let url = format!("http://{}", listener.local_addr()?);
    let about = NewWorker { name: worker.name(), max_jobs: load.plan.slots, url };
    let mut connection = load.line.http(MSGPACK).await?;
    let answer = connection.post("/worker", Format::Msgpack.encode(&about).into()).await?;
    let Registered { worker_id } = Format::Json.decode(&answer)?;
    load.ready.add_permits(1);
    let fresh = Worker::new(&load, worker.index);
    let shared = Arc::new(Mutex::new(std::mem::replace(worker, fresh)));
    accept(&listener, &shared, load.stop.cancelled()).await?;
    // The connection may have been idle for too long.
    let connection = load.line.http(MSGPACK).await?;
    let mut connection = connection.with("worker-id", &worker_id)?;
    connection.call(Method::DELETE, "/worker", Bytes::new()).await?;
    accept(&listener, &shared, sleep_until(Instant::now() + LAST_CALLS)).await?;
    std::mem::swap(worker, &mut shared.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(())
}

/// Takes calls until it is time to stop.
async fn accept(
    listener: &TcpListener,
    worker: &Arc<Mutex<Worker>>,
    until: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let mut until = std::pin::pin!(until);
    loop {
        let (stream, _): (_, SocketAddr) = tokio::select! {
            biased;
            accepted = listener.accept() => accepted.context("calls cannot be taken")?,
            () = &mut until => return Ok(()),
        };
        // Without it an answer may wait for an acknowledgement.
        let _ = stream.set_nodelay(true);
        let worker = Arc::clone(worker);
        tokio::spawn(async move {
            let answer = service_fn(|request| answer(request, &worker));
            // A call that breaks off is one that the server will repeat.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
        });
    }
}

/// Answers a call with the report that all went well; other jobs than ours are not known.
async fn answer(
    request: Request<Incoming>,
    worker: &Mutex<Worker>,
) -> Result<Response<Empty<Bytes>>, hyper::Error> {
    let body = request.into_body().collect().await?.to_bytes();
    let job = Format::Msgpack.decode::<WorkerJob>(&body).ok();
    let mut worker = worker.lock().unwrap_or_else(PoisonError::into_inner);
    let job = job.filter(|job| job.name == worker.load.name);
    let mut response = Response::new(Empty::new());
    *response.status_mut() = match job {
        Some(job) => {
            let mut in_hand = Vec::with_capacity(1);
            worker.handed([Some(job.argument.text.as_bytes())], &mut in_hand);
            worker.reported(in_hand.into_iter().flatten());
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
    fn a_job_is_as_large_as_asked_whatever_its_length_is_written_with() {
        for size in [48, 250, 255, 260, 300, 65_540, 70_000] {
            let template = template("bench", size);
            let mut body = Vec::new();
            template.write(7, 9, &mut body);
            #[derive(Deserialize)]
            struct Said {
                name: String,
                argument: Argument,
            }
            let said: Said = Format::Msgpack.decode(&body).expect("a job");
            assert_eq!(said.name, "bench");
            assert!(said.argument.text.starts_with("00000000000000070000000000000009"));
            let stored = Format::Msgpack.encode(&said.argument).len();
            assert!(stored.abs_diff(size) <= 2, "{stored} bytes, {size} were asked for");
        }
    }
}
