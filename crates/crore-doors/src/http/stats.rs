//! Counts, and statistics over time.

use axum::extract::State;
use axum::response::Response;
use crore::store::views;
use crore_api::negotiation::Responder;
use crore_api::params::QueryParams;
use crore_api::{Api, Fault, Grant};
use crore_wire::api::queues::{Count, Counts, CountsQuery};
use crore_wire::api::stats::{StatsQuery, StatsResponse};

/// Counts jobs by queue, kind and state.
#[utoipa::path(
    get, path = "/v1/counts", operation_id = "counts", tag = "server",
    params(CountsQuery),
    responses((status = 200, description = "The counts; zeros are omitted.", body = Counts)),
)]
pub(super) async fn counts(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
    QueryParams(which): QueryParams<CountsQuery>,
) -> Result<Response, Fault> {
    let counts = api.counts(&grant, which.queue.as_deref()).await?;
    let shown = |count: &views::JobCount| Count {
        queue: count.queue.to_string(),
        kind: count.kind.to_string(),
        state: count.state.into(),
        n: count.n,
    };
    Ok(reply.ok(&Counts { counts: counts.iter().map(shown).collect() }))
}

/// Gets statistics of jobs over time, or by queue and kind.
#[utoipa::path(
    get, path = "/v1/stats", operation_id = "stats", tag = "server",
    params(StatsQuery),
    responses((status = 200, description = "The statistics.", body = StatsResponse)),
)]
pub(super) async fn stats(
    State(api): State<Api>,
    grant: Grant,
    reply: Responder,
    QueryParams(which): QueryParams<StatsQuery>,
) -> Result<Response, Fault> {
    Ok(reply.ok(&api.stats(&grant, which).await?))
}
