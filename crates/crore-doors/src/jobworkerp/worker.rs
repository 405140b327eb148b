//! `WorkerService`.

use crore::handlers::StoredHandler;
use crore_api::{Fault, Grant, Scope, calls};
use crore_core::handler::secrets::mask_user_info;
use crore_core::{Handler, Name};
use crore_wire::grpc::jobworkerp::data::{Worker, WorkerData, WorkerId};
use crore_wire::grpc::jobworkerp::service::worker_service_server::WorkerService;
use crore_wire::grpc::jobworkerp::service::{
    CountCondition, CountResponse, CreateWorkerRequest, CreateWorkerResponse, FindListRequest,
    OptionalWorkerResponse, SuccessResponse, WorkerNameRequest,
};
use futures_util::stream;
use tonic::{Request, Response, Status};

use super::list::OffsetPage;
use super::workers::{self, BUILT_IN_WORKER, BUSY, MAX_TRIES, WorkerDirectory};
use super::{
    JobworkerpReply, JobworkerpService, JobworkerpStream, built_in, links, translate,
    with_audit_entry,
};
use crate::Doors;
use crate::grpc::{aborted, already_exists, failed, grant, invalid_unmapped as invalid};

#[tonic::async_trait]
impl WorkerService for JobworkerpService {
    async fn create(
        &self,
        request: Request<CreateWorkerRequest>,
    ) -> JobworkerpReply<CreateWorkerResponse> {
        let grant = grant(&request)?;
        let data = translate::with_defaults(request.into_inner());
        let (kind, handler) = read(&self.0, &data)?;
        if grant.only().is_some() {
            check_define(&grant, &kind, &handler, &WorkerDirectory::load(&self.0).await?)?;
        }
        let added = self.0.engine().handlers().add(kind.clone(), handler).await;
        let id = added.map_err(handler_error)?.ok_or_else(|| name_in_use(&kind))?;
        let id = WorkerId { value: i64::try_from(id).unwrap_or(i64::MAX) };
        Ok(with_audit_entry(
            format!("worker {}: {kind}", id.value),
            CreateWorkerResponse { id: Some(id) },
        ))
    }

    async fn update(&self, request: Request<Worker>) -> JobworkerpReply<SuccessResponse> {
        let grant = grant(&request)?;
        let Worker { id, data } = request.into_inner();
        let id = id.ok_or_else(|| Status::from(Fault::missing("a worker without an `id`")))?.value;
        let Some(data) = data else { return success(id, false) };
        run_to_completion(update(self.0.clone(), grant, id, data)).await?;
        success(id, true)
    }

    async fn delete(&self, request: Request<WorkerId>) -> JobworkerpReply<SuccessResponse> {
        let grant = grant(&request)?;
        let id = request.into_inner().value;
        let was_there = delete(&self.0, &grant, id).await?;
        success(id, was_there)
    }

    async fn find(&self, request: Request<WorkerId>) -> JobworkerpReply<OptionalWorkerResponse> {
        let grant = grant(&request)?;
        let id = request.into_inner().value;
        if id == BUILT_IN_WORKER {
            let kind = Name::new("name", built_in::NAME).map_err(invalid)?;
            grant.check_kind(&kind).map_err(invalid)?;
            return Ok(Response::new(OptionalWorkerResponse { data: Some(built_in::worker()) }));
        }
        let workers = WorkerDirectory::load(&self.0).await?;
        let data = shown(&grant, workers.by_id(id), &workers)?;
        Ok(Response::new(OptionalWorkerResponse { data }))
    }

    async fn find_by_name(
        &self,
        request: Request<WorkerNameRequest>,
    ) -> JobworkerpReply<OptionalWorkerResponse> {
        let grant = grant(&request)?;
        let name = request.into_inner().name;
        let workers = WorkerDirectory::load(&self.0).await?;
        let found = workers.by_name(&name).filter(|_| !workers::is_reserved(&name));
        let data = shown(&grant, found, &workers)?;
        Ok(Response::new(OptionalWorkerResponse { data }))
    }

    type FindListStream = JobworkerpStream<Worker>;

    async fn find_list(
        &self,
        request: Request<FindListRequest>,
    ) -> JobworkerpReply<JobworkerpStream<Worker>> {
        let grant = grant(&request)?;
        let FindListRequest { limit, offset } = request.into_inner();
        let page = OffsetPage::read(limit, offset).map_err(invalid)?;
        let workers = WorkerDirectory::load(&self.0).await?;
        let mut created = workers.created();
        created.retain(|(kind, _)| sees_kind(&grant, kind));
        let message =
            |(kind, stored): (&Name, &StoredHandler)| Ok(to_worker(&grant, kind, stored, &workers));
        let some: Vec<_> = page.of(created).into_iter().map(message).collect();
        Ok(Response::new(Box::pin(stream::iter(some))))
    }

    async fn count(&self, request: Request<CountCondition>) -> JobworkerpReply<CountResponse> {
        let grant = grant(&request)?;
        let workers = WorkerDirectory::load(&self.0).await?;
        let total = workers.created().iter().filter(|(kind, _)| sees_kind(&grant, kind)).count();
        Ok(Response::new(CountResponse { total: i64::try_from(total).unwrap_or(i64::MAX) }))
    }
}

