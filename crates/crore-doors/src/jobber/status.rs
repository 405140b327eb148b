//! Looking up a job. Jobber has no such call; the fields have the names of the path that pushes.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use crore_api::params::PathParam;
use crore_api::{Fault, Grant};
use crore_core::{Code, Encoding, Job, Payload};
use crore_wire::{Format, Raw};
use http::StatusCode;
use serde::Serialize;

use super::{json, text, uuid};
use crate::Doors;

pub(super) async fn queue(State(doors): State<Doors>, grant: Grant, id: PathParam) -> Response {
    look_up((&doors, &grant), &id, ["job-id", "type"]).await
}

pub(super) async fn jobs(State(doors): State<Doors>, grant: Grant, id: PathParam) -> Response {
    look_up((&doors, &grant), &id, ["jobId", "jobType"]).await
}

async fn look_up(
    (doors, grant): (&Doors, &Grant),
    id: &PathParam,
    [id_key, kind_key]: [&str; 2],
) -> Response {
    let job = match find(doors, grant, id).await {
        Ok(job) => job,
        Err(fault) if fault.code() == Code::NotFound => {
            return text(StatusCode::NOT_FOUND, "Job not found\n".to_owned());
        }
        Err(fault) => return fault.into_response(),
    };
    let mut body = BTreeMap::from([
        (id_key, value(&uuid(doors, job.id))),
        (kind_key, value(&job.spec.kind)),
        ("status", value(&job.live.state)),
    ]);
    body.extend(
        payload(&doors.api().masked(&job.spec.payload)).map(|payload| ("payload", payload)),
    );
    json(StatusCode::OK, &body)
}

async fn find(doors: &Doors, grant: &Grant, id: &PathParam) -> Result<Job, Fault> {
    let id = id.job()?;
    doors.api().check_result(grant, id).await?;
    doors.engine().get(id).await?.ok_or_else(|| Fault::missing("this job"))
}

fn value(value: &impl Serialize) -> Raw {
    Raw::new(Format::Json, Format::Json.encode(value))
}

/// The payload; `None` if JSON cannot represent it, as may be for a job of another door.
fn payload(payload: &Payload) -> Option<Raw> {
    let bytes = payload.bytes.clone();
    match payload.encoding {
        Encoding::Json => Some(Raw::new(Format::Json, bytes)),
        Encoding::Msgpack => Raw::new(Format::Msgpack, bytes).convert(Format::Json),
        Encoding::Text | Encoding::Protobuf | Encoding::Bytes => None,
    }
}
