//! The native HTTP API: a connection for each push that is under way, and one for each worker.

use std::fmt::Write;

use anyhow::{Context, ensure};
use bytes::Bytes;
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::super::client::problem as problem_of;
use super::super::load::{Producer, Worker};
use super::super::payload::Template;
use super::super::source::Batch;
use crate::exit::Failure;

pub(super) const JSON: &str = "application/json";
/// How long a fetch waits: so long that it costs nothing, and so short that an end is noticed.
const WAIT: &str = "200ms";

pub(super) async fn push(producer: &mut Producer) -> anyhow::Result<()> {
    let load = producer.load.clone();
    let retain = if load.plan.discard { ",\"retain\":\"nothing\"" } else { "" };
    let before = format!("{{\"kind\":\"{}\"{retain},\"payload\":\"", load.name);
    // Of which the payload is the text with its quotes.
    let size = load.plan.payload - 2 + before.len() + 2;
    let template = Template::new(before.as_bytes(), b"\"}", size);
    let mut connection = load.line.http(JSON).await?;
    load.until_all_are_ready().await;
    while let Some(batch) = load.source.next().await {
        let answer = connection.post("/v1/jobs", body(&template, &batch)).await?;
        if batch.len() > 1 {
            check(&answer, &batch)?;
        }
        producer.pushed(&batch);
    }
    Ok(())
}

/// Of a batch, each job is answered for itself.
fn check(answer: &[u8], batch: &Batch) -> anyhow::Result<()> {
    #[derive(Deserialize)]
    struct Pushed<'a> {
        #[serde(borrow)]
        jobs: Vec<One<'a>>,
    }
    #[derive(Deserialize)]
    struct One<'a> {
        status: &'a str,
        #[serde(borrow)]
        problem: Option<&'a RawValue>,
    }
    let Pushed { jobs } = serde_json::from_slice(answer).context("a strange answer")?;
    if let Some(problem) = jobs.iter().find_map(|job| job.problem) {
        let (why, message) = problem_of(StatusCode::BAD_REQUEST, problem.get().as_bytes());
        return Err(Failure::new(why, format!("the server refuses a job: {message}")).into());
    }
    ensure!(jobs.len() as u64 == batch.len(), "a batch is answered in part");
    ensure!(jobs.iter().all(|job| job.status == "new"), "a job is said to have been there before");
    Ok(())
}

/// One job, or a list of them.
fn body(template: &Template, batch: &Batch) -> Bytes {
    let mut body = Vec::with_capacity((template.len() + 1) * batch.len() as usize + 16);
    if batch.len() == 1 {
        template.write(batch.numbers.start, batch.begun, &mut body);
        return body.into();
    }
    body.extend_from_slice(b"{\"jobs\":[");
    for number in batch.numbers.clone() {
        template.write(number, batch.begun, &mut body);
        body.push(b',');
    }
    body.pop();
    body.extend_from_slice(b"]}");
    body.into()
}

#[derive(Debug, Deserialize)]
struct Fetched<'a> {
    #[serde(borrow)]
    jobs: Vec<Delivered<'a>>,
}

#[derive(Debug, Deserialize)]
struct Delivered<'a> {
    id: &'a str,
    delivery: &'a str,
    payload: &'a str,
}

#[derive(Debug, Deserialize)]
struct Finished<'a> {
    #[serde(borrow)]
    jobs: Vec<FinishedOne<'a>>,
}

#[derive(Debug, Deserialize)]
struct FinishedOne<'a> {
    status: &'a str,
}

pub(super) async fn work(worker: &mut Worker) -> anyhow::Result<()> {
    let load = worker.load.clone();
    let (queue, slots, name) = (&load.name, load.plan.slots, worker.name());
    let ask = format!(
        "{{\"queues\":[\"{queue}\"],\"n\":{slots},\"wait\":\"{WAIT}\",\"worker\":\"{name}\"}}"
    );
    let ask = Bytes::from(ask);
    let mut connection = load.line.http(JSON).await?;
    load.ready.add_permits(1);
    let mut in_hand = Vec::with_capacity(slots as usize);
    while !load.stop.is_cancelled() {
        let answer = connection.post("/v1/fetch", ask.clone()).await?;
        let fetched: Fetched<'_> = serde_json::from_slice(&answer).context("a strange answer")?;
        if fetched.jobs.is_empty() {
            continue;
        }
        in_hand.clear();
        worker.handed(fetched.jobs.iter().map(|job| Some(job.payload.as_bytes())), &mut in_hand);
        let answer = connection.post("/v1/finish", reports(&fetched.jobs)).await?;
        let finished: Finished<'_> = serde_json::from_slice(&answer).context("a strange answer")?;
        ensure!(finished.jobs.len() == in_hand.len(), "reports are answered in part");
        // One that does not count any more ends nothing.
        let counts = in_hand.iter().zip(&finished.jobs).filter(|(_, one)| one.status == "finished");
        worker.finished(counts.filter_map(|(held, _)| *held));
    }
    Ok(())
}

fn reports(jobs: &[Delivered<'_>]) -> Bytes {
    let mut body = String::with_capacity(jobs.len() * 80 + 16);
    body.push_str("{\"jobs\":[");
    for Delivered { id, delivery, .. } in jobs {
        // Writing to a text cannot fail.
        let _ =
            write!(body, "{{\"id\":\"{id}\",\"delivery\":\"{delivery}\",\"outcome\":\"done\"}},");
    }
    body.pop();
    body.push_str("]}");
    body.into()
}
