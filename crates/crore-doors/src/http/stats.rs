//! Counts, and statistics over time.

use axum::extract::State;
use axum::response::Response;
use crore::store::views;
use crore_core::Name;
use crore_wire::api::queues::{Count, Counts, InQueue};
use crore_wire::api::stats::{Point, Stats, Step, WhichStats};
use crore_wire::words::Moment;

use super::fault::Fault;
use super::query::{Query, name};
use super::wants::Reply;
use crate::Doors;

/// How many jobs there are, by queue, kind and state.
#[utoipa::path(
    get, path = "/v1/counts", operation_id = "counts", tag = "server",
    params(InQueue),
    responses((status = 200, description = "The counts; zeros are left out.", body = Counts)),
)]
pub(super) async fn counts(
    State(doors): State<Doors>,
    reply: Reply,
    Query(which): Query<InQueue>,
) -> Result<Response, Fault> {
    let counts = doors.engine().counts(name("queue", which.queue.as_deref())?).await?;
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
    State(doors): State<Doors>,
    reply: Reply,
    Query(WhichStats { series, step }): Query<WhichStats>,
) -> Result<Response, Fault> {
    let step = step.unwrap_or_default();
    let fine = match step {
        Step::Minute => views::Step::Minute,
        Step::Hour => views::Step::Hour,
    };
    let points = doors.engine().stats(Name::new("series", series.name())?, fine).await?;
    let points = points.into_iter().map(|(at, n)| Point { at: Moment(at), n }).collect();
    Ok(reply.ok(&Stats { series, step, points }))
}
