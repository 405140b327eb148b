//! Our own services by gRPC: batches on a push stream, and a worker's stream.

use std::collections::VecDeque;

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use crore_wire::grpc::v1;
use crore_wire::grpc::v1::jobs_client::JobsClient;
use crore_wire::grpc::v1::work_client::WorkClient;
use futures_util::stream::poll_fn;
use tokio::sync::mpsc;

use super::super::line::failed;
use super::super::load::{Held, Producer, Worker};
use super::super::payload::Template;
use super::super::source::Batch;
use crate::exit::{Failure, Why};

/// What stands before the numbers in a payload: it is one text in JSON.
const BEFORE: &[u8] = b"\"";
const AFTER: &[u8] = b"\"";

pub(super) async fn push(producer: &mut Producer) -> anyhow::Result<()> {
    let load = producer.load.clone();
    let template = Template::new(BEFORE, AFTER, load.plan.payload);
    let retain = match load.plan.discard {
        true => v1::Retain::Nothing,
        false => v1::Retain::Unspecified,
    };
    let job = v1::NewJob { kind: load.name.clone(), retain: retain.into(), ..Default::default() };
    let (says, mut to_say) = mpsc::channel(load.plan.in_flight);
    let mut client = JobsClient::new(load.line.grpc().await?).max_decoding_message_size(usize::MAX);
    let answers = client.push_stream(poll_fn(move |context| to_say.poll_recv(context))).await;
    let mut answers = answers.map_err(|status| failed(&status))?.into_inner();
    load.until_all_are_ready().await;
    let (mut under_way, mut is_over) = (VecDeque::new(), false);
    while !(is_over && under_way.is_empty()) {
        tokio::select! {
            biased;
            answer = answers.message(), if !under_way.is_empty() => {
                let answer = answer.map_err(|status| failed(&status))?;
                let answer = answer.context("the server has ended the stream")?;
                let batch = under_way.pop_front().context("an answer to nothing")?;
                check(&answer, &batch)?;
                producer.pushed(&batch);
            }
            batch = load.source.next(), if !is_over && under_way.len() < load.plan.in_flight => {
                let Some(batch) = batch else {
                    is_over = true;
                    continue;
                };
                if says.send(request(&job, &template, &batch)).await.is_err() {
                    bail!("the server does not listen any more");
                }
                under_way.push_back(batch);
            }
        }
    }
    Ok(())
}

/// A batch; its payloads lie behind each other in one piece of memory.
fn request(job: &v1::NewJob, template: &Template, batch: &Batch) -> v1::PushRequest {
    let size = template.len();
    let mut bytes = Vec::with_capacity(size * batch.len() as usize);
    batch.numbers.clone().for_each(|number| template.write(number, batch.begun, &mut bytes));
    let bytes = Bytes::from(bytes);
    let payloads = (0..bytes.len()).step_by(size).map(|at| bytes.slice(at..at + size));
    let jobs = payloads.map(|payload| v1::NewJob { payload: Some(payload), ..job.clone() });
    v1::PushRequest { jobs: jobs.collect(), ..Default::default() }
}

fn check(answer: &v1::PushResponse, batch: &Batch) -> anyhow::Result<()> {
    if let Some(problem) = answer.jobs.iter().find_map(|job| job.problem.as_ref()) {
        let v1::Problem { code, field, message } = problem;
        let message = format!("the server refuses a job: {field}: {message} ({code})");
        return Err(Failure::new(Why::Usage, message).into());
    }
    ensure!(answer.jobs.len() as u64 == batch.len(), "a batch is answered in part");
    ensure!(
        !answer.jobs.iter().any(|job| job.duplicate),
        "a job is said to have been there before"
    );
    Ok(())
}

/// The jobs that a worker has, in the order of its reports, with their ids.
type InHand = VecDeque<(u64, Option<Held>)>;

pub(super) async fn work(worker: &mut Worker) -> anyhow::Result<()> {
    let load = worker.load.clone();
    let (says, mut to_say) = mpsc::unbounded_channel();
    let say = |message| says.send(message).context("the server does not listen any more");
    say(v1::WorkerSays { hello: Some(hello(worker)), ..Default::default() })?;
    let mut client = WorkClient::new(load.line.grpc().await?).max_decoding_message_size(usize::MAX);
    let hears = client.stream(poll_fn(move |context| to_say.poll_recv(context))).await;
    let mut hears = hears.map_err(|status| failed(&status))?.into_inner();
    let mut in_hand = InHand::new();
    let (mut is_over, mut jobs) = (false, Vec::new());
    while !(is_over && in_hand.is_empty()) {
        let heard = tokio::select! {
            biased;
            heard = hears.message() => heard.map_err(|status| failed(&status))?,
            () = load.stop.cancelled(), if !is_over => {
                is_over = true;
                say(v1::WorkerSays { drain: true, ..Default::default() })?;
                continue;
            }
        };
        let heard = heard.context("the server has ended the stream")?;
        if heard.welcome.is_some() {
            load.ready.add_permits(1);
        }
        ensure!(heard.lost.is_empty(), "jobs were taken away from a worker that is there");
        if !heard.jobs.is_empty() {
            worker.handed(heard.jobs.iter().map(|job| job.payload.get(BEFORE.len()..)), &mut jobs);
            let finish = heard.jobs.iter().map(report).collect();
            say(v1::WorkerSays { finish, ..Default::default() })?;
            in_hand.extend(heard.jobs.iter().map(|job| job.id).zip(jobs.drain(..)));
        }
        finished(worker, &heard.finished, &mut in_hand)?;
    }
    drop(says);
    // Until the server has heard that, too.
    while let Ok(Some(_)) = hears.message().await {}
    Ok(())
}

fn hello(worker: &Worker) -> v1::Hello {
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

/// Reports are answered in their order. One that does not count any more ends nothing.
fn finished(
    worker: &mut Worker,
    answers: &[v1::Finished],
    in_hand: &mut InHand,
) -> anyhow::Result<()> {
    let mut counted = Vec::with_capacity(answers.len());
    for answer in answers {
        let (id, held) = in_hand.pop_front().context("an answer to a report that was not made")?;
        ensure!(id == answer.id, "an answer to another report than the first one");
        if answer.verdict() == v1::Verdict::Finished {
            counted.extend(held);
        }
    }
    worker.finished(counted);
    Ok(())
}
