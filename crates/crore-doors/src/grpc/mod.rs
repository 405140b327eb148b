//! gRPC on the same port: our own services, and those by which tools find out about them.
//!
//! Behind the guard of all doors a call passes `web` (is it gRPC at all, gRPC-Web, pages that may call), then `gate`
//! (who may call), which also sees to it that one message comes in time (`hurry`), and that how the call ends is
//! counted (`count`).
//!
//! The services are `crore.v1.Jobs`, `Work` and `Admin`, `lakh.Lakh`, the five of `jobworkerp.service`,
//! `grpc.health.v1.Health`, which anybody may ask, and `grpc.reflection`, in both versions that tools speak.

mod admin;
mod count;
mod fault;
mod gate;
mod health;
mod hurry;
mod jobs;
mod stream;
mod web;
mod work;

use std::convert::Infallible;

use axum::Router;
use crore_api::Scope;
use crore_api::middleware::from_fn;
use crore_core::settings::section;
use crore_wire::grpc::DESCRIPTORS;
use crore_wire::grpc::v1::admin_server::AdminServer;
use crore_wire::grpc::v1::jobs_server::JobsServer;
use crore_wire::grpc::v1::work_server::WorkServer;
use tonic_health::pb::health_server::HealthServer;
use tower::{Service, ServiceExt};

use crate::{Doors, Origin, jobworkerp, lakh};

pub(crate) use fault::{aborted, as_named, failed, invalid, taken};
pub(crate) use gate::{is_grpc, refused, unimplemented};

section! {
    /// gRPC, on the same port.
    pub struct Options: Eq = "grpc" {
        /// Let tools ask which calls there are. It tells nothing that the documentation does not, and where
        /// there are tokens it needs one.
        reflection: bool = "true",
        /// Pages of other sites that may call by gRPC-Web, and only so, as their browsers name them:
        /// `https://app.example.com`. Several make a list; without it, no page of another site may call.
        allow_origins: Vec<Origin> = none,
    }
}

/// What a caller has to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Needs {
    /// Nothing: anybody may call.
    Nothing,
    /// Any scope at all.
    Any,
    /// This one.
    One(Scope),
}

const PUSH: Needs = Needs::One(Scope::Push);
const WORK: Needs = Needs::One(Scope::Work);
const READ: Needs = Needs::One(Scope::Read);
const OPERATE: Needs = Needs::One(Scope::Operate);
const DEFINE: Needs = Needs::One(Scope::Define);

/// Every call, with what it needs. There is no other way in.
#[rustfmt::skip]
const CALLS: &[(&str, Needs)] = &[
    ("/crore.v1.Jobs/Push",            PUSH),
    ("/crore.v1.Jobs/PushStream",      PUSH),
    ("/crore.v1.Jobs/Get",             READ),
    ("/crore.v1.Jobs/List",            READ),
    ("/crore.v1.Jobs/Cancel",          OPERATE),
    ("/crore.v1.Jobs/Retry",           OPERATE),
    ("/crore.v1.Jobs/Delete",          OPERATE),
    ("/crore.v1.Jobs/Change",          OPERATE),
    ("/crore.v1.Jobs/Wait",            PUSH),
    ("/crore.v1.Work/Stream",          WORK),
    ("/crore.v1.Work/Fetch",           WORK),
    ("/crore.v1.Work/Renew",           WORK),
    ("/crore.v1.Work/Finish",          WORK),
    ("/crore.v1.Admin/Info",           READ),
    ("/crore.v1.Admin/Counts",         READ),
    ("/crore.v1.Admin/PauseQueue",     OPERATE),
    ("/crore.v1.Admin/ResumeQueue",    OPERATE),
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
    ("/crore.v1.Admin/Listen",         READ),
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
    ("/jobworkerp.service.JobResultService/Listen",             PUSH),
    ("/jobworkerp.service.JobResultService/Count",              READ),
    ("/grpc.health.v1.Health/Check",   Needs::Nothing),
    ("/grpc.health.v1.Health/Watch",   Needs::Nothing),
    ("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",      Needs::Any),
    ("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", Needs::Any),
];

/// The services that there are.
fn services() -> impl Iterator<Item = &'static str> {
    CALLS.iter().filter_map(|(path, _)| service_of(path))
}

fn service_of(path: &str) -> Option<&str> {
    path.split('/').nth(1)
}

/// All that is served by gRPC.
pub(crate) fn router(doors: &Doors) -> Router {
    let most = doors.api().options().max_body.bytes();
    let jobs = JobsServer::new(jobs::Service(doors.clone())).max_decoding_message_size(most);
    let admin = AdminServer::new(admin::Service(doors.clone())).max_decoding_message_size(most);
    let health = HealthServer::new(health::Service(doors.clone()));
    let theirs = jobworkerp::Services::new(doors, most);
    let mut router = calls(doors, "crore.v1.Jobs", &jobs)
        .merge(calls(doors, "crore.v1.Work", &work(doors)))
        .merge(calls(doors, "crore.v1.Admin", &admin))
        .merge(calls(doors, "lakh.Lakh", &lakh::service(doors, most)))
        .merge(calls(doors, "jobworkerp.service.WorkerService", &theirs.worker))
        .merge(calls(doors, "jobworkerp.service.JobService", &theirs.job))
        .merge(calls(doors, "jobworkerp.service.JobStatusService", &theirs.status))
        .merge(calls(doors, "jobworkerp.service.JobRestoreService", &theirs.restore))
        .merge(calls(doors, "jobworkerp.service.JobResultService", &theirs.result))
        .merge(calls(doors, "grpc.health.v1.Health", &health));
    if doors.options().grpc.reflection {
        let told = || {
            tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(DESCRIPTORS)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        };
        // Descriptors that cannot be told are a fault of ours, which a test would find.
        if let (Ok(new), Ok(old)) = (told().build_v1(), told().build_v1alpha()) {
            router = router
                .merge(calls(doors, "grpc.reflection.v1.ServerReflection", &new))
                .merge(calls(doors, "grpc.reflection.v1alpha.ServerReflection", &old));
        }
    }
    router.route_layer(from_fn(doors.clone(), web::meet))
}

/// What workers call.
fn work(doors: &Doors) -> WorkServer<work::Service> {
    let most = doors.api().options().max_body.bytes();
    WorkServer::new(work::Service(doors.clone())).max_decoding_message_size(most)
}

/// The calls of a service, each with what it needs.
fn calls<S>(doors: &Doors, name: &str, service: &S) -> Router
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
    let ours = CALLS.iter().filter(|(path, _)| service_of(path) == Some(name));
    ours.fold(Router::new(), |router, (path, needs)| {
        let entry = gate::Entry { doors: doors.clone(), call: path, needs: *needs };
        let service = service.clone().map_response(fault::noted);
        let route = Router::new().route_service(path, service);
        router.merge(route.route_layer(from_fn(entry, gate::admit)))
    })
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;

    #[test]
    fn every_call_of_our_services_is_in_the_table() {
        let pool = prost_types::FileDescriptorSet::decode(DESCRIPTORS);
        let files = pool.expect("good descriptors").file;
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
