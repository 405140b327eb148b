//! The bodies of LightJQ, as they stand on the wire. Fields that are not known are ignored.

use crore_wire::Raw;
use crore_wire::api::DeliveryId;
use crore_wire::words::Moment;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// A job to push.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = lightjq::NewJob)]
pub(super) struct NewJob {
    /// What it is to do.
    #[schema(
        min_length = 1,
        max_length = 255,
        pattern = r"^[^\x00-\x1f\x7f-\x9f]*$",
        example = "mail"
    )]
    pub(super) name: String,
    /// What it is to do it with: one map.
    #[schema(value_type = Object)]
    pub(super) argument: Raw,
    /// Smaller first; 0 unless told otherwise.
    pub(super) priority: Option<i32>,
    /// How often it is tried again when it fails; 10 times unless told otherwise, 0: never.
    #[schema(maximum = 999)]
    pub(super) max_retry: Option<u32>,
    /// Whether its result waits for somebody to read it, once; otherwise it is discarded.
    pub(super) keep_result: Option<bool>,
    /// How long a run may take, in seconds; 30 unless told otherwise.
    #[schema(minimum = 1, maximum = 86390)]
    pub(super) timeout: Option<u64>,
}

/// The answer to a push.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = lightjq::Pushed)]
pub(super) struct Pushed {
    /// The job.
    #[schema(example = "17")]
    pub(super) job_id: String,
}

/// How long somebody waits for a job to end.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Polling {
    /// In seconds; 5 unless told otherwise. However long it is, the server has a longest wait of its own.
    #[param(maximum = 4294967295_u32)]
    pub(super) timeout: Option<u32>,
}

/// How a job stands.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = lightjq::Status)]
pub(super) struct Status {
    /// Where it stands.
    pub(super) status: Standing,
    /// Who has it, or had it last.
    pub(super) worker_id: Option<String>,
    /// What it gave, if that is kept and was not read before.
    #[schema(value_type = Raw)]
    pub(super) result: Option<Raw>,
    /// What its last failure gave, for programs.
    #[schema(value_type = Raw)]
    pub(super) error: Option<Raw>,
    /// What its last failure said, for people.
    pub(super) message: String,
    /// How often it was tried again.
    pub(super) retry_count: u32,
    /// When it ended.
    pub(super) finished_at: Option<Moment>,
}

/// Where a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = lightjq::Standing)]
pub(super) enum Standing {
    /// It was not tried yet.
    Queued,
    /// Somebody has it.
    Running,
    /// It failed, and waits to be tried again.
    Retrying,
    /// It failed for good.
    Error,
    /// It is done.
    Done,
}

/// A worker that registers. It is called at its `url`, or at its `host` and `port`; without them at the
/// address that it calls from, port 8080.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = lightjq::NewWorker)]
pub(super) struct NewWorker {
    /// Its name, which others may have too.
    #[schema(
        min_length = 1,
        max_length = 255,
        pattern = r"^[^\x00-\x1f\x7f-\x9f]*$",
        example = "mailer"
    )]
    pub(super) name: String,
    /// How many jobs it takes at once.
    #[schema(minimum = 1, maximum = 10000)]
    pub(super) max_jobs: u32,
    /// Where it is called; jobs are posted to `worker-job` below it.
    #[schema(example = "http://127.0.0.1:8080")]
    pub(super) url: Option<String>,
    /// Where it is called, if it has no `url`.
    pub(super) host: Option<String>,
    /// Where it is called, if it has no `url`.
    pub(super) port: Option<u16>,
}

/// The answer to a registration.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = lightjq::Registered)]
pub(super) struct Registered {
    /// By this the worker is known from now on.
    pub(super) worker_id: String,
}

/// A report about a job: by `/done`, or as the answer to `/worker-job` (then without `job_id`).
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = lightjq::Report)]
pub(super) struct Report {
    /// The job; needed by `/done`.
    pub(super) job_id: Option<String>,
    /// How it went.
    #[serde(rename = "type")]
    pub(super) ended: Ended,
    /// What it gave, if it went well.
    #[schema(value_type = Raw, required = false)]
    pub(super) result: Option<Raw>,
    /// Why not; needed by a failure.
    pub(super) reason: Option<Reason>,
    /// Whether it is to be tried again; needed by a failure.
    pub(super) should_retry: Option<bool>,
    /// What went wrong, for people; needed by a failure.
    pub(super) message: Option<String>,
    /// What went wrong, for programs.
    #[schema(value_type = Raw, required = false)]
    pub(super) error: Option<Raw>,
    /// Which delivery it is about; a worker that says it cannot be taken for another run of its own.
    pub(super) delivery: Option<DeliveryId>,
}

/// How it went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = lightjq::Ended)]
pub(super) enum Ended {
    /// Well.
    Success,
    /// Badly.
    Failure,
}

/// Why it did not go well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = lightjq::Reason)]
pub(super) enum Reason {
    /// It took too long.
    Timeout,
    /// Anything else.
    Other,
}

/// A job as a worker is given it. `id` and `job_id` are the same: the description of the protocol
/// lists one and requires the other.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = lightjq::WorkerJob)]
pub(super) struct WorkerJob<'a> {
    /// The job.
    pub(super) id: &'a str,
    /// The job.
    pub(super) job_id: &'a str,
    /// What it is to do.
    pub(super) name: &'a str,
    /// What it is to do it with.
    #[schema(value_type = Object)]
    pub(super) argument: Raw,
    /// How long that may take, in seconds.
    pub(super) timeout: u64,
    /// Which delivery of the job this is: never used again, and larger for each next one.
    pub(super) delivery: DeliveryId,
    /// How often it was tried before.
    pub(super) retry_count: u32,
}
