//! The native gRPC API: batches on a push stream, and one stream per worker.

use std::collections::VecDeque;

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use crore_wire::grpc::v1;
use crore_wire::grpc::v1::jobs_client::JobsClient;
use crore_wire::grpc::v1::work_client::WorkClient;
use futures_util::stream::poll_fn;
use tokio::sync::mpsc;

use super::super::load::{BenchProducer, BenchWorker, HeldJob};
use super::super::payload::Template;
use super::super::source::PushBatch;
use super::super::target::status_error;
use crate::exit::{CliError, FailureCode};

/// Framing of a payload: a JSON string.
const BEFORE: &[u8] = b"\"";
const AFTER: &[u8] = b"\"";

pub(super) async fn push(producer: &mut BenchProducer) -> anyhow::Result<()> {
    let load = producer.load.clone();
    let template = Template::new(BEFORE, AFTER, load.plan.payload);
    let retain = match load.plan.discard {
        true => v1::Retain::Nothing,
        false => v1::Retain::Unspecified,
    };
    let job = v1::NewJob { kind: load.name.clone(), retain: retain.into(), ..Default::default() };
    let (sender, mut receiver) = mpsc::channel(load.plan.in_flight);
    let mut client =
        JobsClient::new(load.target.grpc().await?).max_decoding_message_size(usize::MAX);
    let answers = client.push_stream(poll_fn(move |context| receiver.poll_recv(context))).await;
    let mut answers = answers.map_err(|status| status_error(&status))?.into_inner();
    load.wait_for_start().await;
    let (mut in_flight, mut is_over) = (VecDeque::new(), false);
    while !(is_over && in_flight.is_empty()) {
        tokio::select! {
            biased;
            answer = answers.message(), if !in_flight.is_empty() => {
                let answer = answer.map_err(|status| status_error(&status))?;
                let answer = answer.context("the server closed the stream")?;
                let batch = in_flight.pop_front().context("the server sent a response without a request")?;
                check(&answer, &batch)?;
                producer.pushed(&batch);
            }
            batch = load.source.next(), if !is_over && in_flight.len() < load.plan.in_flight => {
                let Some(batch) = batch else {
                    is_over = true;
                    continue;
                };
                if sender.send(request(&job, &template, &batch)).await.is_err() {
                    bail!("the server closed the stream");
                }
                in_flight.push_back(batch);
            }
        }
    }
    Ok(())
}

/// Builds the request of a batch; its payloads share one buffer.
fn request(job: &v1::NewJob, template: &Template, batch: &PushBatch) -> v1::PushRequest {
    let size = template.len();
    let mut bytes = Vec::with_capacity(size * batch.len() as usize);
    batch.numbers.clone().for_each(|number| template.write(number, batch.begun, &mut bytes));
    let bytes = Bytes::from(bytes);
    let payloads = (0..bytes.len()).step_by(size).map(|at| bytes.slice(at..at + size));
    let jobs = payloads.map(|payload| v1::NewJob { payload: Some(payload), ..job.clone() });
    v1::PushRequest { jobs: jobs.collect(), ..Default::default() }
}

fn check(answer: &v1::PushResponse, batch: &PushBatch) -> anyhow::Result<()> {
    if let Some(problem) = answer.jobs.iter().find_map(|job| job.problem.as_ref()) {
        let v1::Problem { code, field, message } = problem;
        let message = format!("the server refused a job: {field}: {message} ({code})");
        return Err(CliError::new(FailureCode::Usage, message).into());
    }
    ensure!(answer.jobs.len() as u64 == batch.len(), "the response to a batch is incomplete");
    ensure!(!answer.jobs.iter().any(|job| job.duplicate), "a new job was reported as a duplicate");
    Ok(())
}

/// Jobs of a worker in the order of their reports, with their ids.
type PendingReports = VecDeque<(u64, Option<HeldJob>)>;

pub(super) async fn work(worker: &mut BenchWorker) -> anyhow::Result<()> {
    let load = worker.load.clone();
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let say = |message| sender.send(message).context("the server closed the stream");
    say(v1::WorkerSays { hello: Some(hello(worker)), ..Default::default() })?;
    let mut client =
        WorkClient::new(load.target.grpc().await?).max_decoding_message_size(usize::MAX);
    let stream = client.stream(poll_fn(move |context| receiver.poll_recv(context))).await;
    let mut stream = stream.map_err(|status| status_error(&status))?.into_inner();
    let mut held_jobs = PendingReports::new();
    let (mut is_over, mut jobs) = (false, Vec::new());
    while !(is_over && held_jobs.is_empty()) {
        let message = tokio::select! {
            biased;
            message = stream.message() => message.map_err(|status| status_error(&status))?,
            () = load.stop.cancelled(), if !is_over => {
                is_over = true;
                say(v1::WorkerSays { drain: true, ..Default::default() })?;
                continue;
            }
        };
        let message = message.context("the server closed the stream")?;
        if message.welcome.is_some() {
            load.ready.add_permits(1);
        }
        ensure!(message.lost.is_empty(), "the server took jobs away from a connected worker");
        if !message.jobs.is_empty() {
            worker.delivered(
                message.jobs.iter().map(|job| job.payload.get(BEFORE.len()..)),
                &mut jobs,
            );
            let finish = message.jobs.iter().map(report).collect();
            say(v1::WorkerSays { finish, ..Default::default() })?;
            held_jobs.extend(message.jobs.iter().map(|job| job.id).zip(jobs.drain(..)));
        }
        finished(worker, &message.finished, &mut held_jobs)?;
    }
    drop(sender);
    // Wait until the server closes the stream too.
    while let Ok(Some(_)) = stream.message().await {}
    Ok(())
}

fn hello(worker: &BenchWorker) -> v1::Hello {
    v1::Hello {
        queues: vec![worker.load.name.clone()],
        slots: worker.load.plan.slots,
        name: worker.name(),
        incarnation: worker.name(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..Default::default()
    }
}

fn report(job: &v1::Delivered) -> v1::Report {
    let done = v1::report::Outcome::Done(v1::Done::default());
    v1::Report { id: job.id, delivery: job.delivery, outcome: Some(done), ..Default::default() }
}

/// Handles acknowledgements, which come in the order of the reports. A stale report finishes nothing.
fn finished(
    worker: &mut BenchWorker,
    answers: &[v1::Finished],
    held_jobs: &mut PendingReports,
) -> anyhow::Result<()> {
    let mut counted = Vec::with_capacity(answers.len());
    for answer in answers {
        let (id, held) =
            held_jobs.pop_front().context("the server acknowledged a report that was not sent")?;
        ensure!(id == answer.id, "the server acknowledged reports out of order");
        if answer.verdict() == v1::Verdict::Finished {
            counted.extend(held);
        }
    }
    worker.finished(counted);
    Ok(())
}
