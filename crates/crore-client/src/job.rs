//! A job to push, word by word.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crore_core::JobId;
use crore_wire::grpc::v1::{self, after, new_job};
use serde::Serialize;

use crate::Error;

/// A job to push.
///
/// ```
/// use std::time::Duration;
/// use crore_client::Job;
///
/// # fn main() -> Result<(), crore_client::Error> {
/// let job = Job::new("mail")
///     .json(&["to@example.com", "hello"])?
///     .priority(-5)
///     .delay(Duration::from_secs(60))
///     .attempts(3)
///     .unique("mail to@example.com");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq)]
#[must_use = "a job does nothing until it is pushed"]
pub struct Job(pub(crate) v1::NewJob);

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

impl Job {
    /// A job of a kind, in the queue of that name.
    pub fn new(kind: impl Into<String>) -> Self {
        Self(v1::NewJob { kind: kind.into(), ..v1::NewJob::default() })
    }

    /// Where it waits.
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.0.queue = queue.into();
        self
    }

    /// What it is to do it with, as JSON.
    pub fn json<T: Serialize + ?Sized>(self, value: &T) -> Result<Self, Error> {
        let bytes = serde_json::to_vec(value)?;
        Ok(self.payload(v1::Encoding::Json, bytes))
    }

    /// The same as bytes.
    pub fn bytes(self, bytes: impl Into<bytes::Bytes>) -> Self {
        self.payload(v1::Encoding::Bytes, bytes)
    }

    /// The same in any encoding.
    pub fn payload(mut self, encoding: v1::Encoding, bytes: impl Into<bytes::Bytes>) -> Self {
        self.0.payload = Some(bytes.into());
        self.0.encoding = encoding.into();
        self
    }

    /// Smaller first.
    pub fn priority(mut self, priority: i32) -> Self {
        self.0.priority = priority;
        self
    }

    /// Not before this long from now.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.0.when = Some(new_job::When::DelayMs(millis(delay)));
        self
    }

    /// Not before this instant.
    pub fn due(mut self, due: SystemTime) -> Self {
        let since = due.duration_since(UNIX_EPOCH).map_or(0, millis);
        self.0.when = Some(new_job::When::DueMs(i64::try_from(since).unwrap_or(i64::MAX)));
        self
    }

    /// How many attempts there are in all.
    pub fn attempts(mut self, n: u32) -> Self {
        self.0.retry.get_or_insert_default().max_attempts = Some(n);
        self
    }

    /// When it is tried again.
    pub fn retry(mut self, retry: v1::Retry) -> Self {
        self.0.retry = Some(retry);
        self
    }

    /// How long a run may take.
    pub fn timeout(mut self, span: Duration) -> Self {
        self.0.timeout_ms = Some(millis(span));
        self
    }

    /// How long its worker may be silent.
    pub fn lease(mut self, span: Duration) -> Self {
        self.0.lease_ms = Some(millis(span));
        self
    }

    /// At most one such job at a time, until it has ended.
    pub fn unique(mut self, key: impl Into<String>) -> Self {
        self.0.unique = Some(v1::Unique { key: key.into(), ..v1::Unique::default() });
        self
    }

    /// Your own id for it: a push that is said again is pushed once.
    pub fn client_id(mut self, id: impl Into<String>) -> Self {
        self.0.client_id = id.into();
        self
    }

    /// How long its result is kept.
    pub fn keep_result(mut self, span: Duration) -> Self {
        self.0.keep_result_ms = Some(millis(span));
        self
    }

    /// Whether it is kept when it is done, for people to look at; as its queue's settings say, unless told otherwise.
    pub fn retain(mut self, retain: v1::Retain) -> Self {
        self.0.retain = retain.into();
        self
    }

    /// A free mark.
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.0.labels.insert(name.into(), value.into());
        self
    }

    /// It waits until that job has succeeded.
    pub fn after(mut self, job: JobId) -> Self {
        let on = Some(after::On::Job(job.0));
        self.0.after.push(v1::After { on, needs: v1::Needs::Success.into() });
        self
    }

    /// Trace context, carried to its run.
    pub fn trace(mut self, context: impl Into<String>) -> Self {
        self.0.trace = context.into();
        self
    }

    /// All that the wire has words for.
    pub fn with(mut self, change: impl FnOnce(&mut v1::NewJob)) -> Self {
        change(&mut self.0);
        self
    }
}
