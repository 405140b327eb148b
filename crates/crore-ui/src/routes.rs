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
use crate::pages::{
    audit, errors, groups, handlers, job, job_actions, jobs, limits, login, operations, overview,
    queue, queues, schedule_form, schedules, system, tokens, workers,
};
use crate::{Ui, assets, live};

/// The pages, below `/ui`. A page that changes something needs the scope of the change, and is audited.
#[rustfmt::skip]
fn table(ui: &Ui) -> Router<Ui> {
    const READ: &[Scope] = &[Scope::Read];
    const OPERATE: &[Scope] = &[Scope::Operate];
    const PUSH: &[Scope] = &[Scope::Push];
    const DEFINE: &[Scope] = &[Scope::Define];
    const ADMIN: &[Scope] = &[Scope::Admin];
    // Of groups that the caller created, or of all.
    const GROUP: &[Scope] = &[Scope::Push, Scope::Operate];
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
        .route("/ui/workers",                  row(READ,    get(workers::page)))
        .route("/ui/workers/{name}",           row(READ,    get(workers::one)))
        .route("/ui/workers/{name}/quiet",     row(OPERATE, post(workers::quiet)))
        .route("/ui/workers/{name}/resume",    row(OPERATE, post(workers::resume)))
        .route("/ui/workers/{name}/stop",      row(OPERATE, get(workers::ask_stop).post(workers::stop)))
        .route("/ui/schedules",                row(READ,    get(schedules::page)))
        .route("/ui/schedules-new",            row(DEFINE,  get(schedule_form::ask_new).post(schedule_form::create)))
        .route("/ui/schedules/{name}",         row(READ,    get(schedules::one)))
        .route("/ui/schedules/{name}/run",     row(OPERATE, post(schedules::run)))
        .route("/ui/schedules/{name}/pause",   row(OPERATE, post(schedules::pause)))
        .route("/ui/schedules/{name}/resume",  row(OPERATE, post(schedules::resume)))
        .route("/ui/schedules/{name}/edit",    row(DEFINE,  get(schedule_form::ask_edit).post(schedule_form::edit)))
        .route("/ui/schedules/{name}/delete",  row(DEFINE,  get(schedules::ask_delete).post(schedules::delete)))
        .route("/ui/handlers",                 row(READ,    get(handlers::page)))
        .route("/ui/handlers/{kind}",          row(READ,    get(handlers::one)))
        .route("/ui/handlers/{kind}/try",      row(PUSH,    post(handlers::attempt)))
        .route("/ui/limits",                   row(READ,    get(limits::page)))
        .route("/ui/limits-new",               row(DEFINE,  get(limits::ask_new).post(limits::create)))
        .route("/ui/limits/{name}",            row(READ,    get(limits::one)))
        .route("/ui/limits/{name}/edit",       row(DEFINE,  post(limits::edit)))
        .route("/ui/limits/{name}/delete",     row(DEFINE,  get(limits::ask_delete).post(limits::delete)))
        .route("/ui/errors",                   row(READ,    get(errors::page)))
        .route("/ui/errors/{fingerprint}",     row(READ,    get(errors::one)))
        .route("/ui/groups",                   row(READ,    get(groups::page)))
        .route("/ui/groups/{id}",              row(READ,    get(groups::one)))
        .route("/ui/groups/{id}/seal",         row(GROUP,   get(groups::ask_seal).post(groups::seal)))
        .route("/ui/system",                   row(READ,    get(system::page)))
        .route("/ui/system/tokens",            row(ADMIN,   get(tokens::page).post(tokens::create)))
        .route("/ui/system/tokens/{id}/revoke", row(ADMIN,  get(tokens::ask_revoke).post(tokens::revoke)))
        .route("/ui/system/audit",             row(ADMIN,   get(audit::page)))
        .route("/ui/complete",                 row(READ,    get(jobs::complete)))
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
