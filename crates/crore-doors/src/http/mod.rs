//! The native API: `/v1` in JSON and MessagePack, described at `/openapi.json`.

mod act;
mod backups;
mod docs;
mod events;
mod fetch;
mod finish;
mod groups;
mod handlers;
mod health;
mod info;
mod jobs;
mod limits;
mod metrics;
mod notes;
mod push;
mod queues;
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
    use Scope::{Admin, Define, Operate, Push, Read, Work};
    let row = |scope, (schemas, mut paths, methods): UtoipaMethodRouter<Api>| -> UtoipaMethodRouter<Api> {
        require_scope(&mut paths, scope);
        let gate = Gate { api: api.clone(), scope };
        (schemas, paths, methods.route_layer(from_fn(gate, admit)))
    };
    OpenApiRouter::with_openapi(openapi::base())
        .routes(row(Push,    routes!(push::push)))
        .routes(row(Read,    routes!(jobs::list)))
        .routes(row(Operate, routes!(act::act_on_all)))
        .routes(row(Read,    routes!(jobs::get)))
        .routes(row(Operate, routes!(act::change)))
        .routes(row(Operate, routes!(act::delete)))
        .routes(row(Operate, routes!(act::cancel)))
        .routes(row(Operate, routes!(act::retry)))
        .routes(row(Push,    routes!(results::result)))
        .routes(row(Read,    routes!(jobs::explain)))
        .routes(row(Read,    routes!(notes::get)))
        .routes(row(Work,    routes!(notes::add)))
        .routes(row(Work,    routes!(fetch::fetch)))
        .routes(row(Work,    routes!(fetch::renew)))
        .routes(row(Work,    routes!(finish::finish)))
        .routes(row(Read,    routes!(queues::list)))
        .routes(row(Read,    routes!(queues::get)))
        .routes(row(Operate, routes!(queues::change)))
        .routes(row(Operate, routes!(queues::pause)))
        .routes(row(Operate, routes!(queues::resume)))
        .routes(row(Operate, routes!(queues::drain)))
        .routes(row(Read,    routes!(schedules::list)))
        .routes(row(Read,    routes!(schedules::get)))
        .routes(row(Define,  routes!(schedules::set)))
        .routes(row(Define,  routes!(schedules::delete)))
        .routes(row(Operate, routes!(schedules::pause)))
        .routes(row(Operate, routes!(schedules::resume)))
        .routes(row(Read,    routes!(schedules::preview)))
        .routes(row(Read,    routes!(limits::list)))
        .routes(row(Read,    routes!(limits::get)))
        .routes(row(Define,  routes!(limits::set)))
        .routes(row(Define,  routes!(limits::delete)))
        .routes(row(Read,    routes!(handlers::list)))
        .routes(row(Read,    routes!(handlers::get)))
        .routes(row(Define,  routes!(handlers::set)))
        .routes(row(Define,  routes!(handlers::delete)))
        .routes(row(Read,    routes!(groups::get)))
        .routes(row(Push,    routes!(groups::seal)))
        .routes(row(Read,    routes!(workers::list)))
        .routes(row(Work,    routes!(workers::set)))
        .routes(row(Work,    routes!(workers::delete)))
        .routes(row(Admin,   routes!(tokens::list)))
        .routes(row(Admin,   routes!(tokens::create)))
        .routes(row(Admin,   routes!(tokens::delete)))
        .routes(row(Admin,   routes!(backups::create)))
        .routes(row(Read,    routes!(stats::counts)))
        .routes(row(Read,    routes!(stats::stats)))
        .routes(row(Read,    routes!(events::listen)))
        .routes(row(Read,    routes!(info::info)))
        .routes(row(Read,    routes!(metrics::metrics)))
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
