//! gRPC on the same port: the native services, those of Lakh and jobworkerp, health and reflection.
//!
//! A call passes the guard of all doors, then `web` (content type, gRPC-Web, CORS), then `admission` (authorization)
//! and `request_body` (deadlines and sizes of messages); `response_body` watches the response.
//!
//! The services are `crore.v1.Jobs`, `Work` and `Admin`, `lakh.Lakh`, the five of `jobworkerp.service`,
//! `grpc.health.v1.Health`, which needs no token, and `grpc.reflection` in `v1` and `v1alpha`.

mod admin;
mod admission;
mod fault;
mod health;
mod jobs;
mod message_frames;
mod named_events;
mod request_body;
mod response_body;
mod stats;
mod stream;
mod web;
mod work;

use std::convert::Infallible;

use axum::Router;
use crore_api::middleware::from_fn;
use crore_api::{Grant, Scope};
use crore_core::settings::section;
use crore_wire::grpc::DESCRIPTORS;
use crore_wire::grpc::v1::admin_server::AdminServer;
use crore_wire::grpc::v1::jobs_server::JobsServer;
use crore_wire::grpc::v1::work_server::WorkServer;
use tonic_health::pb::health_server::HealthServer;
use tower::{Service, ServiceExt};

use crate::{AllowedOrigin, Doors, jobworkerp, lakh};

pub(crate) use admission::{is_grpc, refused, unimplemented};
pub(crate) use fault::{aborted, already_exists, failed, invalid, invalid_unmapped};

section! {
    /// gRPC, which is served on the same port as HTTP.
    pub struct Options: Eq = "grpc" {
        /// Whether gRPC reflection is served. Where tokens exist, callers need one for it.
        reflection: bool = "true",
        /// Origins of other sites whose web pages may call the server over gRPC-Web, as browsers send them:
        /// `https://app.example.com`. A list is allowed. Default: none.
        allow_origins: Vec<AllowedOrigin> = none,
        /// Maximum number of streams that watch the health of the server, which need no token.
        max_health_watchers: usize = "256",
    }
}

/// Access that a call requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequiredAccess {
    /// No token.
    Public,
    /// A token with any scope.
    AnyScope,
    /// A token with one of these scopes.
    Scope(&'static [Scope]),
}

const PUSH: RequiredAccess = RequiredAccess::Scope(&[Scope::Push]);
const WORK: RequiredAccess = RequiredAccess::Scope(&[Scope::Work]);
const READ: RequiredAccess = RequiredAccess::Scope(&[Scope::Read]);
const OPERATE: RequiredAccess = RequiredAccess::Scope(&[Scope::Operate]);
const DEFINE: RequiredAccess = RequiredAccess::Scope(&[Scope::Define]);
/// Results of jobs that the caller pushed, or of all.
const RESULT: RequiredAccess = RequiredAccess::Scope(&[Scope::Push, Scope::Read]);

