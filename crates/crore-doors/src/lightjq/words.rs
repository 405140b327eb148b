//! The bodies of LightJQ, as they stand on the wire. Fields that are not known are ignored.

use crore_wire::Raw;
use crore_wire::api::DeliveryId;
use crore_wire::words::Moment;
use serde::{Deserialize, Serialize};

/// A job to push.
#[derive(Debug, Deserialize)]
pub(super) struct NewJob {
    pub(super) name: String,
    pub(super) argument: Raw,
    pub(super) priority: Option<i32>,
    pub(super) max_retry: Option<u32>,
    pub(super) keep_result: Option<bool>,
    /// In seconds.
    pub(super) timeout: Option<u64>,
}

/// The answer to a push.
#[derive(Debug, Serialize)]
pub(super) struct Pushed {
    pub(super) job_id: String,
}

/// How a job stands.
#[derive(Debug, Serialize)]
pub(super) struct Status {
    pub(super) status: Standing,
    pub(super) worker_id: Option<String>,
    pub(super) result: Option<Raw>,
    pub(super) error: Option<Raw>,
    pub(super) message: String,
    pub(super) retry_count: u32,
    pub(super) finished_at: Option<Moment>,
}

/// Where a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Standing {
    Queued,
    Running,
    Retrying,
    Error,
    Done,
}

/// A worker that registers. It says where it is called by `url`, or by `host` and `port`.
#[derive(Debug, Deserialize)]
pub(super) struct NewWorker {
    pub(super) name: String,
    pub(super) max_jobs: u32,
    pub(super) url: Option<String>,
    pub(super) host: Option<String>,
    pub(super) port: Option<u16>,
}

/// The answer to a registration.
#[derive(Debug, Serialize)]
pub(super) struct Registered {
    pub(super) worker_id: String,
}

/// A report about a job: by `/done`, or as the answer to `/worker-job` (then without `job_id`).
#[derive(Debug, Deserialize)]
pub(super) struct Report {
    pub(super) job_id: Option<String>,
    #[serde(rename = "type")]
    pub(super) ended: Ended,
    pub(super) result: Option<Raw>,
    pub(super) reason: Option<Reason>,
    pub(super) should_retry: Option<bool>,
    pub(super) message: Option<String>,
    pub(super) error: Option<Raw>,
    /// Which delivery it is about; a worker that says it cannot be taken for another run of its own.
    pub(super) delivery: Option<DeliveryId>,
}

/// How it went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Ended {
    Success,
    Failure,
}

/// Why it did not go well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Reason {
    Timeout,
    Other,
}

/// A job as a worker is given it. `id` and `job_id` are the same: the description of the protocol
/// lists one and requires the other.
#[derive(Debug, Serialize)]
pub(super) struct WorkerJob<'a> {
    pub(super) id: &'a str,
    pub(super) job_id: &'a str,
    pub(super) name: &'a str,
    pub(super) argument: Raw,
    pub(super) timeout: u64,
    pub(super) delivery: DeliveryId,
    pub(super) retry_count: u32,
}
