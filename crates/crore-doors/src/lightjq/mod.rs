//! LightJQ: a job queue over HTTP whose workers are called by the server (push workers).
//!
//! | call | effect | scope |
//! |---|---|---|
//! | `POST /job` | pushes | push |
//! | `GET /job/{id}` | status of a job; a stored result is read once | push (own jobs), read |
//! | `GET /job/{id}/polling?timeout=5` | waits for its end, then the same; 408 if it does not end in time | push (own jobs), read |
//! | `DELETE /job/{id}` | deletes a job that was never started, else 409 | operate |
//! | `POST /worker` | registers a [push worker](crore_dispatch) | work |
//! | `DELETE /worker` | unregisters it | work |
//! | `POST /done` | reports the outcome of a job | work |
//!
//! Bodies are MessagePack, or JSON as set by `Content-Type` and `Accept`. The native API can also fetch these jobs,
//! from the queue `lightjq`. Limits, which LightJQ calls constraints, are defined by the native API: `where kind =
//! "mail" and payload.to = "ada" rate 10/1m`.

mod body;
mod done;
mod job;
mod messages;
mod protocol;
mod translate;
mod worker;

use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use crore_api::Scope;
use crore_api::admission::Gate;
use crore_api::in_format;
use crore_api::middleware::{Next, from_fn};
use crore_core::Span;
use crore_core::settings::{Setting, SettingValue, Shape, section};
use crore_dispatch as dispatch;
use utoipa::openapi::OpenApi;
use utoipa::openapi::path::{HttpMethod, PathItem, PathsBuilder};
use utoipa::{PartialSchema, ToSchema};
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};
use utoipa_axum::routes;

use crate::Doors;
use crate::openapi::require_scope;
pub(crate) use protocol::LightJq;
pub(crate) use translate::QUEUE;

section! {
    /// The LightJQ protocol and its push workers: workers that the server calls over HTTP.
    pub struct Options: Eq = "lightjq" {
        /// Retention of a result that is not read. Should be less than `retention.done-for`.
        keep_results: Span = "12h",
        /// Port of a push worker that registers without one.
        worker_port: u16 as worker_port: WorkerPort = "8080",
        /// Push workers.
        ..workers: dispatch::Options,
    }
}

/// A port other than 0.
struct WorkerPort(u16);

impl Setting for WorkerPort {
    const SHAPE: Shape = Shape::Number;

    fn read(given: &SettingValue) -> Result<Self, String> {
        let port = u16::try_from(u64::read(given)?).ok().filter(|port| *port > 0);
        port.map(Self).ok_or_else(|| "expected a port from 1 to 65535".to_owned())
    }
}

impl From<WorkerPort> for u16 {
    fn from(port: WorkerPort) -> Self {
        port.0
    }
}

/// The routes of LightJQ. [`Doors::push_workers`] dispatches jobs to its workers.
pub fn router(doors: &Doors) -> Router {
    table(doors).split_for_parts().0.with_state(doors.clone())
}

/// Every call with its required scope.
#[rustfmt::skip]
fn table(doors: &Doors) -> OpenApiRouter<Doors> {
    const OPERATE: &[Scope] = &[Scope::Operate];
    const PUSH: &[Scope] = &[Scope::Push];
    const WORK: &[Scope] = &[Scope::Work];
    // Of jobs that the caller pushed, or of all.
    const RESULT: &[Scope] = &[Scope::Push, Scope::Read];
    let row = |scopes, (schemas, mut paths, methods): UtoipaMethodRouter<Doors>| -> UtoipaMethodRouter<Doors> {
        require_scope(&mut paths, scopes);
        let gate = Gate { api: doors.api().clone(), scopes };
        (schemas, paths, methods.route_layer(from_fn(gate, admit)))
    };
    OpenApiRouter::new()
        .routes(row(PUSH,    routes!(job::push)))
        .routes(row(RESULT,  routes!(job::status)))
        .routes(row(OPERATE, routes!(job::cancel)))
        .routes(row(RESULT,  routes!(job::polling)))
        .routes(row(WORK,    routes!(worker::join)))
        .routes(row(WORK,    routes!(worker::leave)))
        .routes(row(WORK,    routes!(done::done)))
}

/// Adds this door to the API description: its calls, and the call that a push worker serves, as a webhook.
pub(crate) fn describe(doors: &Doors, api: &mut OpenApi) {
    api.merge(table(doors).into_openapi());
    let operation = <protocol::WorkerJobCall as utoipa::Path>::operation();
    let call = PathItem::new(HttpMethod::Post, operation);
    api.webhooks = Some(PathsBuilder::new().path("worker-job", call).build());
    let mut schemas = vec![(
        messages::LightJqWorkerJob::name().into_owned(),
        messages::LightJqWorkerJob::schema(),
    )];
    messages::LightJqWorkerJob::schemas(&mut schemas);
    api.components.get_or_insert_default().schemas.extend(schemas);
}

/// Admits a call or refuses it. Errors are sent in the caller's encoding.
async fn admit(gate: Gate, request: Request, next: Next) -> Response {
    let format = body::response_format(request.headers());
    in_format(format, gate.pass(request, next).await)
}
