//! Results, read from the jobs that gave them: one for its end, and one for each attempt that failed and was retried, as
//! long as the job's history has it.

use crore_core::handler::all_items;
use crore_core::job::{Attempt, Ended, Keep, Lapse, Why};
use crore_core::{Delivery, Handler, Job, JobId, Payload, Span, State, Time};
use crore_wire::grpc::jobworkerp::data::{
    JobResult, JobResultData, JobResultId, ResultOutput, ResultStatus,
};
use serde_json::Value;

use super::job::{key, priority, said_id, timeout};
use super::policy::retries;
use super::translate::response_type;
use super::workers::{Whose, Workers, worker_id};

/// What whoever runs jobs says when the time of one is over.
const TIMED_OUT: &str = "timed out";

/// How many bits of a result's number are made from a delivery.
const BITS: u32 = 20;

/// The number of a result: that of its job, and 20 bits from that of its delivery. Deliveries of one job are ten at the
/// most, and are numbered anew after each start of a server, so all of their bits are stirred.
fn number(job: JobId, delivery: Delivery) -> Option<JobResultId> {
    let stirred = delivery.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - BITS);
    let shifted = i64::try_from(job.0).ok()?.checked_mul(1 << BITS)?;
    Some(JobResultId { value: shifted | i64::try_from(stirred).ok()? })
}

/// The number of the job that a result is of.
pub(super) const fn job_of(number: i64) -> i64 {
    number >> BITS
}

/// The result with which a job has ended; `None`: it has not, or is no worker's.
pub(super) fn last(job: &Job, workers: &Workers, now: Time) -> Option<JobResult> {
    let whose = workers.whose(job)?;
    let row = rows(job).into_iter().next().filter(|row| row.is_last)?;
    Some(said(job, &whose, row, now))
}

/// The results of a job that its worker lets be found, newest first.
pub(super) fn stored(job: &Job, workers: &Workers, now: Time) -> Vec<JobResult> {
    let Some(whose) = workers.whose(job) else { return Vec::new() };
    let (success, failure) = flags(job, whose.handler);
    let is_stored = |row: &Row<'_>| match job.live.state {
        State::Done if row.is_last => success,
        // What was never run gave nothing.
        _ => failure && row.attempt.is_some(),
    };
    let stored = rows(job).into_iter().filter(is_stored);
    stored.map(|row| said(job, &whose, row, now)).collect()
}

/// Which results a worker lets be found. What one that is gone has kept is still there.
fn flags(job: &Job, handler: Option<&Handler>) -> (bool, bool) {
    match handler {
        Some(handler) => (handler.results.success, handler.results.failure),
        None => (job.spec.keep != Keep::Discard, job.spec.keep != Keep::Discard),
    }
}

/// One run, or an end without one.
#[derive(Clone, Copy)]
struct Row<'a> {
    attempt: Option<&'a Attempt>,
    /// How often the job had been retried before.
    retried: u32,
    /// Whether the job has ended with it.
    is_last: bool,
}

/// All runs that have ended well or badly, newest first.
fn rows(job: &Job) -> Vec<Row<'_>> {
    let mut before = job.live.attempt;
    if job.live.state == State::Running {
        before = before.saturating_sub(1);
    }
    let mut rows = Vec::new();
    let last = last_attempt(job);
    if job.live.state.has_ended() && last.is_none() {
        rows.push(Row { attempt: None, retried: before, is_last: true });
    }
    for attempt in &job.live.history {
        let is_last = last == Some(attempt.delivery);
        // One that was stopped counts, however it was handed back.
        let is_stopped = is_last && job.live.state == State::Cancelled;
        let counts = is_stopped || counts(job, attempt);
        before = before.saturating_sub(u32::from(counts));
        if counts || is_last {
            rows.push(Row { attempt: Some(attempt), retried: before, is_last });
        }
    }
    rows
}

/// The delivery with which a job has ended. One that was cancelled while it waited has ended without.
fn last_attempt(job: &Job) -> Option<Delivery> {
    let newest = job.live.history.first()?;
    let has_ended = match job.live.state {
        State::Done => newest.ended == Ended::Done,
        State::Dead => job.live.why != Some(Why::Damaged),
        State::Cancelled => job.live.ended_at == Some(newest.ended_at),
        State::Waiting | State::Scheduled | State::Ready | State::Running => false,
    };
    has_ended.then_some(newest.delivery)
}

