//! The native API: `/v1`, in JSON and MessagePack, with its description at `/openapi.json`.

mod act;
mod admit;
mod backups;
mod body;
mod cursor;
mod docs;
mod events;
mod fault;
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
mod openapi;
mod push;
mod query;
mod queues;
mod results;
mod schedules;
mod stats;
mod tokens;
mod wants;
mod workers;

use axum::Router;
use axum::routing::get;
use crore_core::Code;
use http::HeaderMap;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};
use utoipa_axum::routes;

use crate::Doors;
use crate::around::around;
use crate::scope::Scope;

pub(crate) use act::{acted, asked};
pub(crate) use admit::{Gate, admit_any};
pub(crate) use body::collect;
pub(crate) use events::{Far, Hearing, far, seat, told as told_event};
pub use fault::Fault;
pub(crate) use fault::in_format;
pub(crate) use fetch::{count, names};
pub(crate) use handlers::{define as set_handler, shown as shown_handler};
pub(crate) use health::health_of;
pub(crate) use info::about;
pub(crate) use jobs::find;
pub(crate) use limits::shown as shown_limit;
pub(crate) use openapi::needs;
pub(crate) use push::{keyed, told, trace, unacceptable};
pub(crate) use query::{Query, Segment};
pub(crate) use results::ended;
pub(crate) use schedules::next_at;
pub(crate) use wants::{Reply, content_type};
pub(crate) use workers::all as all_workers;

/// Every call of the API, with the scope that it needs. There is no other way in.
#[rustfmt::skip]
fn table(doors: &Doors) -> OpenApiRouter<Doors> {
    use Scope::{Admin, Define, Operate, Push, Read, Work};
    let row = |scope, (schemas, mut paths, methods): UtoipaMethodRouter<Doors>| -> UtoipaMethodRouter<Doors> {
        needs(&mut paths, scope);
        let gate = Gate { doors: doors.clone(), scope };
        (schemas, paths, methods.route_layer(around(gate, admit::admit)))
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

/// The calls that anybody may make: whether the server lives, and what it can be asked.
fn open() -> OpenApiRouter<Doors> {
    OpenApiRouter::new().routes(routes!(health::livez)).routes(routes!(health::readyz))
}

/// The native API.
pub(crate) fn router(doors: &Doors) -> Router {
    let (router, mut document) = table(doors).merge(open()).split_for_parts();
    crate::lightjq::describe(doors, &mut document);
    let document = openapi::finished(document);
    let description = get(move || std::future::ready(openapi::answer(document.clone())));
    router
        .with_state(doors.clone())
        .route("/openapi.json", description.route_layer(around(doors.clone(), admit_any)))
        .route("/docs", get(docs::page))
        .route("/docs/page.js", get(docs::script))
        .route("/docs/page.css", get(docs::style))
}

/// The description of the API, as it is served.
pub fn description(doors: &Doors) -> String {
    let mut document = table(doors).merge(open()).into_openapi();
    crate::lightjq::describe(doors, &mut document);
    openapi::text(document)
}

/// Answers for what is not there, for all doors together.
pub(crate) fn with_fallbacks(router: Router) -> Router {
    let missing = async |headers: HeaderMap| {
        if crate::grpc::is_grpc(&headers) {
            return crate::grpc::unimplemented(&headers);
        }
        wants::refuse(&headers, Fault::new(Code::NotFound, "there is nothing at this address"))
    };
    let method = async |headers: HeaderMap| {
        let detail = "the header `allow` says which methods there are";
        wants::refuse(&headers, Fault::new(Code::MethodNotAllowed, detail))
    };
    router.fallback(missing).method_not_allowed_fallback(method)
}
