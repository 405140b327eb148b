//! Replays of jobs.

use axum::extract::State;
use axum::response::Response;
use crore_api::body::RawBody;
use crore_api::calls::ReplayCall;
use crore_api::negotiation::Responder;
use crore_api::params::PathParam;
use crore_api::telemetry::TraceContext;
use crore_api::{Api, Fault, Grant};
use crore_wire::api::push::Pushed;
use crore_wire::api::replay::Replay;

use super::push::{idempotency_key, single_response};

/// Pushes a replay of a job: a new job with its definition, and with edits.
///
/// The original may be in any state and stays unchanged. The replay has a link to it in `replay_of`, and its own id. It
/// does not take over the client id, group, dependencies, deadline and trace context. Also needs to read the original:
/// the scope `read`, or a token with the same name as the token that pushed it.
#[utoipa::path(
    post, path = "/v1/jobs/{id}/replay", operation_id = "replayJob", tag = "jobs",
    params(
        ("id" = crore_wire::api::JobPathId, Path, description = "The original."),
        ("Idempotency-Key" = Option<String>, Header, description = "Key under which this replay can be safely repeated.", max_length = 200),
    ),
    request_body = Replay,
    responses(
        (status = 201, description = "The replay was stored.", body = Pushed),
        (status = 200, description = "A job holds the unique key of the original; nothing was stored.", body = Pushed),
    ),
)]
pub(super) async fn replay(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
    id: PathParam,
    sent: RawBody,
) -> Result<Response, Fault> {
    let key = idempotency_key(&sent.headers)?;
    let replay: Replay = sent.format.decode(&sent.bytes)?;
    let edits = replay.read(sent.format)?;
    let context = TraceContext::text_from_headers(&sent.headers);
    let call = ReplayCall {
        original: id.job()?.into(),
        edits: &edits,
        key: key.as_ref(),
        context: context.as_ref(),
    };
    let (id, status) = api.replay_job(&grant, call).await?;
    Ok(single_response(reply, &Pushed { status, id: Some(id.into()), problem: None }))
}