/// Every call with its required access. No other call is routed.
#[rustfmt::skip]
const CALLS: &[(&str, RequiredAccess)] = &[
    ("/crore.v1.Jobs/Push",            PUSH),
    ("/crore.v1.Jobs/PushStream",      PUSH),
    ("/crore.v1.Jobs/Get",             READ),
    ("/crore.v1.Jobs/List",            READ),
    ("/crore.v1.Jobs/Cancel",          OPERATE),
    ("/crore.v1.Jobs/Retry",           OPERATE),
    ("/crore.v1.Jobs/Delete",          OPERATE),
    ("/crore.v1.Jobs/Change",          OPERATE),
    ("/crore.v1.Jobs/Replay",          PUSH),
    ("/crore.v1.Jobs/Wait",            RESULT),
    ("/crore.v1.Work/Stream",          WORK),
    ("/crore.v1.Work/Fetch",           WORK),
    ("/crore.v1.Work/Renew",           WORK),
    ("/crore.v1.Work/Finish",          WORK),
    ("/crore.v1.Admin/Info",           READ),
    ("/crore.v1.Admin/Counts",         READ),
    ("/crore.v1.Admin/Stats",          READ),
    ("/crore.v1.Admin/PauseQueue",     OPERATE),
    ("/crore.v1.Admin/ResumeQueue",    OPERATE),
    ("/crore.v1.Admin/GetQueue",       READ),
    ("/crore.v1.Admin/ChangeQueue",    OPERATE),
    ("/crore.v1.Admin/ListSchedules",  READ),
    ("/crore.v1.Admin/SetSchedule",    DEFINE),
    ("/crore.v1.Admin/DeleteSchedule", DEFINE),
    ("/crore.v1.Admin/ListLimits",     READ),
    ("/crore.v1.Admin/SetLimit",       DEFINE),
    ("/crore.v1.Admin/DeleteLimit",    DEFINE),
    ("/crore.v1.Admin/ListHandlers",   READ),
    ("/crore.v1.Admin/SetHandler",     DEFINE),
    ("/crore.v1.Admin/DeleteHandler",  DEFINE),
    ("/crore.v1.Admin/ListWorkers",    READ),
    ("/crore.v1.Admin/ActOnAll",       OPERATE),
    ("/crore.v1.Admin/StartOperation", OPERATE),
    ("/crore.v1.Admin/ListOperations", READ),
    ("/crore.v1.Admin/GetOperation",   READ),
    ("/crore.v1.Admin/CancelOperation", OPERATE),
    ("/crore.v1.Admin/Listen",         READ),
    ("/crore.v1.Admin/SendEvent",      PUSH),
    ("/crore.v1.Admin/GetEvent",       READ),
    ("/crore.v1.Admin/ListEvents",     READ),
    ("/crore.v1.Admin/RemoveEvent",    OPERATE),
    ("/lakh.Lakh/Work",                PUSH),
    ("/lakh.Lakh/Join",                WORK),
    ("/lakh.Lakh/GetDeadJobs",         READ),
    ("/jobworkerp.service.WorkerService/Create",                DEFINE),
    ("/jobworkerp.service.WorkerService/Update",                DEFINE),
    ("/jobworkerp.service.WorkerService/Delete",                DEFINE),
    ("/jobworkerp.service.WorkerService/Find",                  READ),
    ("/jobworkerp.service.WorkerService/FindByName",            READ),
    ("/jobworkerp.service.WorkerService/FindList",              READ),
    ("/jobworkerp.service.WorkerService/Count",                 READ),
    ("/jobworkerp.service.JobService/Enqueue",                  PUSH),
    ("/jobworkerp.service.JobService/Delete",                   OPERATE),
    ("/jobworkerp.service.JobService/Find",                     READ),
    ("/jobworkerp.service.JobService/FindList",                 READ),
    ("/jobworkerp.service.JobService/FindListByWorkerId",       READ),
    ("/jobworkerp.service.JobService/Count",                    READ),
    ("/jobworkerp.service.JobStatusService/Find",               READ),
    ("/jobworkerp.service.JobStatusService/FindAll",            READ),
    ("/jobworkerp.service.JobRestoreService/Restore",           OPERATE),
    ("/jobworkerp.service.JobRestoreService/FindAll",           READ),
    ("/jobworkerp.service.JobResultService/Delete",             OPERATE),
    ("/jobworkerp.service.JobResultService/Find",               READ),
    ("/jobworkerp.service.JobResultService/FindList",           READ),
    ("/jobworkerp.service.JobResultService/FindListByJobId",    READ),
    ("/jobworkerp.service.JobResultService/FindListByWorkerId", READ),
    ("/jobworkerp.service.JobResultService/Listen",             RESULT),
    ("/jobworkerp.service.JobResultService/Count",              READ),
    ("/grpc.health.v1.Health/Check",   RequiredAccess::Public),
    ("/grpc.health.v1.Health/Watch",   RequiredAccess::Public),
    ("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",      RequiredAccess::AnyScope),
    ("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", RequiredAccess::AnyScope),
];

/// The permissions of the caller of a request.
pub(crate) fn grant<T>(request: &tonic::Request<T>) -> Result<Grant, tonic::Status> {
    Ok(Grant::from_extensions(request.extensions())?)
}

/// Names of all services.
fn services() -> impl Iterator<Item = &'static str> {
    CALLS.iter().filter_map(|(path, _)| service_of(path))
}

fn service_of(path: &str) -> Option<&str> {
    path.split('/').nth(1)
}

