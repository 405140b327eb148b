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
use crore_dispatch as dispatch;
use crore_wire::words::Period;
use serde::{Deserialize, Serialize};
use utoipa::openapi::OpenApi;
use utoipa::openapi::path::{HttpMethod, PathItem, PathsBuilder};
use utoipa::{PartialSchema, ToSchema};
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};
use utoipa_axum::routes;

use crate::Doors;
use crate::openapi::needs;
pub(crate) use protocol::LightJq;

/// How this door is set up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Options {
    /// How long a result waits for somebody to read it; less than its job is kept, which is a day.
    pub keep_results: Period,
    /// The port of a worker that says nothing of one.
    pub worker_port: u16,
    /// Push workers.
    pub workers: dispatch::Options,
}

impl Default for Options {
    fn default() -> Self {
        let keep_results = Period(Span::from_secs(12 * 60 * 60));
        Self { keep_results, worker_port: 8080, workers: dispatch::Options::default() }
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