/// Runs an operation of several writes to its end, even if its caller disconnects.
async fn run_to_completion<T: Send + 'static>(
    work: impl Future<Output = Result<T, Status>> + Send + 'static,
) -> Result<T, Status> {
    match tokio::spawn(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down.
            Err(_) => Err(failed(crore::Error::Stopping)),
        },
    }
}

/// A worker as a message, if it exists and the caller may see it.
fn shown(
    grant: &Grant,
    found: Option<(&Name, &StoredHandler)>,
    workers: &WorkerDirectory,
) -> Result<Option<Worker>, Status> {
    let Some((kind, stored)) = found else { return Ok(None) };
    grant.check_kind(kind).map_err(invalid)?;
    Ok(Some(to_worker(grant, kind, stored, workers)))
}

/// A worker as a message. The password in a URL is masked, except for callers that may define workers.
fn to_worker(
    grant: &Grant,
    kind: &Name,
    stored: &StoredHandler,
    workers: &WorkerDirectory,
) -> Worker {
    let mut worker = translate::to_worker(kind, &stored.handler, workers);
    if let Some(data) = worker.data.as_mut().filter(|_| !grant.has(Scope::Define)) {
        data.operation = mask_user_info(&data.operation);
    }
    worker
}

/// Whether the caller may see workers of this kind.
fn sees_kind(grant: &Grant, kind: &Name) -> bool {
    grant.only().is_none_or(|only| only.covers_kind(kind))
}

/// Refuses a worker, or a following one, outside the caller's restriction. An id without a worker is refused, too:
/// the worker that gets it may have any kind.
fn check_define(
    grant: &Grant,
    kind: &Name,
    handler: &Handler,
    workers: &WorkerDirectory,
) -> Result<(), Status> {
    let refused = |bad| invalid(translate::with_worker_fields(bad));
    calls::check_define(grant, kind, handler).map_err(refused)?;
    for link in handler.links.iter().filter(|_| grant.only().is_some()) {
        let number = link.cast_signed();
        let linked = workers.by_id(number).map(|(kind, _)| kind);
        let unknown = || Fault::missing(format!("worker {number}"));
        grant.check_kind(linked.ok_or_else(unknown)?).map_err(refused)?;
    }
    Ok(())
}

/// Updates a worker.
async fn update(doors: Doors, grant: Grant, id: i64, data: WorkerData) -> Result<(), Status> {
    for _ in 0..MAX_TRIES {
        let workers = WorkerDirectory::load(&doors).await?;
        let (kind, handler) = read(&doors, &data)?;
        // In jobworkerp, updating a missing worker is not an error.
        let Some((from, stored)) = workers.by_id(id).filter(|_| id != BUILT_IN_WORKER) else {
            return Ok(());
        };
        let handler = links::updated(handler, &stored.handler);
        check_define(&grant, &kind, &handler, &workers)?;
        grant.check_whole_kind(from).map_err(invalid)?;
        let seen = (from.clone(), stored.revision);
        let is_done = if *from == kind {
            doors.engine().handlers().replace(seen, handler).await
        } else if workers.has(&kind) {
            return Err(name_in_use(&kind));
        } else {
            doors.engine().handlers().rename(seen, kind, handler).await
        };
        // Otherwise the worker changed concurrently: read it again, so that the other change is not lost.
        if is_done.map_err(handler_error)? {
            return Ok(());
        }
    }
    Err(busy(id))
}

/// Deletes a worker, and returns whether it existed.
async fn delete(doors: &Doors, grant: &Grant, id: i64) -> Result<bool, Status> {
    for _ in 0..MAX_TRIES {
        let workers = WorkerDirectory::load(doors).await?;
        let Some((kind, stored)) = workers.by_id(id).filter(|_| id != BUILT_IN_WORKER) else {
            return Ok(false);
        };
        grant.check_whole_kind(kind).map_err(invalid)?;
        // With its revision: the name may belong to another worker by now.
        let seen = (kind.clone(), stored.revision);
        if doors.engine().handlers().remove_at(seen).await.map_err(failed)? {
            return Ok(true);
        }
    }
    Err(busy(id))
}

/// Reads and checks a worker.
fn read(doors: &Doors, data: &WorkerData) -> Result<(Name, Handler), Status> {
    let read = translate::read(data, &doors.options().jobworkerp);
    let (kind, handler) = read.map_err(invalid)?;
    let checked = doors.api().check_handler(&handler);
    checked.map_err(|bad| invalid(translate::with_worker_fields(bad)))?;
    Ok((kind, handler))
}

fn handler_error(error: crore::Error) -> Status {
    match error {
        crore::Error::Invalid(bad) => invalid(translate::with_worker_fields(bad)),
        crore::Error::Refused { .. } => aborted(error),
        other => failed(other),
    }
}

/// The error when a worker keeps being changed concurrently.
fn busy(id: i64) -> Status {
    handler_error(crore::Error::Refused { what: format!("worker {id}"), why: BUSY })
}

fn name_in_use(kind: &Name) -> Status {
    already_exists("name", format!("worker `{kind}` already exists"))
}

fn success(id: i64, is_success: bool) -> JobworkerpReply<SuccessResponse> {
    Ok(with_audit_entry(format!("worker {id}"), SuccessResponse { is_success }))
}
