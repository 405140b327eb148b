//! LightJQ: a job queue over HTTP whose workers are called by the server.
//!
//! | call | does | scope |
//! |---|---|---|
//! | `POST /job` | pushes | push |
//! | `GET /job/{id}` | how a job stands; a result that is kept is read once | push |
//! | `GET /job/{id}/polling?timeout=5` | the same when it has ended, or 408 | push |
//! | `DELETE /job/{id}` | removes a job that never began, else 409 | operate |
//! | `POST /worker` | registers a [push worker](push) | work |
//! | `DELETE /worker` | says that it leaves | work |
//! | `POST /done` | reports how a job went | work |
//!
//! Bodies are MessagePack, or JSON if `Content-Type` or `Accept` says so. Jobs can be fetched by the native
//! API too, from the queue `lightjq`; and limits, which LightJQ calls constraints, are defined there:
//! `where kind = "mail" and payload.to = "ada" rate 10/1m`.

mod body;
mod done;
mod job;
pub mod push;
mod translate;
mod words;
mod worker;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, post};
use crore_core::Span;
use crore_wire::words::Period;
use serde::{Deserialize, Serialize};

use crate::http::{Gate, in_format};
use crate::{Doors, Scope};

/// How this door is set up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Options {
    /// How long a result waits for somebody to read it; less than its job is kept, which is a day.
    pub keep_results: Period,
    /// The port of a worker that says nothing of one.
    pub worker_port: u16,
    /// How push workers are treated.
    pub workers: push::Options,
}

impl Default for Options {
    fn default() -> Self {
        let keep_results = Period(Span::from_secs(12 * 60 * 60));
        Self { keep_results, worker_port: 8080, workers: push::Options::default() }
    }
}

/// The calls of LightJQ. Its push workers are given jobs by [`Doors::push_workers`].
#[rustfmt::skip]
pub fn router(doors: &Doors) -> Router {
    use Scope::{Operate, Push, Work};
    let row = |scope, methods: MethodRouter<Doors>| {
        methods.route_layer(from_fn_with_state(Gate { doors: doors.clone(), scope }, admit))
    };
    Router::new()
        .route("/job",                  row(Push,    post(job::push)))
        .route("/job/{job_id}",         row(Push,    get(job::status)))
        .route("/job/{job_id}",         row(Operate, delete(job::cancel)))
        .route("/job/{job_id}/polling", row(Push,    get(job::polling)))
        .route("/worker",               row(Work,    post(worker::join)))
        .route("/worker",               row(Work,    delete(worker::leave)))
        .route("/done",                 row(Work,    post(done::done)))
        .with_state(doors.clone())
}

/// Admits a call, or says why not; whatever goes wrong behind it is said in the caller's encoding.
async fn admit(State(gate): State<Gate>, request: Request, next: Next) -> Response {
    let format = body::of_answer(request.headers());
    match gate.check(&request) {
        Ok(()) => in_format(format, next.run(request).await),
        Err(fault) => in_format(format, fault.into_response()),
    }
}
