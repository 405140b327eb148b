//! Builder for a job to push.

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
    /// A job of a kind.
    pub fn new(kind: impl Into<String>) -> Self {
        Self(v1::NewJob { kind: kind.into(), ..v1::NewJob::default() })
    }

    /// Sets the queue. Default: the queue of the kind's handler, or the queue named after the kind.
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.0.queue = queue.into();
        self
    }

    /// Sets the payload, serialized as JSON.
    pub fn json<T: Serialize + ?Sized>(self, value: &T) -> Result<Self, Error> {
        let bytes = serde_json::to_vec(value)?;
        Ok(self.payload(v1::Encoding::Json, bytes))
    }

    /// Sets the payload as bytes.
    pub fn bytes(self, bytes: impl Into<bytes::Bytes>) -> Self {
        self.payload(v1::Encoding::Bytes, bytes)
    }

    /// Sets the payload with its encoding.
    pub fn payload(mut self, encoding: v1::Encoding, bytes: impl Into<bytes::Bytes>) -> Self {
        self.0.payload = Some(bytes.into());
        self.0.encoding = encoding.into();
        self
    }

    /// Sets the priority. Smaller numbers run first; the default is 0.
    pub fn priority(mut self, priority: i32) -> Self {
        self.0.priority = priority;
        self
    }

    /// Requires a version of the kind, such as `>=2.3 <3`: only workers that [name](crate::Worker::kind_version) such a
    /// version get the job.
    pub fn worker_version(mut self, requirement: impl Into<String>) -> Self {
        self.0.worker_version = requirement.into();
        self
    }

    /// Holds the job until this event is sent; the job gets its payload. After a time-out the job is cancelled.
    pub fn wait_for(mut self, event: impl Into<String>, timeout: Option<Duration>) -> Self {
        let (event, timeout_ms) = (event.into(), timeout.map(millis));
        self.0.wait_for = Some(v1::WaitFor { event, timeout_ms, on_timeout: 0 });
        self
    }

    /// Delays the job by this long from now.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.0.when = Some(new_job::When::DelayMs(millis(delay)));
        self
    }

    /// Delays the job until this time.
    pub fn due(mut self, due: SystemTime) -> Self {
        let since = due.duration_since(UNIX_EPOCH).map_or(0, millis);
        self.0.when = Some(new_job::When::DueMs(i64::try_from(since).unwrap_or(i64::MAX)));
        self
    }

    /// Sets a deadline: a job that has not started within this span is cancelled as expired.
    pub fn start_within(mut self, span: Duration) -> Self {
        self.0.start_by = Some(new_job::StartBy::StartWithinMs(millis(span)));
        self
    }

    /// Sets a deadline at this time: a job that has not started by then is cancelled as expired.
    pub fn deadline(mut self, deadline: SystemTime) -> Self {
        let since = deadline.duration_since(UNIX_EPOCH).map_or(0, millis);
        let at = i64::try_from(since).unwrap_or(i64::MAX);
        self.0.start_by = Some(new_job::StartBy::DeadlineMs(at));
        self
    }

    /// Sets the follow-up that is pushed if the job misses its deadline.
    pub fn on_expired(mut self, follow_up: Self) -> Self {
        self.0.on_expired = Some(Box::new(follow_up.0));
        self
    }

    /// Limits the number of attempts.
    pub fn attempts(mut self, n: u32) -> Self {
        self.0.retry.get_or_insert_default().max_attempts = Some(n);
        self
    }

    /// Sets the retry policy.
    pub fn retry(mut self, retry: v1::Retry) -> Self {
        self.0.retry = Some(retry);
        self
    }

    /// Sets the timeout of a run.
    pub fn timeout(mut self, span: Duration) -> Self {
        self.0.timeout_ms = Some(millis(span));
        self
    }

    /// Sets the lease: how long the worker may go without renewing it.
    pub fn lease(mut self, span: Duration) -> Self {
        self.0.lease_ms = Some(millis(span));
        self
    }

    /// Makes the job unique: until a job with this key has ended, another push with the key stores nothing.
    pub fn unique(mut self, key: impl Into<String>) -> Self {
        self.0.unique = Some(v1::Unique { key: key.into(), ..v1::Unique::default() });
        self
    }

    /// Sets an id chosen by the caller. A push that is repeated with the same id stores nothing.
    pub fn client_id(mut self, id: impl Into<String>) -> Self {
        self.0.client_id = id.into();
        self
    }

    /// Keeps the result for this long after the job is done.
    pub fn keep_result(mut self, span: Duration) -> Self {
        self.0.keep_result_ms = Some(millis(span));
        self
    }

    /// Sets whether the job is kept after it is done, for inspection. Default: by the settings of its queue.
    pub fn retain(mut self, retain: v1::Retain) -> Self {
        self.0.retain = retain.into();
        self
    }

    /// Adds a label.
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.0.labels.insert(name.into(), value.into());
        self
    }

    /// Holds the job until another job has succeeded.
    pub fn after(mut self, job: JobId) -> Self {
        let on = Some(after::On::Job(job.0));
        self.0.after.push(v1::After { on, needs: v1::Needs::Success.into() });
        self
    }

    /// Sets the trace context, which is passed on to the run.
    pub fn trace(mut self, context: impl Into<String>) -> Self {
        self.0.trace = context.into();
        self
    }

    /// Changes any field of the gRPC message.
    pub fn with(mut self, change: impl FnOnce(&mut v1::NewJob)) -> Self {
        change(&mut self.0);
        self
    }
}
