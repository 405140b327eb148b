//! The built-in worker −1, which notifies Slack of results. It is found by its id, but not listed.

use crore_api::Fault;
use crore_core::handler::{BUILT_IN_ID, FollowUpPayload, LinkPolicy};
use crore_core::{Code, Handler, Invalid, Name, Payload};
use crore_wire::grpc::jobworkerp::data::{
    JobResult, QueueType, ResponseType, ResultStatus, RetryPolicy, RetryType, RunnerType, Worker,
    WorkerData,
};
use prost::Message;
use serde_json::json;

use super::policy;
use super::workers::{BUILT_IN_WORKER, worker_id};
use crate::Doors;

pub(super) const NAME: &str = "__SLACK_NOTIFICATION_WORKER__";
/// Its `operation` in jobworkerp.
const OPERATION: &str = "SlackResultNotificationRunner";

const POLICY: RetryPolicy = RetryPolicy {
    r#type: RetryType::Exponential as i32,
    interval: 1000,
    max_interval: 20_000,
    max_retry: 3,
    basis: 2.0,
};

/// The worker as a message.
pub(super) fn worker() -> Worker {
    let data = WorkerData {
        name: NAME.to_owned(),
        r#type: RunnerType::Builtin.into(),
        operation: OPERATION.to_owned(),
        retry_policy: Some(POLICY),
        queue_type: QueueType::Redis.into(),
        response_type: ResponseType::NoResult.into(),
        ..WorkerData::default()
    };
    Worker { id: worker_id(BUILT_IN_WORKER), data: Some(data) }
}

/// Converts the argument of a job for this worker, a serialized `JobResult`, to the payload that its runner expects:
/// the summary of a job that has ended.
pub(super) fn payload(arg: &[u8]) -> Result<Payload, Invalid> {
    let wrong = |why: String| {
        let message = format!("worker -1 expects a serialized `JobResult`: {why}");
        Invalid::new(Code::PayloadMalformed, "arg", message)
    };
    let result = JobResult::decode(arg).map_err(|error| wrong(error.to_string()))?;
    let data = result.data.ok_or_else(|| wrong("`data` is missing".to_owned()))?;
    let items = data.output.map(|output| output.items).unwrap_or_default();
    let text: Vec<_> = items.iter().map(|item| String::from_utf8_lossy(item)).collect();
    let is_success = data.status == i32::from(ResultStatus::Success);
    let (state, field) = if is_success { ("done", "output") } else { ("dead", "error") };
    let scheduled_at =
        if data.run_after_time > 0 { data.run_after_time } else { data.enqueue_time };
    let mut summary = json!({
        "job": data.job_id.map_or_else(String::new, |id| id.value.to_string()),
        "kind": data.worker_name,
        "state": state,
        field: text.join("\n"),
    });
    let times = [
        ("scheduled_at", scheduled_at),
        ("started_at", data.start_time),
        ("ended_at", data.end_time),
    ];
    if let Some(summary) = summary.as_object_mut() {
        let known = times.into_iter().filter(|(_, at)| *at > 0);
        summary.extend(known.map(|(name, at)| (name.to_owned(), at.into())));
    }
    Ok(Payload::json(&summary.to_string()))
}

/// Creates or removes the handler of the built-in worker, according to the options. Call it at start-up, once the
/// runners are known. It fails if the settings are invalid.
pub async fn prepare(doors: &Doors) -> Result<(), Fault> {
    let name = Name::new("name", NAME)?;
    let engine = doors.engine();
    let options = &doors.options().jobworkerp;
    match options.slack() {
        Some(settings) => {
            let runner = Name::new("runner", "slack")?;
            let retry = policy::read(Some(&POLICY))?;
            let new = Handler::new(runner, settings);
            let linked = LinkPolicy {
                on_success: options.slack_on_success,
                on_failure: options.slack_on_failure,
                gives: FollowUpPayload::Summary,
            };
            let handler = Handler { id: BUILT_IN_ID, retry, linked, ..new };
            doors.api().check_handler(&handler)?;
            engine.handlers().set(name, handler).await?;
        }
        None => drop(engine.handlers().remove(name).await?),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crore_wire::grpc::jobworkerp::data::{JobId, JobResultData, ResultOutput};
    use serde_json::Value;

    use super::*;

    fn summary(data: JobResultData) -> Value {
        let arg = JobResult { id: None, data: Some(data) }.encode_to_vec();
        serde_json::from_slice(&payload(&arg).expect("a result").bytes).expect("JSON")
    }

    #[test]
    fn a_result_becomes_the_summary_of_its_job() {
        let output = Some(ResultOutput { items: vec![b"one".to_vec(), b"two".to_vec()] });
        let data = JobResultData {
            job_id: Some(JobId { value: 12 }),
            worker_name: "mail".to_owned(),
            output,
            enqueue_time: 5,
            start_time: 6,
            end_time: 7,
            ..JobResultData::default()
        };
        let expected = json!({
            "job": "12", "kind": "mail", "state": "done", "output": "one\ntwo",
            "scheduled_at": 5, "started_at": 6, "ended_at": 7,
        });
        assert_eq!(summary(data.clone()), expected);
        let failed = JobResultData { status: ResultStatus::MaxRetry.into(), ..data };
        let summary = summary(failed);
        assert_eq!((&summary["state"], &summary["error"]), (&json!("dead"), &json!("one\ntwo")));
    }

    #[test]
    fn an_arg_that_is_no_result_is_refused() {
        for arg in [&b""[..], b"hello", b"{}", &[0xff; 9]] {
            let refused = payload(arg).expect_err("not a result");
            assert_eq!(refused.field, "arg", "{arg:?}");
        }
    }
}
