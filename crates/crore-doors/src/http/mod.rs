//! The native API: `/v1` in JSON and MessagePack, described at `/openapi.json`.

mod act;
mod audit;
mod backups;
mod complete;
mod docs;
mod errors;
mod events;
mod fetch;
mod finish;
mod groups;
mod handlers;
mod health;
mod info;
mod jobs;
mod limits;
mod marks;
mod metrics;
mod named_events;
mod notes;
mod operations;
mod push;
mod queues;
mod replay;
mod results;
mod schedules;
mod stats;
mod tokens;
mod workers;

use axum::Router;
use axum::routing::get;
use crore_api::admission::{Gate, admit, admit_any};
use crore_api::middleware::from_fn;
use crore_api::negotiation::refuse;
use crore_api::{Api, Fault, Scope};
use crore_core::Code;
use http::HeaderMap;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};
use utoipa_axum::routes;

use crate::openapi::{self, require_scope};

/// Every call of the API with its required scope. No other call is routed.
#[rustfmt::skip]
fn table(api: &Api) -> OpenApiRouter<Api> {
    const ADMIN: &[Scope] = &[Scope::Admin];
    const DEFINE: &[Scope] = &[Scope::Define];
    const OPERATE: &[Scope] = &[Scope::Operate];
    const PUSH: &[Scope] = &[Scope::Push];
    const READ: &[Scope] = &[Scope::Read];
    const WORK: &[Scope] = &[Scope::Work];
    // Of jobs that the caller pushed, or of all.
    const RESULT: &[Scope] = &[Scope::Push, Scope::Read];
    // Of groups that the caller created, or of all.
    const GROUP: &[Scope] = &[Scope::Push, Scope::Operate];
    let row = |scopes, (schemas, mut paths, methods): UtoipaMethodRouter<Api>| -> UtoipaMethodRouter<Api> {
        require_scope(&mut paths, scopes);
        let gate = Gate { api: api.clone(), scopes };
        (schemas, paths, methods.route_layer(from_fn(gate, admit)))
    };
    OpenApiRouter::with_openapi(openapi::base())
        .routes(row(PUSH,    routes!(push::push)))
        .routes(row(READ,    routes!(jobs::list)))
        .routes(row(OPERATE, routes!(act::act_on_all)))
        .routes(row(OPERATE, routes!(operations::preview)))
        .routes(row(OPERATE, routes!(operations::start)))
        .routes(row(READ,    routes!(operations::list)))
        .routes(row(READ,    routes!(operations::get)))
        .routes(row(OPERATE, routes!(operations::cancel)))
        .routes(row(READ,    routes!(jobs::get)))
        .routes(row(OPERATE, routes!(act::change)))
        .routes(row(OPERATE, routes!(act::delete)))
        .routes(row(OPERATE, routes!(act::cancel)))
        .routes(row(OPERATE, routes!(act::retry)))
        .routes(row(PUSH,    routes!(replay::replay)))
        .routes(row(RESULT,  routes!(results::result)))
        .routes(row(READ,    routes!(jobs::diff)))
        .routes(row(READ,    routes!(jobs::explain)))
        .routes(row(READ,    routes!(complete::complete)))
        .routes(row(READ,    routes!(errors::list)))
        .routes(row(READ,    routes!(errors::get)))
        .routes(row(READ,    routes!(notes::get)))
        .routes(row(WORK,    routes!(notes::add)))
        .routes(row(WORK,    routes!(fetch::fetch)))
        .routes(row(WORK,    routes!(fetch::renew)))
        .routes(row(WORK,    routes!(finish::finish)))
        .routes(row(READ,    routes!(queues::list)))
        .routes(row(READ,    routes!(queues::get)))
        .routes(row(OPERATE, routes!(queues::change)))
        .routes(row(OPERATE, routes!(queues::pause)))
        .routes(row(OPERATE, routes!(queues::resume)))
        .routes(row(OPERATE, routes!(queues::drain)))
        .routes(row(READ,    routes!(queues::explain)))
        .routes(row(READ,    routes!(schedules::list)))
        .routes(row(READ,    routes!(schedules::get)))
        .routes(row(DEFINE,  routes!(schedules::set)))
        .routes(row(DEFINE,  routes!(schedules::delete)))
        .routes(row(OPERATE, routes!(schedules::pause)))
        .routes(row(OPERATE, routes!(schedules::resume)))
        .routes(row(OPERATE, routes!(schedules::run)))
        .routes(row(READ,    routes!(schedules::runs)))
        .routes(row(READ,    routes!(schedules::preview)))
        .routes(row(READ,    routes!(limits::list)))
        .routes(row(READ,    routes!(limits::get)))
        .routes(row(DEFINE,  routes!(limits::set)))
        .routes(row(DEFINE,  routes!(limits::delete)))
        .routes(row(READ,    routes!(handlers::list)))
        .routes(row(READ,    routes!(handlers::get)))
        .routes(row(DEFINE,  routes!(handlers::set)))
        .routes(row(DEFINE,  routes!(handlers::delete)))
        .routes(row(READ,    routes!(groups::list)))
        .routes(row(READ,    routes!(groups::get)))
        .routes(row(GROUP,   routes!(groups::seal)))
        .routes(row(READ,    routes!(workers::list)))
        .routes(row(WORK,    routes!(workers::set)))
        .routes(row(WORK,    routes!(workers::delete)))
        .routes(row(OPERATE, routes!(workers::quiet)))
        .routes(row(OPERATE, routes!(workers::resume)))
        .routes(row(OPERATE, routes!(workers::stop)))
        .routes(row(ADMIN,   routes!(tokens::list)))
        .routes(row(ADMIN,   routes!(tokens::create)))
        .routes(row(ADMIN,   routes!(tokens::delete)))
        .routes(row(ADMIN,   routes!(backups::create)))
        .routes(row(ADMIN,   routes!(audit::read)))
        .routes(row(READ,    routes!(info::storage)))
        .routes(row(READ,    routes!(stats::counts)))
        .routes(row(READ,    routes!(stats::stats)))
        .routes(row(READ,    routes!(marks::list)))
        .routes(row(READ,    routes!(events::listen)))
        .routes(row(PUSH,    routes!(named_events::send)))
        .routes(row(READ,    routes!(named_events::get)))
        .routes(row(OPERATE, routes!(named_events::remove)))
        .routes(row(READ,    routes!(named_events::list)))
        .routes(row(READ,    routes!(info::info)))
        .routes(row(READ,    routes!(metrics::metrics)))
}

