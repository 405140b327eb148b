//! Lakh: one `Work` call per batch, and workers that `Join`. Reports are not acknowledged.

use std::time::Duration;

use anyhow::Context;
use crore_wire::grpc::lakh::job::ExecutionTime;
use crore_wire::grpc::lakh::lakh_client::LakhClient;
use crore_wire::grpc::lakh::{Job, JobResult, JobStatus};
use futures_util::StreamExt;
use futures_util::stream::{FuturesUnordered, iter, poll_fn};
use tokio::sync::mpsc;
use tonic::Request;
use tonic::metadata::MetadataValue;

use super::super::load::{BenchProducer, BenchWorker, LoadState};
use super::super::payload::Template;
use super::super::source::PushBatch;
use super::super::target::{AuthorizedChannel, status_error};

/// Reservation time of a job: its lease.
pub(super) const RESERVATION: Duration = Duration::from_secs(60);
/// Size of the JSON array around the stored argument.
const FRAMING_BYTES: usize = r#"[""]"#.len();

pub(super) async fn push(producer: &mut BenchProducer) -> anyhow::Result<()> {
    let load = producer.load.clone();
    let template = Template::new(b"", b"", load.plan.payload - FRAMING_BYTES);
    let client = LakhClient::new(load.target.grpc().await?);
    load.wait_for_start().await;
    let (mut in_flight, mut is_over) = (FuturesUnordered::new(), false);
    while !(is_over && in_flight.is_empty()) {
        tokio::select! {
            biased;
            Some(answered) = in_flight.next() => producer.pushed(&answered?),
            batch = load.source.next(), if !is_over && in_flight.len() < load.plan.in_flight => {
                match batch {
                    Some(batch) => in_flight.push(call(client.clone(), &load, &template, batch)),
                    None => is_over = true,
                }
            }
        }
    }
    Ok(())
}

/// Sends a batch and waits for its acknowledgement.
fn call(
    mut client: LakhClient<AuthorizedChannel>,
    load: &LoadState,
    template: &Template,
    batch: PushBatch,
) -> impl Future<Output = anyhow::Result<PushBatch>> + use<> {
    let job = |number| Job {
        id: format!("{number:x}"),
        name: load.name.clone(),
        args: vec![template.text(number, batch.begun)],
        execution_time: Some(ExecutionTime::Immediate(())),
        reservation_time: Some(prost_types::Duration {
            seconds: RESERVATION.as_secs() as i64,
            nanos: 0,
        }),
    };
    let jobs: Vec<Job> = batch.numbers.clone().map(job).collect();
    let request = with_job_names(load, iter(jobs));
    async move {
        client.work(request?).await.map_err(|status| status_error(&status))?;
        Ok(batch)
    }
}

/// A request with this run's job name in its metadata.
fn with_job_names<T>(load: &LoadState, message: T) -> anyhow::Result<Request<T>> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("job_names", MetadataValue::try_from(load.name.as_str())?);
    Ok(request)
}

/// Maximum jobs to read before their reports are sent.
const MAX_CHUNK: usize = 100;

pub(super) async fn work(worker: &mut BenchWorker) -> anyhow::Result<()> {
    let load = worker.load.clone();
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let mut client = LakhClient::new(load.target.grpc().await?);
    let reports = with_job_names(&load, poll_fn(move |context| receiver.poll_recv(context)))?;
    let stream = client.join(reports).await.map_err(|status| status_error(&status))?.into_inner();
    let mut stream = stream.ready_chunks(MAX_CHUNK);
    load.ready.add_permits(1);
    let mut held_jobs = Vec::with_capacity(MAX_CHUNK);
    loop {
        let received = tokio::select! {
            biased;
            received = stream.next() => received.context("the server closed the stream")?,
            () = load.stop.cancelled() => return Ok(()),
        };
        let jobs: Result<Vec<Job>, _> = received.into_iter().collect();
        let jobs = jobs.map_err(|status| status_error(&status))?;
        held_jobs.clear();
        worker.delivered(
            jobs.iter().map(|job| job.args.first().map(String::as_bytes)),
            &mut held_jobs,
        );
        for Job { id: job_id, name: job_name, .. } in jobs {
            let report = JobResult { job_id, job_name, status: JobStatus::Succeeded.into() };
            sender.send(report).context("the server closed the stream")?;
        }
        worker.reported(held_jobs.iter().filter_map(|held| *held));
    }
}
