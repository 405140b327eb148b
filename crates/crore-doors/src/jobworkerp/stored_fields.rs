//! Fields of a worker for which a handler has no field. They are stored in a label, and used only while they still
//! mean the same as the handler's settings.

use crore_core::Handler;
use crore_wire::grpc::jobworkerp::data::{QueueType, RetryPolicy, WorkerData};
use serde::{Deserialize, Serialize};

const LABEL: &str = "jobworkerp";

/// The stored fields.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct StoredFields {
    /// As written, with its whitespace.
    pub(super) operation: String,
    pub(super) queue_type: i32,
    /// Type, interval, max_interval, max_retry, basis.
    pub(super) retry: Option<(i32, u32, u32, u32, f32)>,
}

impl StoredFields {
    pub(super) fn from_worker(data: &WorkerData) -> Self {
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

    pub(super) fn store(&self, handler: &mut Handler) {
        // Serialization cannot fail: the fields are numbers and strings.
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
