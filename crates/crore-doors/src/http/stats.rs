//! Counts, and statistics over time.

use axum::extract::State;
use axum::response::Response;
use crore::store::views;
use crore_api::negotiation::Reply;
use crore_api::params::Query;
use crore_api::{Api, Fault};
use crore_wire::api::queues::{Count, Counts, InQueue};
use crore_wire::api::stats::{Stats, WhichStats};

/// How many jobs there are, by queue, kind and state.
#[utoipa::path(
    get, path = "/v1/counts", operation_id = "counts", tag = "server",
    params(InQueue),
    responses((status = 200, description = "The counts; zeros are left out.", body = Counts)),
)]
pub(super) async fn counts(
    State(api): State<Api>,
    reply: Reply,
    Query(which): Query<InQueue>,
) -> Result<Response, Fault> {
    let counts = api.counts(which.queue.as_deref()).await?;
    let shown = |count: &views::Count| Count {
        queue: count.queue.to_string(),
        kind: count.kind.to_string(),
        state: count.state.into(),
        n: count.n,
    };
    Ok(reply.ok(&Counts { counts: counts.iter().map(shown).collect() }))
}

/// How often something happened, over time.
#[utoipa::path(
    get, path = "/v1/stats", operation_id = "stats", tag = "server",
    params(WhichStats),
    responses((status = 200, description = "The statistic, oldest first.", body = Stats)),
)]
pub(super) async fn stats(
    State(api): State<Api>,
    reply: Reply,
    Query(which): Query<WhichStats>,
) -> Result<Response, Fault> {
    Ok(reply.ok(&api.stats(which).await?))
}
