//! Results, and waiting for them.

use axum::extract::State;
use axum::response::Response;
use crore_api::negotiation::Reply;
use crore_api::params::{PathParam, Query};
use crore_api::{Api, Fault};
use crore_core::JobId;
use crore_wire::api::job::{Ended, Wait};
use crore_wire::api::payload::Said;
use http::{Method, StatusCode};

/// How a job ended, as soon as it has.
///
/// It waits for that as long as asked. A result that can be read once is taken away by the first who
/// hears it.
#[utoipa::path(
    get, path = "/v1/jobs/{id}/result", operation_id = "getResult", tag = "jobs",
    params(("id" = crore_wire::api::Id, Path, description = "The job."), Wait),
    responses(
        (status = 200, description = "It has ended.", body = Ended),
        (status = 202, description = "It has not ended yet.", body = Ended),
    ),
)]
pub(super) async fn result(
    State(api): State<Api>,
    reply: Reply,
    id: PathParam,
    Query(ask): Query<Wait>,
    method: Method,
) -> Result<Response, Fault> {
    let id = id.job()?;
    if method == Method::HEAD {
        // A HEAD request takes no result.
        return look(&api, reply, id).await;
    }
    let wait = api.granted(ask.wait);
    let Some(ended) = api.wait_for_job(id, wait).await? else {
        return look(&api, reply, id).await;
    };
    let result = ended.result.as_ref().map(|result| Said::of(result, reply.0)).unwrap_or_default();
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

/// Where a job stands, without its result.
async fn look(api: &Api, reply: Reply, id: JobId) -> Result<Response, Fault> {
    let state = api.get_job(id).await?.live.state;
    let (result, result_base64, encoding, error) = (None, None, None, None);
    let (id, ended, state) = (id.into(), state.has_ended(), Some(state.into()));
    let status = if ended { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok(reply.with(status, &Ended { id, ended, state, result, result_base64, encoding, error }))
}
