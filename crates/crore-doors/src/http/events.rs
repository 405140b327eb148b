//! Server-sent events: job events, and the progress of bulk acts.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use crore::events::ListenerItem;
use crore_api::calls::{self, BulkAction, BulkStep};
use crore_api::params::QueryParams;
use crore_api::{Api, Fault, Grant};
use crore_core::Invalid;
use crore_wire::api::events::{EventsQuery, MissedEvents};
use futures_util::stream::{Stream, StreamExt, unfold};
use serde::Serialize;

/// Interval of keep-alive comments on an idle stream.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Streams events from now on: changes of jobs, and named events that programs send.
///
/// A `job` event is sent when the change is durable. An `event.sent` event names an event that a program sent; it is left
/// out if a queue or a kind is given, and for tokens that are restricted to some. A client that reads too slowly receives `missed` with the number
/// of events it lost.
#[utoipa::path(
    get, path = "/v1/events", operation_id = "events", tag = "server",
    params(EventsQuery),
    responses((status = 200, description = "A stream of `job`, `event.sent` and `missed` events.", content((String = "text/event-stream")))),
)]
pub(super) async fn listen(
    State(api): State<Api>,
    grant: Grant,
    QueryParams(which): QueryParams<EventsQuery>,
) -> Result<Response, Fault> {
    let subscription = api.subscribe(&grant, &which)?;
    let stream = unfold(subscription, |mut subscription| async {
        let event = match subscription.next().await? {
            ListenerItem::Missed(n) => event("missed", &MissedEvents { n }),
            ListenerItem::Event(one) => event("job", &calls::event(&one)),
            ListenerItem::Sent(sent) => event("event.sent", &calls::sent_event(&sent)),
        };
        Some((Ok::<_, Infallible>(event), subscription))
    });
    Ok(with_keep_alive(stream).into_response())
}

fn with_keep_alive<S>(stream: S) -> Sse<impl Stream<Item = Result<Event, Infallible>>>
where
    S: Stream<Item = Result<Event, Infallible>> + Send + 'static,
{
    Sse::new(stream).keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
}

fn event<T: Serialize>(name: &str, value: &T) -> Event {
    let data = serde_json::to_string(value).unwrap_or_default();
    Event::default().event(name).data(data)
}

/// The progress of a bulk act, as events.
pub(super) fn progress(
    api: &Api,
    grant: &Grant,
    bulk: BulkAction,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>> + use<>>, Invalid> {
    Ok(with_keep_alive(api.act_on_all_in_steps(grant, bulk)?.map(|step| {
        Ok(match step {
            BulkStep::Progress(progress) => event("progress", &progress),
            BulkStep::Done(progress) => event("done", &progress),
            BulkStep::Failed(fault) => event("failed", fault.problem()),
        })
    })))
}
