//! Live streams: what happens, and how far an act has come.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use crore::act::{Act, Filter, Run};
use crore::events::{self as engine, Happened, Heard, Listener};
use crore_core::{Code, Name};
use crore_wire::api::act::Progress;
use crore_wire::api::events::{Event as Told, MissedEvents, What, WhichEvents};
use crore_wire::words::Moment;
use futures_util::stream::{Stream, StreamExt, unfold};
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::act::said;
use super::fault::Fault;
use super::query::{Query, name};
use crate::Doors;

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
    State(doors): State<Doors>,
    Query(which): Query<WhichEvents>,
) -> Result<Response, Fault> {
    let hearing = Hearing::new(doors, &which)?;
    let stream = unfold(hearing, |mut hearing| async {
        let event = match hearing.next().await? {
            Heard::Missed(n) => event("missed", &MissedEvents { n }),
            Heard::Event(one) => event("job", &told(&one)),
        };
        Some((Ok::<_, Infallible>(event), hearing))
    });
    Ok(alive(stream).into_response())
}

fn alive<S>(stream: S) -> Sse<impl Stream<Item = Result<Event, Infallible>>>
where
    S: Stream<Item = Result<Event, Infallible>> + Send + 'static,
{
    Sse::new(stream).keep_alive(KeepAlive::new().interval(ALIVE))
}

/// A seat for one more who listens.
pub(crate) fn seat(doors: &Doors) -> Result<OwnedSemaphorePermit, Fault> {
    let too_many = |_| Fault::new(Code::TooMany, "too many listen already");
    doors.listeners().clone().try_acquire_owned().map_err(too_many)
}

/// One who listens.
#[derive(Debug)]
pub(crate) struct Hearing {
    listener: Listener,
    doors: Doors,
    queue: Option<Name>,
    kind: Option<Name>,
    _seat: OwnedSemaphorePermit,
}

impl Hearing {
    pub(crate) fn new(doors: Doors, which: &WhichEvents) -> Result<Self, Fault> {
        let queue = name("queue", which.queue.as_deref())?;
        let kind = name("kind", which.kind.as_deref())?;
        let seat = seat(&doors)?;
        Ok(Self { listener: doors.engine().listen(), doors, queue, kind, _seat: seat })
    }

    /// The next event for him; `None`: there will be no more.
    pub(crate) async fn next(&mut self) -> Option<Heard> {
        loop {
            let heard = tokio::select! {
                heard = self.listener.next() => heard?,
                () = self.doors.closing() => return None,
            };
            match heard {
                Heard::Event(one) if !self.is_meant(&one) => {}
                heard => return Some(heard),
            }
        }
    }

    fn is_meant(&self, event: &engine::Event) -> bool {
        self.queue.as_ref().is_none_or(|queue| event.queue == *queue)
            && self.kind.as_ref().is_none_or(|kind| event.kind == *kind)
    }
}

fn event<T: Serialize>(name: &str, value: &T) -> Event {
    let data = serde_json::to_string(value).unwrap_or_default();
    Event::default().event(name).data(data)
}

/// What happened, for whoever hears it.
pub(crate) fn told(event: &engine::Event) -> Told {
    let (what, state) = match event.what {
        Happened::Pushed => (What::Pushed, None),
        Happened::Started => (What::Started, None),
        Happened::Became(state) => (What::Became, Some(state.into())),
        Happened::AskedToStop => (What::AskedToStop, None),
        Happened::Removed => (What::Removed, None),
    };
    Told {
        id: event.id.into(),
        queue: event.queue.to_string(),
        kind: event.kind.to_string(),
        what,
        state,
        at: Moment(event.at),
    }
}

/// How far an act on many is.
#[derive(Debug)]
pub(crate) enum Far {
    Yet(Progress),
    Done(Progress),
    Failed(Fault),
}

/// Does something with all jobs that match, and says how far it has come. It ends when its listener
/// leaves.
pub(crate) fn far(
    doors: Doors,
    filter: Filter,
    act: Act,
    run: Run,
) -> impl Stream<Item = Far> + use<> {
    let (tell, hear) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let so_far = |progress| tell.send(Far::Yet(said(progress))).is_ok();
        let last = match doors.engine().act_on_all(&filter, &act, run, so_far).await {
            Ok(progress) => Far::Done(said(progress)),
            Err(error) => Far::Failed(error.into()),
        };
        // If nobody listens any more, nobody needs to know.
        let _ = tell.send(last);
    });
    unfold(hear, |mut hear| async {
        let far = hear.recv().await?;
        Some((far, hear))
    })
}

/// The same as events.
pub(super) fn progress(
    doors: Doors,
    filter: Filter,
    act: Act,
    run: Run,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    alive(far(doors, filter, act, run).map(|far| {
        Ok(match far {
            Far::Yet(progress) => event("progress", &progress),
            Far::Done(progress) => event("done", &progress),
            Far::Failed(fault) => event("failed", fault.problem()),
        })
    }))
}
