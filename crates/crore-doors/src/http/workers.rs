//! Workers: who is there.

use axum::extract::State;
use axum::response::Response;
use crore::store::registry::{Entry, Value};
use crore_core::{Code, Invalid, Span};
use crore_wire::api::workers::{SetWorker, Worker, Workers};
use crore_wire::words::Moment;
use crore_wire::{Format, Raw};

use super::body::Read;
use super::fault::Fault;
use super::query::Segment;
use super::wants::Reply;
use crate::Doors;

/// Within which time a worker says again that it is there, if it does not say.
const WITHIN: Span = Span::from_secs(60);

/// All workers that are there.
#[utoipa::path(
    get, path = "/v1/workers", operation_id = "listWorkers", tag = "work",
    responses((status = 200, description = "The workers, by name.", body = Workers)),
)]
pub(super) async fn list(State(doors): State<Doors>, reply: Reply) -> Result<Response, Fault> {
    let workers = all(&doors, reply.0).await?;
    Ok(reply.ok(&Workers { workers }))
}

/// Those who say that they are there, and those who have a stream to this server.
pub(crate) async fn all(doors: &Doors, format: Format) -> Result<Vec<Worker>, crore::Error> {
    let entries = doors.engine().workers().await?;
    let streams = doors.sessions().present().into_iter().map(|(name, stream, until)| Worker {
        name,
        about: Raw::null(format),
        until: until.map(Moment),
        stream: Some(stream),
    });
    let mut all: Vec<_> = entries.iter().filter_map(|entry| shown(format, entry)).collect();
    all.extend(streams);
    let place = |worker: &Worker| {
        let incarnation = worker.stream.as_ref().map(|stream| stream.incarnation.clone());
        (worker.name.clone(), incarnation)
    };
    all.sort_by_cached_key(place);
    Ok(all)
}

/// A worker that says that it is there, as it is shown.
fn shown(format: Format, entry: &Entry) -> Option<Worker> {
    let Value::Worker(says) = &entry.value else { return None };
    // Workers of other doors say what they like; what is no JSON is a text.
    let about = Raw::new(Format::Json, says.as_bytes()).convert(format);
    let about = about.unwrap_or_else(|| Raw::new(format, format.encode(&says)));
    let (name, until) = (entry.name.to_string(), entry.expires_at.map(Moment));
    Some(Worker { name, about, until, stream: None })
}

/// A worker says that it is there, and will say so again in time.
#[utoipa::path(
    put, path = "/v1/workers/{name}", operation_id = "setWorker", tag = "work",
    params(("name" = crore_wire::api::Name, Path, description = "The worker.")),
    request_body = SetWorker,
    responses((status = 204, description = "It is noted.")),
)]
pub(super) async fn set(
    State(doors): State<Doors>,
    name: Segment,
    Read { format, value }: Read<SetWorker>,
) -> Result<Response, Fault> {
    let name = name.name("worker")?;
    let caps = doors.engine().caps();
    let within = value.within.map_or(WITHIN, |within| within.0);
    if within < caps.min_lease || within > caps.max_lease {
        let message = format!("lies outside {:?} to {:?}", caps.min_lease, caps.max_lease);
        return Err(Invalid::new(Code::TimeRange, "within", message).into());
    }
    let about = value.about.unwrap_or_else(|| Raw::null(format)).convert(Format::Json);
    let says = about.and_then(|about| String::from_utf8(about.bytes().to_vec()).ok());
    let why = "cannot be said in JSON";
    let says = says.ok_or_else(|| Invalid::new(Code::PayloadMalformed, "about", why))?;
    doors.engine().set_worker(name, says, within).await?;
    Ok(Reply::nothing())
}

/// A worker has left.
#[utoipa::path(
    delete, path = "/v1/workers/{name}", operation_id = "deleteWorker", tag = "work",
    params(("name" = crore_wire::api::Name, Path, description = "The worker.")),
    responses((status = 204, description = "It is not there any more.")),
)]
pub(super) async fn delete(State(doors): State<Doors>, name: Segment) -> Result<Response, Fault> {
    doors.engine().remove_worker(name.name("worker")?).await?;
    Ok(Reply::nothing())
}
