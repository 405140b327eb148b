//! Lakh: a call of `Work` for each batch, and a worker that has joined. Reports are not answered.

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

use super::super::line::{Grpc, failed};
use super::super::load::{Load, Producer, Worker};
use super::super::payload::Template;
use super::super::source::Batch;

/// How long a worker has for its report.
pub(super) const RESERVED: Duration = Duration::from_secs(60);
/// What is stored around the text of an argument: a list in JSON.
const AROUND: usize = r#"[""]"#.len();

pub(super) async fn push(producer: &mut Producer) -> anyhow::Result<()> {
    let load = producer.load.clone();
    let template = Template::new(b"", b"", load.plan.payload - AROUND);
    let client = LakhClient::new(load.line.grpc().await?);
    load.until_all_are_ready().await;
    let (mut under_way, mut is_over) = (FuturesUnordered::new(), false);
    while !(is_over && under_way.is_empty()) {
        tokio::select! {
            biased;
            Some(answered) = under_way.next() => producer.pushed(&answered?),
            batch = load.source.next(), if !is_over && under_way.len() < load.plan.in_flight => {
                match batch {
                    Some(batch) => under_way.push(call(client.clone(), &load, &template, batch)),
                    None => is_over = true,
                }
            }
        }
    }
    Ok(())
}

/// Sends a batch, and waits until it is on the disk.
fn call(
    mut client: LakhClient<Grpc>,
    load: &Load,
    template: &Template,
    batch: Batch,
) -> impl Future<Output = anyhow::Result<Batch>> + use<> {
    let job = |number| Job {
        id: format!("{number:x}"),
        name: load.name.clone(),
        args: vec![template.text(number, batch.begun)],
        execution_time: Some(ExecutionTime::Immediate(())),
        reservation_time: Some(prost_types::Duration {
            seconds: RESERVED.as_secs() as i64,
            nanos: 0,
        }),
    };
    let jobs: Vec<Job> = batch.numbers.clone().map(job).collect();
    let request = about(load, iter(jobs));
    async move {
        client.work(request?).await.map_err(|status| failed(&status))?;
        Ok(batch)
    }
}

/// A call about the jobs of this run.
fn about<T>(load: &Load, message: T) -> anyhow::Result<Request<T>> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("job_names", MetadataValue::try_from(load.name.as_str())?);
    Ok(request)
}

/// How many jobs are read before their reports are sent together.
const AT_ONCE: usize = 100;

pub(super) async fn work(worker: &mut Worker) -> anyhow::Result<()> {
    let load = worker.load.clone();
    let (says, mut to_say) = mpsc::unbounded_channel();
    let mut client = LakhClient::new(load.line.grpc().await?);
    let reports = about(&load, poll_fn(move |context| to_say.poll_recv(context)))?;
    let hears = client.join(reports).await.map_err(|status| failed(&status))?.into_inner();
    let mut hears = hears.ready_chunks(AT_ONCE);
    load.ready.add_permits(1);
    let mut in_hand = Vec::with_capacity(AT_ONCE);
    loop {
        let heard = tokio::select! {
            biased;
            heard = hears.next() => heard.context("the server has ended the stream")?,
            () = load.stop.cancelled() => return Ok(()),
        };
        let jobs: Result<Vec<Job>, _> = heard.into_iter().collect();
        let jobs = jobs.map_err(|status| failed(&status))?;
        in_hand.clear();
        worker.handed(jobs.iter().map(|job| job.args.first().map(String::as_bytes)), &mut in_hand);
        for Job { id: job_id, name: job_name, .. } in jobs {
            let report = JobResult { job_id, job_name, status: JobStatus::Succeeded.into() };
            says.send(report).context("the server does not listen any more")?;
        }
        worker.reported(in_hand.iter().filter_map(|held| *held));
    }
}
