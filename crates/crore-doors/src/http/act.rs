//! Acts of people: cancel, retry, delete and change, of one job or of all that match.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use crore::act::{Act, Acted, Filter, Other, Progress, Run};
use crore_core::machine::Refusal;
use crore_core::{Code, Invalid, JobId, Name};
use crore_wire::api::act as api;

use super::body::Read;
use super::events;
use super::fault::Fault;
use super::query::Segment;
use super::wants::{Reply, Wants};
use crate::Doors;
use crate::audit::About;

/// Changes where or when a job runs; one that is running cannot be changed.
#[utoipa::path(
    patch, path = "/v1/jobs/{id}", operation_id = "changeJob", tag = "jobs",
    params(("id" = crore_wire::api::Id, Path, description = "The job.")),
    request_body = api::Change,
    responses((status = 200, description = "It is changed.", body = api::Acted)),
)]
pub(super) async fn change(
    State(doors): State<Doors>,
    reply: Reply,
    id: Segment,
    Read { value, .. }: Read<api::Change>,
) -> Result<Response, Fault> {
    one(&doors, reply, id.job()?, &Act::Change(other(&value)?)).await
}

/// Removes a job; one that is running cannot be removed.
#[utoipa::path(
    delete, path = "/v1/jobs/{id}", operation_id = "deleteJob", tag = "jobs",
    params(("id" = crore_wire::api::Id, Path, description = "The job.")),
    responses((status = 200, description = "It is gone.", body = api::Acted)),
)]
pub(super) async fn delete(
    State(doors): State<Doors>,
    reply: Reply,
    id: Segment,
) -> Result<Response, Fault> {
    one(&doors, reply, id.job()?, &Act::Delete).await
}

/// Cancels a job; one that is running is asked to stop.
#[utoipa::path(
    post, path = "/v1/jobs/{id}/cancel", operation_id = "cancelJob", tag = "jobs",
    params(("id" = crore_wire::api::Id, Path, description = "The job.")),
    responses((status = 200, description = "It is cancelled, or asked to stop.", body = api::Acted)),
)]
pub(super) async fn cancel(
    State(doors): State<Doors>,
    reply: Reply,
    id: Segment,
) -> Result<Response, Fault> {
    one(&doors, reply, id.job()?, &Act::Cancel).await
}

/// Runs a job again, or now.
#[utoipa::path(
    post, path = "/v1/jobs/{id}/retry", operation_id = "retryJob", tag = "jobs",
    params(("id" = crore_wire::api::Id, Path, description = "The job.")),
    responses((status = 200, description = "It will run.", body = api::Acted)),
)]
pub(super) async fn retry(
    State(doors): State<Doors>,
    reply: Reply,
    id: Segment,
) -> Result<Response, Fault> {
    one(&doors, reply, id.job()?, &Act::Retry).await
}

async fn one(doors: &Doors, reply: Reply, id: JobId, act: &Act) -> Result<Response, Fault> {
    let state = acted(doors, id, act).await?.map(Into::into);
    Ok(reply.ok(&api::Acted { id: id.into(), state }))
}

/// Does something with a job, and gives its state then; `None`: it is gone.
pub(crate) async fn acted(
    doors: &Doors,
    id: JobId,
    act: &Act,
) -> Result<Option<crore_core::State>, Fault> {
    match doors.engine().act(id.into(), act).await? {
        Acted::Yes(state) => Ok(state),
        Acted::NotFound => Err(Fault::missing(format!("job {id}"))),
        Acted::No(refusal) => Err(Fault::new(Code::Refused, format!("job {id} {}", why(refusal)))),
    }
}

const fn why(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Stale => "was changed meanwhile",
        Refusal::Ended => "has ended",
        Refusal::Running => "is running",
        Refusal::NotNow => "is in no state for which this means anything",
        Refusal::Nothing => "was asked for that before, or there is nothing to do",
    }
}

fn other(change: &api::Change) -> Result<Other, Invalid> {
    Ok(Other { queue: change.queue()?, priority: change.priority, due: change.due()? })
}

/// Does something with all jobs that match, a thousand at a time.
///
/// With `dry_run` it is only counted how many there are. Whoever accepts `text/event-stream` hears how far
/// it has come: events named `progress`, and `done` at the end; whoever leaves ends it there.
#[utoipa::path(
    post, path = "/v1/jobs/act", operation_id = "actOnAll", tag = "jobs",
    request_body = api::ActOnAll,
    responses((status = 200, description = "How many there were, and with how many it was done.", content(
        (api::Progress = "application/json"),
        (String = "text/event-stream"),
    ))),
)]
pub(super) async fn act_on_all(
    State(doors): State<Doors>,
    wants: Wants,
    Read { value, .. }: Read<api::ActOnAll>,
) -> Result<Response, Fault> {
    let (filter, act, run) = asked(&value)?;
    let about = About::many(&value);
    let mut response = if wants.events {
        events::progress(doors, filter, act, run).into_response()
    } else {
        let progress = doors.engine().act_on_all(&filter, &act, run, |_| true).await?;
        Reply(wants.format_or_json()).ok(&said(progress))
    };
    response.extensions_mut().insert(about);
    Ok(response)
}

/// What is to be done with which jobs, and whether it is only counted.
pub(crate) fn asked(ask: &api::ActOnAll) -> Result<(Filter, Act, Run), Invalid> {
    let run = if ask.dry_run { Run::Dry } else { Run::Real };
    Ok((filter(&ask.filter)?, act(ask)?, run))
}

impl About {
    /// What an act on many was asked to do.
    pub(crate) fn many(ask: &api::ActOnAll) -> Self {
        Self(serde_json::to_string(ask).unwrap_or_default())
    }
}

pub(super) const fn said(progress: Progress) -> api::Progress {
    api::Progress { seen: progress.seen, matched: progress.matched, done: progress.done }
}

fn act(ask: &api::ActOnAll) -> Result<Act, Invalid> {
    let malformed = |why: &str| Err(Invalid::new(Code::Malformed, "change", why));
    match (ask.act, &ask.change) {
        (api::Verb::Change, Some(change)) => {
            other(change).map(Act::Change).map_err(|invalid| invalid.inside("change"))
        }
        (api::Verb::Change, None) => malformed("what is to be otherwise has to be said"),
        (_, Some(_)) => malformed("`change` means nothing for this act"),
        (api::Verb::Cancel, None) => Ok(Act::Cancel),
        (api::Verb::Retry, None) => Ok(Act::Retry),
        (api::Verb::Delete, None) => Ok(Act::Delete),
    }
}

/// The filter that is meant. One that names nothing is more likely a mistake than a wish.
fn filter(filter: &api::Filter) -> Result<Filter, Invalid> {
    let name = |field: &str, text: &Option<String>| {
        text.as_deref().map(|text| Name::new(field, text)).transpose()
    };
    let read = Filter {
        states: filter.states.iter().map(|state| (*state).into()).collect(),
        queue: name("filter.queue", &filter.queue)?,
        kind: name("filter.kind", &filter.kind)?,
        labels: filter.labels.0.clone().into_iter().collect(),
        pushed_before: filter.pushed_before.map(|moment| moment.0),
    };
    match (read == Filter::default(), filter.all) {
        (true, false) => {
            let why = "names nothing; to mean all jobs, say `\"all\": true`";
            Err(Invalid::new(Code::Malformed, "filter", why))
        }
        (false, true) => {
            let why = "either `all` or something to match, not both";
            Err(Invalid::new(Code::Malformed, "filter.all", why))
        }
        _ => Ok(read),
    }
}