/// Whether an attempt counted: one that was handed back, or whose worker crashed, did not.
fn counts(job: &Job, attempt: &Attempt) -> bool {
    match attempt.ended {
        Ended::Done | Ended::Failed | Ended::TimedOut | Ended::Cancelled => true,
        Ended::Lapsed => !matches!(job.spec.lapse, Lapse::Crash { .. }),
        Ended::Snoozed | Ended::Interrupted => false,
    }
}

fn said(job: &Job, whose: &Whose<'_>, row: Row<'_>, now: Time) -> JobResult {
    let status = if row.is_last { ending(job) } else { ResultStatus::ErrorAndRetry };
    let items = match status {
        ResultStatus::Success => items(job, now),
        _ => vec![words(job, row.attempt).into_bytes()],
    };
    let ended_at = row.attempt.map(|attempt| attempt.ended_at).or(job.live.ended_at);
    let (success, failure) = flags(job, whose.handler);
    let data = JobResultData {
        job_id: said_id(job.id),
        worker_id: worker_id(whose.id),
        worker_name: whose.name.to_string(),
        arg: job.spec.payload.bytes.to_vec(),
        uniq_key: key(job.spec.unique.as_ref()),
        status: status.into(),
        output: Some(ResultOutput { items }),
        retried: row.retried,
        max_retry: retries(&job.spec.retry),
        priority: priority(job.spec.priority).into(),
        timeout: timeout(job.spec.timeout),
        enqueue_time: job.live.pushed_at.as_millis(),
        run_after_time: job.live.due.as_millis(),
        start_time: row.attempt.map_or(0, |attempt| attempt.started_at.as_millis()),
        end_time: ended_at.map_or(0, Time::as_millis),
        response_type: whose.handler.map_or(0, |handler| response_type(handler).into()),
        store_success: success,
        store_failure: failure,
    };
    let delivery = row.attempt.map_or(Delivery::NONE, |attempt| attempt.delivery);
    JobResult { id: number(job.id, delivery), data: Some(data) }
}

/// How a job has ended.
fn ending(job: &Job) -> ResultStatus {
    let class = job.live.result.as_ref().and_then(|kept| class(&kept.payload));
    match (job.live.state, class.as_deref(), job.live.why) {
        (State::Done, ..) => ResultStatus::Success,
        (State::Cancelled, ..) => ResultStatus::Abort,
        (_, Some("fatal"), _) => ResultStatus::FatalError,
        (_, Some("aborted" | "stopped"), _) => ResultStatus::Abort,
        (_, Some("other"), _) => ResultStatus::OtherError,
        (_, Some("again"), _) | (_, _, Some(Why::Exhausted)) => ResultStatus::MaxRetry,
        _ => ResultStatus::OtherError,
    }
}

/// What sort of failure it was, as whoever ran the job says.
fn class(detail: &Payload) -> Option<String> {
    let detail: Value = serde_json::from_slice(&detail.bytes).ok()?;
    Some(detail.get("class")?.as_str()?.to_owned())
}

fn items(job: &Job, now: Time) -> Vec<Vec<u8>> {
    let items = job.result_at(now).map(|kept| all_items(&kept.payload)).unwrap_or_default();
    items.iter().map(|item| item.bytes.to_vec()).collect()
}

/// Whether a run took too long: the engine has ended it, or whoever ran it was faster to say so.
fn is_late(attempt: &Attempt, timeout: Span) -> bool {
    let took = attempt.ended_at.since(attempt.started_at);
    match attempt.ended {
        Ended::TimedOut => true,
        Ended::Failed => attempt.error.as_deref() == Some(TIMED_OUT) && took >= timeout,
        _ => false,
    }
}

/// What went wrong.
fn words(job: &Job, attempt: Option<&Attempt>) -> String {
    if let (Some(attempt), Some(timeout)) = (attempt, job.spec.timeout)
        && is_late(attempt, timeout)
    {
        return format!("timeout error: \"timeout: {}ms\"", timeout.as_millis());
    }
    let error = attempt.and_then(|attempt| attempt.error.as_deref());
    let why = match job.live.why {
        Some(Why::Damaged) => "the job's record was damaged",
        Some(Why::DependencyBroken) => "what the job waited for can no longer succeed",
        _ if attempt.is_some() => "the job was stopped",
        _ => "the job was deleted before it was run",
    };
    error.unwrap_or(why).to_owned()
}
