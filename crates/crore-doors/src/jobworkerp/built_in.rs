//! The built-in worker −1, which notifies Slack of results. It is found by its number, but not listed.

use crore_api::Fault;
use crore_core::handler::{BUILT_IN_ID, FollowUpPayload, LinkPolicy};
use crore_core::{Handler, Name};
use crore_wire::grpc::jobworkerp::data::{
    QueueType, ResponseType, RetryPolicy, RetryType, RunnerType, Worker, WorkerData,
};

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