/// Calls that need no token.
fn public_routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(health::livez)).routes(routes!(health::readyz))
}

/// The native API. `describe` adds the calls of other doors to its description.
pub(crate) fn router(api: &Api, describe: impl FnOnce(&mut OpenApi)) -> Router {
    let (router, mut document) = table(api).merge(public_routes()).split_for_parts();
    describe(&mut document);
    let document = openapi::to_bytes(document);
    let description = get(move || std::future::ready(openapi::response(document.clone())));
    router
        .with_state(api.clone())
        .route("/openapi.json", description.route_layer(from_fn(api.clone(), admit_any)))
        .route("/docs", get(docs::page))
        .route("/docs/page.js", get(docs::script))
        .route("/docs/page.css", get(docs::style))
}

/// The OpenAPI description, as served.
pub(crate) fn description(api: &Api, describe: impl FnOnce(&mut OpenApi)) -> String {
    let mut document = table(api).merge(public_routes()).into_openapi();
    describe(&mut document);
    openapi::to_json_text(document)
}

/// Adds the responses to unknown paths and methods, for all doors.
pub(crate) fn with_fallbacks(router: Router) -> Router {
    let missing = async |headers: HeaderMap| {
        if crate::grpc::is_grpc(&headers) {
            return crate::grpc::unimplemented(&headers);
        }
        refuse(&headers, Fault::new(Code::NotFound, "no such path"))
    };
    let method = async |headers: HeaderMap| {
        let detail = "the `allow` header lists the allowed methods";
        refuse(&headers, Fault::new(Code::MethodNotAllowed, detail))
    };
    router.fallback(missing).method_not_allowed_fallback(method)
}
