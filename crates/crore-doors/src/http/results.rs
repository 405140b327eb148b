//! Results, and waiting for them.

use axum::extract::State;
use axum::response::Response;
use crore_core::{JobId, Span};
use crore_wire::api::job::{Ended, Wait};
use crore_wire::api::payload::Said;
use http::{Method, StatusCode};

use super::fault::Fault;
use super::query::{Query, Segment};
use super::wants::Reply;
use crate::Doors;

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
    State(doors): State<Doors>,
    reply: Reply,
    id: Segment,
    Query(ask): Query<Wait>,
    method: Method,
) -> Result<Response, Fault> {
    let id = id.job()?;
    if method == Method::HEAD {
        // Whoever only looks takes nothing away.
        return look(&doors, reply, id).await;
    }
    let wait = doors.at_most(ask.wait);
    let Some(ended) = ended(&doors, id, wait).await? else { return look(&doors, reply, id).await };
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

/// How a job ended, now or within a while.
///
/// A server that drains waits for nobody's end, but what has ended it says, and a result that can be read
/// once is not taken for nobody.
pub(crate) async fn ended(
    doors: &Doors,
    id: JobId,
    wait: Span,
) -> Result<Option<crore::Ended>, Fault> {
    let engine = doors.engine();
    let ended = match engine.ended(id, Span::ZERO).await? {
        Some(ended) => Some(ended),
        None => tokio::select! {
            ended = engine.ended(id, wait) => ended?,
            () = doors.closing() => None,
        },
    };
    let Some(ended) = ended else { return Ok(None) };
    let result = engine.take_result(id).await?;
    Ok(Some(crore::Ended { result, ..ended }))
}

/// Where a job stands, without its result.
async fn look(doors: &Doors, reply: Reply, id: JobId) -> Result<Response, Fault> {
    let job = doors.engine().get(id).await?;
    let state = job.ok_or_else(|| Fault::missing(format!("job {id}")))?.live.state;
    let (result, result_base64, encoding, error) = (None, None, None, None);
    let (id, ended, state) = (id.into(), state.has_ended(), Some(state.into()));
    let status = if ended { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok(reply.with(status, &Ended { id, ended, state, result, result_base64, encoding, error }))
}
