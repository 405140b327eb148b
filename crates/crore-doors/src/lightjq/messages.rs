//! The bodies of LightJQ. Unknown fields are ignored.

use crore_wire::Raw;
use crore_wire::api::DeliveryId;
use crore_wire::units::Moment;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// A job to push.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = lightjq::NewJob)]
pub(super) struct LightJqNewJob {
    /// Name of the job; it is the kind.
    #[schema(
        min_length = 1,
        max_length = 255,
        pattern = r"^[^\x00-\x1f\x7f-\x9f]*$",
        example = "mail"
    )]
    pub(super) name: String,
    /// Argument of the job: any value.
    #[schema(value_type = Raw)]
    pub(super) argument: Raw,
    /// Priority, smaller first; default 0.
    pub(super) priority: Option<i32>,
    /// Maximum number of retries; default 10.
    #[schema(maximum = 999)]
    pub(super) max_retry: Option<u32>,
    /// Whether the result is kept until it is read, once; otherwise it is discarded.
    pub(super) keep_result: Option<bool>,
    /// Timeout of a run, in seconds; default 30.
    #[schema(minimum = 1, maximum = 86390)]
    pub(super) timeout: Option<u64>,
}

/// Response to a push.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = lightjq::Pushed)]
pub(super) struct LightJqPushed {
    /// Id of the job.
    #[schema(example = "17")]
    pub(super) job_id: String,
}

/// Wait for a job to end.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct PollingQuery {
    /// Maximum wait in seconds; default 5. The server's own maximum applies.
    #[param(maximum = 4294967295_u32)]
    pub(super) timeout: Option<u32>,
}

/// Status of a job.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = lightjq::Status)]
pub(super) struct LightJqStatus {
    /// State of the job.
    pub(super) status: LightJqState,
    /// The worker that has the job, or had it last.
    pub(super) worker_id: Option<String>,
    /// The result, if it is kept and was not read before.
    #[schema(value_type = Raw)]
    pub(super) result: Option<Raw>,
    /// Error of the last failure, for programs.
    #[schema(value_type = Raw)]
    pub(super) error: Option<Raw>,
    /// Message of the last failure, for people.
    pub(super) message: String,
    /// Reason of the last failure.
    pub(super) reason: Option<FailureReason>,
    /// Number of retries so far.
    pub(super) retry_count: u32,
    /// When the job ended: as its worker reported, or else when the server recorded it.
    pub(super) finished_at: Option<Moment>,
}

/// State of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = lightjq::Standing)]
pub(super) enum LightJqState {
    /// Not tried yet.
    Queued,
    /// A worker has the job.
    Running,
    /// Failed, and waits for a retry.
    Retrying,
    /// Failed for good.
    Error,
    /// Done.
    Done,
}

/// A worker to register. The server calls it at `url`, or at `host` and `port`; the default is the address it
/// registers from, port 8080.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = lightjq::NewWorker)]
pub(super) struct LightJqNewWorker {
    /// Name of the worker; need not be unique.
    #[schema(
        min_length = 1,
        max_length = 255,
        pattern = r"^[^\x00-\x1f\x7f-\x9f]*$",
        example = "mailer"
    )]
    pub(super) name: String,
    /// Maximum number of concurrent jobs.
    #[schema(minimum = 1, maximum = 10000)]
    pub(super) max_jobs: u32,
    /// URL of the worker; jobs are posted to `worker-job` below it.
    #[schema(example = "http://127.0.0.1:8080")]
    pub(super) url: Option<String>,
    /// Host of the worker, if it has no `url`.
    pub(super) host: Option<String>,
    /// Port of the worker, if it has no `url`.
    pub(super) port: Option<u16>,
}

/// Response to a registration.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = lightjq::Registered)]
pub(super) struct LightJqRegistered {
    /// Id of the worker, for its further calls.
    pub(super) worker_id: String,
}

/// A report about a job: by `/done`, or in the response to `/worker-job` (then without `job_id`).
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = lightjq::Report)]
pub(super) struct LightJqReport {
    /// Id of the job; required by `/done`.
    pub(super) job_id: Option<String>,
    /// Outcome of the job.
    #[serde(rename = "type")]
    pub(super) ended: ReportType,
    /// Result of a success.
    #[schema(value_type = Raw, required = false)]
    pub(super) result: Option<Raw>,
    /// Reason of a failure; required for a failure.
    pub(super) reason: Option<FailureReason>,
    /// Whether a failed job is retried; required for a failure.
    pub(super) should_retry: Option<bool>,
    /// Error message for people; required for a failure.
    pub(super) message: Option<String>,
    /// Error for programs.
    #[schema(value_type = Raw, required = false)]
    pub(super) error: Option<Raw>,
    /// When the worker finished, in ISO 8601; without a zone, in UTC.
    #[schema(example = "2026-11-15T08:00:00Z")]
    pub(super) finished_at: Option<String>,
    /// Delivery that the report is about; without it, the worker's current delivery of the job.
    pub(super) delivery: Option<DeliveryId>,
}

/// Outcome of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = lightjq::Ended)]
pub(super) enum ReportType {
    /// Success.
    Success,
    /// Failure.
    Failure,
}

/// Reason of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = lightjq::Reason)]
pub(super) enum FailureReason {
    /// The run timed out.
    Timeout,
    /// Any other reason.
    Other,
}

/// A job as a push worker receives it. `id` and `job_id` are the same: LightJQ's protocol description lists one and
/// requires the other.
/// Never instantiated: the argument may be a value that serde cannot represent.
#[derive(Debug, ToSchema)]
#[schema(as = lightjq::WorkerJob)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct LightJqWorkerJob {
    /// Id of the job.
    pub(super) id: String,
    /// Id of the job.
    pub(super) job_id: String,
    /// Name of the job.
    pub(super) name: String,
    /// Argument of the job.
    #[schema(value_type = Raw)]
    pub(super) argument: Raw,
    /// Timeout of the run, in seconds.
    pub(super) timeout: u64,
    /// Number of this delivery: unique, and larger for each later delivery.
    pub(super) delivery: DeliveryId,
    /// Number of retries before this run.
    pub(super) retry_count: u32,
}
