//! Results, and waiting for them.

use axum::extract::State;
use axum::response::Response;
use crore_api::negotiation::Responder;
use crore_api::params::{PathParam, QueryParams};
use crore_api::{Api, Fault, Grant};
use crore_core::JobId;
use crore_wire::api::job::{Ended, WaitQuery};
use crore_wire::api::payload::WirePayload;
use http::{Method, StatusCode};

/// Gets the result of a job, waiting up to `wait` for the job to end.
///
/// The result of a job with `read_once` is deleted by the first call that returns it.
#[utoipa::path(
    get, path = "/v1/jobs/{id}/result", operation_id = "getResult", tag = "jobs",
    params(("id" = crore_wire::api::JobPathId, Path, description = "The job."), WaitQuery),
    responses(
        (status = 200, description = "The job has ended.", body = Ended),
        (status = 202, description = "The job has not ended yet.", body = Ended),
    ),
)]
pub(super) async fn result(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
    (id, QueryParams(query)): (PathParam, QueryParams<WaitQuery>),
    method: Method,
) -> Result<Response, Fault> {
    let id = id.job()?;
    if method == Method::HEAD {
        // A HEAD request must not consume the result.
        api.check_result(&grant, id).await?;
        return current_state(&api, reply, id).await;
    }
    let wait = api.bounded_wait(query.wait);
    let Some(ended) = api.wait_for_job(&grant, id, wait).await? else {
        return current_state(&api, reply, id).await;
    };
    let result =
        ended.result.as_ref().map(|result| WirePayload::of(result, reply.0)).unwrap_or_default();
    Ok(reply.ok(&Ended {
        id: id.into(),
        ended: true,
        state: ended.state.map(Into::into),
        result: result.value,
        result_base64: result.base64,
        encoding: result.encoding,
        error: ended.error.as_ref().map(ToString::to_string),
    }))
}

/// The state of a job whose result the caller may have, without the result.
async fn current_state(api: &Api, reply: Responder, id: JobId) -> Result<Response, Fault> {
    let job = api.engine().get(id).await?.ok_or_else(|| Fault::missing(format!("job {id}")))?;
    let state = job.live.state;
    let (result, result_base64, encoding, error) = (None, None, None, None);
    let (id, ended, state) = (id.into(), state.has_ended(), Some(state.into()));
    let status = if ended { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok(reply.with(status, &Ended { id, ended, state, result, result_base64, encoding, error }))
}
