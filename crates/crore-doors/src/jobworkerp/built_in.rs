//! Worker −1, which tells Slack what became of jobs. It is found by its number, but is in no list.

use crore_api::Fault;
use crore_core::handler::{BUILT_IN, Gives, Linked};
use crore_core::{Handler, Name};
use crore_wire::grpc::jobworkerp::data::{
    QueueType, ResponseType, RetryPolicy, RetryType, RunnerType, Worker, WorkerData,
};

use super::policy;
use super::workers::{BUILT_IN_ID, worker_id};
use crate::Doors;

/// Its name.
pub(super) const NAME: &str = "__SLACK_NOTIFICATION_WORKER__";
/// What it does, in the words of jobworkerp.
const OPERATION: &str = "SlackResultNotificationRunner";

const POLICY: RetryPolicy = RetryPolicy {
    r#type: RetryType::Exponential as i32,
    interval: 1000,
    max_interval: 20_000,
    max_retry: 3,
    basis: 2.0,
};

/// The worker, as it is said.
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
    Worker { id: worker_id(BUILT_IN_ID), data: Some(data) }
}

/// Sees to it that what the server brings along is as its options say: to be called when it starts, once it knows the
/// runners. What cannot be had is refused, and says why.
pub async fn prepare(doors: &Doors) -> Result<(), Fault> {
    let name = Name::new("name", NAME)?;
    let engine = doors.engine();
    let options = &doors.options().jobworkerp;
    match options.slack() {
        Some(settings) => {
            let runner = Name::new("runner", "slack")?;
            let retry = policy::read(Some(&POLICY))?;
            let new = Handler::new(runner, settings);
            let linked = Linked {
                on_success: options.slack_on_success,
                on_failure: options.slack_on_failure,
                gives: Gives::Summary,
            };
            let handler = Handler { id: BUILT_IN, retry, linked, ..new };
            doors.api().check_handler(&handler)?;
            engine.handlers().set(name, handler).await?;
        }
        None => drop(engine.handlers().remove(name).await?),
    }
    Ok(())
}
