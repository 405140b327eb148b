//! Every page with the scope that it needs.

use axum::Router;
use axum::extract::Request;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{MethodRouter, get, post};
use crore_api::admission::Gate;
use crore_api::middleware::{Next, from_fn};
use crore_api::negotiation::refuse;
use crore_api::{Fault, Scope};
use crore_core::Code;
use http::HeaderMap;
use http::header::ACCEPT;

use crate::links::Links;
use crate::middleware::around;
use crate::pages::{job, job_actions, jobs, login, operations, overview, queue, queues};
use crate::{Ui, assets, live};

/// The pages, below `/ui`. A page that changes something needs the scope of the change, and is audited.
#[rustfmt::skip]
fn table(ui: &Ui) -> Router<Ui> {
    const READ: &[Scope] = &[Scope::Read];
    const OPERATE: &[Scope] = &[Scope::Operate];
    const PUSH: &[Scope] = &[Scope::Push];
    let row = |scopes: &'static [Scope], methods: MethodRouter<Ui>| {
        let gate = Gate { api: ui.api().clone(), scopes };
        methods.route_layer(from_fn(gate, pass))
    };
    Router::new()
        .route("/ui/",                         row(READ,    get(overview::page)))
        .route("/ui/jobs",                     row(READ,    get(jobs::page)))
        .route("/ui/jobs/act",                 row(OPERATE, get(operations::preview)))
        .route("/ui/jobs/{id}",                row(READ,    get(job::page)))
        .route("/ui/jobs/{id}/payload",        row(READ,    get(job::payload)))
        .route("/ui/jobs/{id}/retry",          row(OPERATE, post(job_actions::retry)))
        .route("/ui/jobs/{id}/cancel",         row(OPERATE, get(job_actions::ask_cancel).post(job_actions::cancel)))
        .route("/ui/jobs/{id}/delete",         row(OPERATE, get(job_actions::ask_delete).post(job_actions::delete)))
        .route("/ui/jobs/{id}/edit",           row(OPERATE, get(job_actions::ask_edit).post(job_actions::edit)))
        .route("/ui/jobs/{id}/replay",         row(PUSH,    get(job_actions::ask_replay).post(job_actions::replay)))
        .route("/ui/operations",               row(READ,    get(operations::list)))
        .route("/ui/operations/start",         row(OPERATE, post(operations::start)))
        .route("/ui/operations/{id}",          row(READ,    get(operations::page)))
        .route("/ui/operations/{id}/cancel",   row(OPERATE, post(operations::cancel)))
        .route("/ui/queues",                   row(READ,    get(queues::page)))
        .route("/ui/queues/{queue}",           row(READ,    get(queue::page)))
        .route("/ui/queues/{queue}/pause",     row(OPERATE, post(queue::pause)))
        .route("/ui/queues/{queue}/resume",    row(OPERATE, post(queue::resume)))
        .route("/ui/queues/{queue}/drain",     row(OPERATE, get(queue::ask_drain).post(queue::drain)))
        .route("/ui/live",                     row(READ,    get(live::ticks)))
}

/// Pages for callers that are not admitted yet.
fn public() -> Router<Ui> {
    Router::new()
        .route("/ui/login", get(login::page).post(login::log_in))
        .route("/ui/logout", post(login::log_out))
        .route("/ui/assets/{version}/{name}", get(assets::serve))
        .route("/ui/{*path}", get(async || missing()))
}

/// All pages, and the redirects to them.
pub(crate) fn router(ui: &Ui) -> Router {
    let pages = table(ui).merge(public()).layer(from_fn(ui.clone(), around));
    let root = async |headers: HeaderMap| Redirect::to(&Links::of(&headers).root());
    pages.route("/ui", get(root)).route("/", get(from_root)).with_state(ui.clone())
}

async fn pass(gate: Gate, request: Request, next: Next) -> Response {
    gate.pass(request, next).await
}

fn missing() -> Response {
    Fault::missing("this page").into_response()
}

/// Sends a browser to the pages; `/` does not exist for other clients.
async fn from_root(headers: HeaderMap) -> Response {
    let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
    match accept.is_some_and(|accept| accept.contains("text/html")) {
        true => Redirect::to(&Links::of(&headers).root()).into_response(),
        false => refuse(&headers, Fault::new(Code::NotFound, "no such path")),
    }
}
