//! LightJQ: a job queue over HTTP whose workers are called by the server.
//!
//! | call | does | scope |
//! |---|---|---|
//! | `POST /job` | pushes | push |
//! | `GET /job/{id}` | how a job stands; a result that is kept is read once | push |
//! | `GET /job/{id}/polling?timeout=5` | the same when it has ended, or 408 | push |
//! | `DELETE /job/{id}` | removes a job that never began, else 409 | operate |
//! | `POST /worker` | registers a [push worker](crore_dispatch) | work |
//! | `DELETE /worker` | says that it leaves | work |
//! | `POST /done` | reports how a job went | work |
//!
//! Bodies are MessagePack, or JSON if `Content-Type` or `Accept` says so. Jobs can be fetched by the native
//! API too, from the queue `lightjq`; and limits, which LightJQ calls constraints, are defined there:
//! `where kind = "mail" and payload.to = "ada" rate 10/1m`.

mod body;
mod done;
mod job;
mod protocol;
mod translate;
mod words;
mod worker;

use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use crore_api::Scope;
use crore_api::admission::Gate;
use crore_api::in_format;
use crore_api::middleware::{Next, from_fn};
use crore_core::Span;
use crore_core::settings::{Given, Setting, Shape, section};
use crore_dispatch as dispatch;
use utoipa::openapi::OpenApi;
use utoipa::openapi::path::{HttpMethod, PathItem, PathsBuilder};
use utoipa::{PartialSchema, ToSchema};
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};
use utoipa_axum::routes;

use crate::Doors;
use crate::openapi::needs;
pub(crate) use protocol::LightJq;

section! {
    /// LightJQ, and the push workers that crore calls.
    pub struct Options: Eq = "lightjq" {
        /// How long a result waits for somebody to read it. It should be less than `retention.done`.
        keep_results: Span = "12h",
        /// The port of a push worker that registers without one.
        worker_port: u16 as worker_port: Port = "8080",
        /// Push workers.
        ..workers: dispatch::Options,
    }
}

/// A port that can be called.
struct Port(u16);

impl Setting for Port {
    const SHAPE: Shape = Shape::Number;

    fn read(given: &Given) -> Result<Self, String> {
        let port = u16::try_from(u64::read(given)?).ok().filter(|port| *port > 0);
        port.map(Self).ok_or_else(|| "a port is 1 to 65535".to_owned())
    }
}

impl From<Port> for u16 {
    fn from(port: Port) -> Self {
        port.0
    }
}

/// The calls of LightJQ. Its push workers are given jobs by [`Doors::push_workers`].
pub fn router(doors: &Doors) -> Router {
    table(doors).split_for_parts().0.with_state(doors.clone())
}

/// Every call, with the scope that it needs.
#[rustfmt::skip]
fn table(doors: &Doors) -> OpenApiRouter<Doors> {
    use Scope::{Operate, Push, Work};
    let row = |scope, (schemas, mut paths, methods): UtoipaMethodRouter<Doors>| -> UtoipaMethodRouter<Doors> {
        needs(&mut paths, scope);
        let gate = Gate { api: doors.api().clone(), scope };
        (schemas, paths, methods.route_layer(from_fn(gate, admit)))
    };
    OpenApiRouter::new()
        .routes(row(Push,    routes!(job::push)))
        .routes(row(Push,    routes!(job::status)))
        .routes(row(Operate, routes!(job::cancel)))
        .routes(row(Push,    routes!(job::polling)))
        .routes(row(Work,    routes!(worker::join)))
        .routes(row(Work,    routes!(worker::leave)))
        .routes(row(Work,    routes!(done::done)))
}

/// Adds to the description of the API what there is to say of this door: its calls, and as a webhook the
/// call that a push worker serves.
pub(crate) fn describe(doors: &Doors, api: &mut OpenApi) {
    api.merge(table(doors).into_openapi());
    let operation = <protocol::WorkerJobCall as utoipa::Path>::operation();
    let call = PathItem::new(HttpMethod::Post, operation);
    api.webhooks = Some(PathsBuilder::new().path("worker-job", call).build());
    let mut schemas = vec![(words::WorkerJob::name().into_owned(), words::WorkerJob::schema())];
    words::WorkerJob::schemas(&mut schemas);
    api.components.get_or_insert_default().schemas.extend(schemas);
}

/// Admits a call, or says why not; whatever goes wrong behind it is said in the caller's encoding.
async fn admit(gate: Gate, request: Request, next: Next) -> Response {
    let format = body::of_answer(request.headers());
    in_format(format, gate.pass(request, next).await)
}
