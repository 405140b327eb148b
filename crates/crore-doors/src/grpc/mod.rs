//! gRPC on the same port: our own services, and those by which tools find out about them.

mod fault;
mod gate;
mod jobs;
mod stream;
mod work;

use axum::Router;
use axum::middleware::from_fn_with_state;
use crore_wire::grpc::v1::jobs_server::JobsServer;
use crore_wire::grpc::v1::work_server::WorkServer;

use crate::http::Gate;
use crate::{Doors, Scope};

pub(crate) use fault::{failed, invalid};
pub(crate) use gate::{admit, is_grpc, unimplemented};
pub(crate) use stream::Sessions;

/// Every call, with the scope that it needs. There is no other way in.
#[rustfmt::skip]
const CALLS: &[(&str, Scope)] = &[
    ("/crore.v1.Jobs/Push",       Scope::Push),
    ("/crore.v1.Jobs/PushStream", Scope::Push),
    ("/crore.v1.Jobs/Get",        Scope::Read),
    ("/crore.v1.Jobs/List",       Scope::Read),
    ("/crore.v1.Jobs/Cancel",     Scope::Operate),
    ("/crore.v1.Jobs/Retry",      Scope::Operate),
    ("/crore.v1.Jobs/Delete",     Scope::Operate),
    ("/crore.v1.Jobs/Change",     Scope::Operate),
    ("/crore.v1.Jobs/Wait",       Scope::Push),
    ("/crore.v1.Work/Stream",     Scope::Work),
    ("/crore.v1.Work/Fetch",      Scope::Work),
    ("/crore.v1.Work/Renew",      Scope::Work),
    ("/crore.v1.Work/Finish",     Scope::Work),
];

/// All that is served by gRPC.
pub(crate) fn router(doors: &Doors) -> Router {
    let most = usize::try_from(doors.options().max_body.0).unwrap_or(usize::MAX);
    let jobs = JobsServer::new(jobs::Service(doors.clone())).max_decoding_message_size(most);
    let work = WorkServer::new(work::Service(doors.clone())).max_decoding_message_size(most);
    let add = |router: Router, (path, scope): &(&str, Scope)| {
        let gate = Gate { doors: doors.clone(), scope: *scope };
        let route = match path.split('/').nth(1) {
            Some("crore.v1.Jobs") => Router::new().route_service(path, jobs.clone()),
            _ => Router::new().route_service(path, work.clone()),
        };
        router.merge(route.route_layer(from_fn_with_state(gate, admit)))
    };
    CALLS.iter().fold(crate::lakh::router(doors), add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_of_our_services_is_in_the_table() {
        let pool = prost_types::FileDescriptorSet::decode(crore_wire::grpc::DESCRIPTORS);
        let files = pool.expect("good descriptors").file;
        let ours = files.iter().filter(|file| file.package() == "crore.v1");
        let calls = ours.flat_map(|file| &file.service).flat_map(|service| {
            let path = move |call: &str| format!("/crore.v1.{}/{call}", service.name());
            service.method.iter().map(move |call| path(call.name()))
        });
        let mut calls: Vec<_> = calls.collect();
        let mut table: Vec<_> = CALLS.iter().map(|(path, _)| (*path).to_owned()).collect();
        calls.sort_unstable();
        table.sort_unstable();
        assert_eq!(table, calls);
    }

    use prost::Message;
}
