//! The native HTTP API: one connection per concurrent push, and one per worker.

use std::fmt::Write;

use anyhow::{Context, ensure};
use bytes::Bytes;
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::super::client::error_of as problem_of;
use super::super::load::{BenchProducer, BenchWorker};
use super::super::payload::Template;
use super::super::source::PushBatch;
use crate::exit::CliError;

pub(super) const JSON: &str = "application/json";
/// Wait of a fetch: long enough to avoid busy polling, short enough to notice the end of the run.
const WAIT: &str = "200ms";

pub(super) async fn push(producer: &mut BenchProducer) -> anyhow::Result<()> {
    let load = producer.load.clone();
    let retain = if load.plan.discard { ",\"retain\":\"nothing\"" } else { "" };
    let before = format!("{{\"kind\":\"{}\"{retain},\"payload\":\"", load.name);
    // The payload size includes the two quotes.
    let size = load.plan.payload - 2 + before.len() + 2;
    let template = Template::new(before.as_bytes(), b"\"}", size);
    let mut connection = load.target.http(JSON).await?;
    load.wait_for_start().await;
    while let Some(batch) = load.source.next().await {
        let answer = connection.post("/v1/jobs", body(&template, &batch)).await?;
        if batch.len() > 1 {
            check(&answer, &batch)?;
        }
        producer.pushed(&batch);
    }
    Ok(())
}

/// Checks the result of each job in a batch.
fn check(answer: &[u8], batch: &PushBatch) -> anyhow::Result<()> {
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
    let Pushed { jobs } = serde_json::from_slice(answer).context("unexpected response")?;
    if let Some(problem) = jobs.iter().find_map(|job| job.problem) {
        let (why, message) = problem_of(StatusCode::BAD_REQUEST, problem.get().as_bytes());
        return Err(CliError::new(why, format!("the server refused a job: {message}")).into());
    }
    ensure!(jobs.len() as u64 == batch.len(), "the response to a batch is incomplete");
    ensure!(jobs.iter().all(|job| job.status == "new"), "a new job was reported as a duplicate");
    Ok(())
}

/// Request body: one job, or a list of jobs.
fn body(template: &Template, batch: &PushBatch) -> Bytes {
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
struct FetchResponse<'a> {
    #[serde(borrow)]
    jobs: Vec<FetchedJob<'a>>,
}

#[derive(Debug, Deserialize)]
struct FetchedJob<'a> {
    id: &'a str,
    delivery: &'a str,
    payload: &'a str,
}

#[derive(Debug, Deserialize)]
struct FinishResponse<'a> {
    #[serde(borrow)]
    jobs: Vec<FinishStatus<'a>>,
}

#[derive(Debug, Deserialize)]
struct FinishStatus<'a> {
    status: &'a str,
}

pub(super) async fn work(worker: &mut BenchWorker) -> anyhow::Result<()> {
    let load = worker.load.clone();
    let (queue, slots, name) = (&load.name, load.plan.slots, worker.name());
    let request = format!(
        "{{\"queues\":[\"{queue}\"],\"n\":{slots},\"wait\":\"{WAIT}\",\"worker\":\"{name}\"}}"
    );
    let request = Bytes::from(request);
    let mut connection = load.target.http(JSON).await?;
    load.ready.add_permits(1);
    let mut held_jobs = Vec::with_capacity(slots as usize);
    while !load.stop.is_cancelled() {
        let answer = connection.post("/v1/fetch", request.clone()).await?;
        let fetched: FetchResponse<'_> =
            serde_json::from_slice(&answer).context("unexpected response")?;
        if fetched.jobs.is_empty() {
            continue;
        }
        held_jobs.clear();
        worker
            .delivered(fetched.jobs.iter().map(|job| Some(job.payload.as_bytes())), &mut held_jobs);
        let answer = connection.post("/v1/finish", reports(&fetched.jobs)).await?;
        let finished: FinishResponse<'_> =
            serde_json::from_slice(&answer).context("unexpected response")?;
        ensure!(finished.jobs.len() == held_jobs.len(), "the response to reports is incomplete");
        // A stale report finishes nothing.
        let counts =
            held_jobs.iter().zip(&finished.jobs).filter(|(_, one)| one.status == "finished");
        worker.finished(counts.filter_map(|(held, _)| *held));
    }
    Ok(())
}

fn reports(jobs: &[FetchedJob<'_>]) -> Bytes {
    let mut body = String::with_capacity(jobs.len() * 80 + 16);
    body.push_str("{\"jobs\":[");
    for FetchedJob { id, delivery, .. } in jobs {
        // Writing to a string cannot fail.
        let _ =
            write!(body, "{{\"id\":\"{id}\",\"delivery\":\"{delivery}\",\"outcome\":\"done\"}},");
    }
    body.pop();
    body.push_str("]}");
    body.into()
}
