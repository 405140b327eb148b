//! Live streams: what happens, and how far an act has come.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use crore::events::Heard;
use crore_api::calls::{self, BulkAct, BulkStep};
use crore_api::params::Query;
use crore_api::{Api, Fault};
use crore_wire::api::events::{MissedEvents, WhichEvents};
use futures_util::stream::{Stream, StreamExt, unfold};
use serde::Serialize;

/// How often a silent stream says that it is there.
const ALIVE: Duration = Duration::from_secs(15);

/// Hears what happens to jobs, from now on.
///
/// Events named `job` say what happened, when it is durable. Whoever is too slow hears `missed` with how
/// many are lost to him, and may look by himself.
#[utoipa::path(
    get, path = "/v1/events", operation_id = "events", tag = "server",
    params(WhichEvents),
    responses((status = 200, description = "A stream of `job` and `missed` events.", content((String = "text/event-stream")))),
)]
pub(super) async fn listen(
    State(api): State<Api>,
    Query(which): Query<WhichEvents>,
) -> Result<Response, Fault> {
    let subscription = api.subscribe(&which)?;
    let stream = unfold(subscription, |mut subscription| async {
        let event = match subscription.next().await? {
            Heard::Missed(n) => event("missed", &MissedEvents { n }),
            Heard::Event(one) => event("job", &calls::event(&one)),
        };
        Some((Ok::<_, Infallible>(event), subscription))
    });
    Ok(alive(stream).into_response())
}

fn alive<S>(stream: S) -> Sse<impl Stream<Item = Result<Event, Infallible>>>
where
    S: Stream<Item = Result<Event, Infallible>> + Send + 'static,
{
    Sse::new(stream).keep_alive(KeepAlive::new().interval(ALIVE))
}

fn event<T: Serialize>(name: &str, value: &T) -> Event {
    let data = serde_json::to_string(value).unwrap_or_default();
    Event::default().event(name).data(data)
}

/// The progress of a bulk act, as events.
pub(super) fn progress(
    api: &Api,
    bulk: BulkAct,
) -> Sse<impl Stream<Item = Result<Event, Infallible>> + use<>> {
    alive(api.act_on_all_in_steps(bulk).map(|step| {
        Ok(match step {
            BulkStep::Progress(progress) => event("progress", &progress),
            BulkStep::Done(progress) => event("done", &progress),
            BulkStep::Failed(fault) => event("failed", fault.problem()),
        })
    }))
}