/// The router of all gRPC services.
pub(crate) fn router(doors: &Doors) -> Router {
    let max_bytes = doors.api().options().max_body.bytes();
    let jobs =
        JobsServer::new(jobs::JobsService(doors.clone())).max_decoding_message_size(max_bytes);
    let admin =
        AdminServer::new(admin::AdminService(doors.clone())).max_decoding_message_size(max_bytes);
    // Its callers need no token.
    let health = HealthServer::new(health::HealthService::new(doors.clone()))
        .max_decoding_message_size(health::MAX_REQUEST_BYTES);
    let jobworkerp = jobworkerp::Services::new(doors, max_bytes);
    let mut router = routes(doors, "crore.v1.Jobs", &jobs)
        .merge(routes(doors, "crore.v1.Work", &work(doors)))
        .merge(routes(doors, "crore.v1.Admin", &admin))
        .merge(routes(doors, "lakh.Lakh", &lakh::service(doors, max_bytes)))
        .merge(routes(doors, "jobworkerp.service.WorkerService", &jobworkerp.worker))
        .merge(routes(doors, "jobworkerp.service.JobService", &jobworkerp.job))
        .merge(routes(doors, "jobworkerp.service.JobStatusService", &jobworkerp.status))
        .merge(routes(doors, "jobworkerp.service.JobRestoreService", &jobworkerp.restore))
        .merge(routes(doors, "jobworkerp.service.JobResultService", &jobworkerp.result))
        .merge(routes(doors, "grpc.health.v1.Health", &health));
    if doors.options().grpc.reflection {
        let reflection = || {
            tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(DESCRIPTORS)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        };
        // Building fails only for invalid descriptors, which a test would find.
        if let (Ok(new), Ok(old)) = (reflection().build_v1(), reflection().build_v1alpha()) {
            router = router
                .merge(routes(doors, "grpc.reflection.v1.ServerReflection", &new))
                .merge(routes(doors, "grpc.reflection.v1alpha.ServerReflection", &old));
        }
    }
    router.route_layer(from_fn(doors.clone(), web::handle_cors))
}

/// The service for workers.
fn work(doors: &Doors) -> WorkServer<work::WorkService> {
    let max_bytes = doors.api().options().max_body.bytes();
    WorkServer::new(work::WorkService(doors.clone())).max_decoding_message_size(max_bytes)
}

/// Routes for the calls of a service, each with its required access.
fn routes<S>(doors: &Doors, name: &str, service: &S) -> Router
where
    S: Service<
            http::Request<axum::body::Body>,
            Response = http::Response<tonic::body::Body>,
            Error = Infallible,
        > + Clone
        + Send
        + Sync
        + 'static,
    S::Future: Send,
{
    let calls = CALLS.iter().filter(|(path, _)| service_of(path) == Some(name));
    calls.fold(Router::new(), |router, (path, needs)| {
        let entry = admission::RoutedCall { doors: doors.clone(), call: path, needs: *needs };
        let (call, time) = (*path, doors.api().options().body_time);
        let service = service.clone().map_response(fault::with_fault);
        let service = service.map_request(move |request| request_body::guard(call, time, request));
        let route = Router::new().route_service(path, service);
        router.merge(route.route_layer(from_fn(entry, admission::admit)))
    })
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;

    #[test]
    fn every_call_of_the_crore_services_is_in_the_table() {
        let pool = prost_types::FileDescriptorSet::decode(DESCRIPTORS);
        let files = pool.expect("valid descriptors").file;
        let is_ours = |package: &str| ["crore.v1", "lakh", "jobworkerp.service"].contains(&package);
        let ours = files.iter().filter(|file| is_ours(file.package()));
        let services = ours.flat_map(|file| file.service.iter().map(|one| (file.package(), one)));
        let calls = services.flat_map(|(package, service)| {
            let path = move |call: &str| format!("/{package}.{}/{call}", service.name());
            service.method.iter().map(move |call| path(call.name()))
        });
        let mut calls: Vec<_> = calls.collect();
        let ours = CALLS.iter().filter(|(path, _)| !path.starts_with("/grpc."));
        let mut table: Vec<_> = ours.map(|(path, _)| (*path).to_owned()).collect();
        calls.sort_unstable();
        table.sort_unstable();
        assert_eq!(table, calls);
    }
}
