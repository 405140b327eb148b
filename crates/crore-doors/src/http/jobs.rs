//! Reading jobs.

use axum::extract::State;
use axum::response::Response;
use crore_api::calls::JobPage;
use crore_api::negotiation::Responder;
use crore_api::params::{PathParam, QueryParams};
use crore_api::{Api, Fault, Grant, ResponseRoom};
use crore_wire::api::diff::JobDiff;
use crore_wire::api::job::{Explanation, Job, JobView, Jobs, JobsQuery};

/// Lists jobs, without their payloads. A filter in `q` searches by any field; state, queue, kind, ids and times are
/// looked up in indexes, and other terms by a scan that ends early.
#[utoipa::path(
    get, path = "/v1/jobs", operation_id = "listJobs", tag = "jobs",
    params(JobsQuery),
    responses((status = 200, description = "A page of jobs.", body = Jobs)),
)]
pub(super) async fn list(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
    QueryParams(which): QueryParams<JobsQuery>,
) -> Result<Response, Fault> {
    let JobPage { jobs, next, scanned } = api.list_jobs(&grant, which).await?;
    let (scanned, complete) = (scanned as u64, next.is_none());
    let jobs = jobs.iter().map(|job| Job::of(job, reply.0, JobView::Summary)).collect();
    Ok(reply.ok(&Jobs { jobs, next, scanned, complete }))
}

/// Gets a job.
#[utoipa::path(
    get, path = "/v1/jobs/{id}", operation_id = "getJob", tag = "jobs",
    params(("id" = crore_wire::api::JobPathId, Path, description = "The job.")),
    responses((status = 200, description = "The job.", body = Job)),
)]
pub(super) async fn get(
    State(api): State<Api>,
    grant: Grant,
    (reply, room): (Responder, ResponseRoom),
    id: PathParam,
) -> Result<Response, Fault> {
    let job = api.get_job(&grant, id.job()?).await?;
    let bytes = job.spec.payload.bytes.len();
    room.check(bytes)?;
    Ok(reply.ok_sized(&Job::of(&job, reply.0, JobView::Full), bytes + JOB_BYTES))
}

/// About the size of a response with a job, without its payload.
const JOB_BYTES: usize = 1024;

/// Compares the payload of a job with that of the newest other job of its queue and kind that is done, field by field,
/// and the versions of their workers.
#[utoipa::path(
    get, path = "/v1/jobs/{id}/diff", operation_id = "diffJob", tag = "jobs",
    params(("id" = crore_wire::api::JobPathId, Path, description = "The job.")),
    responses((status = 200, description = "The fields that differ.", body = JobDiff)),
)]
pub(super) async fn diff(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
    id: PathParam,
) -> Result<Response, Fault> {
    Ok(reply.ok(&api.diff_job(&grant, id.job()?).await?))
}

/// Explains why a job is not running.
#[utoipa::path(
    get, path = "/v1/jobs/{id}/explain", operation_id = "explainJob", tag = "jobs",
    params(("id" = crore_wire::api::JobPathId, Path, description = "The job.")),
    responses((status = 200, description = "What the job is waiting for.", body = Explanation)),
)]
pub(super) async fn explain(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
    id: PathParam,
) -> Result<Response, Fault> {
    Ok(reply.ok(&api.explain_job(&grant, id.job()?).await?))
}
