//! What a worker said and a handler has no field for: it stands in a label, and counts only as long as it means what
//! the handler says.

use crore_core::Handler;
use crore_wire::grpc::jobworkerp::data::{QueueType, RetryPolicy, WorkerData};
use serde::{Deserialize, Serialize};

/// The label.
const LABEL: &str = "jobworkerp";

/// What was said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Kept {
    /// As it was written, with its blanks.
    pub(super) operation: String,
    pub(super) queue_type: i32,
    /// Type, interval, max_interval, max_retry, basis.
    pub(super) retry: Option<(i32, u32, u32, u32, f32)>,
}

impl Kept {
    pub(super) fn said(data: &WorkerData) -> Self {
        let retry = data.retry_policy.as_ref().map(|policy| {
            let RetryPolicy { r#type, interval, max_interval, max_retry, basis } = *policy;
            (r#type, interval, max_interval, max_retry, basis)
        });
        let queue_type = QueueType::try_from(data.queue_type).unwrap_or(QueueType::Rdb).into();
        Self { operation: data.operation.clone(), queue_type, retry }
    }

    pub(super) fn of(handler: &Handler) -> Option<Self> {
        serde_json::from_str(handler.labels.get(LABEL)?).ok()
    }

    pub(super) fn keep(&self, handler: &mut Handler) {
        // Numbers and texts: there is nothing that could not be written.
        if let Ok(text) = serde_json::to_string(self) {
            handler.labels.insert(LABEL.to_owned(), text);
        }
    }

    pub(super) fn policy(&self) -> Option<RetryPolicy> {
        self.retry.map(|(r#type, interval, max_interval, max_retry, basis)| RetryPolicy {
            r#type,
            interval,
            max_interval,
            max_retry,
            basis,
        })
    }
}
