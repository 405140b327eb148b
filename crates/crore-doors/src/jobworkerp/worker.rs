//! `WorkerService`.

use crore_api::Fault;
use crore_core::{Handler, Name};
use crore_wire::grpc::jobworkerp::data::{Worker, WorkerData, WorkerId};
use crore_wire::grpc::jobworkerp::service::worker_service_server::WorkerService;
use crore_wire::grpc::jobworkerp::service::{
    CountCondition, CountResponse, CreateWorkerRequest, CreateWorkerResponse, FindListRequest,
    OptionalWorkerResponse, SuccessResponse, WorkerNameRequest,
};
use futures_util::stream;
use tonic::{Request, Response, Status};

use super::list::Part;
use super::workers::{self, BUILT_IN_ID, BUSY, TRIES, Workers};
use super::{Answer, Answers, Service, about, built_in, links, translate};
use crate::Doors;
use crate::grpc::{aborted, as_named as invalid, failed, taken};

#[tonic::async_trait]
impl WorkerService for Service {
    async fn create(&self, request: Request<CreateWorkerRequest>) -> Answer<CreateWorkerResponse> {
        let data = translate::created(request.into_inner());
        let (kind, handler) = read(&self.0, &data)?;
        let added = self.0.engine().handlers().add(kind.clone(), handler).await;
        let id = added.map_err(in_its_words)?.ok_or_else(|| is_there(&kind))?;
        let id = WorkerId { value: i64::try_from(id).unwrap_or(i64::MAX) };
        Ok(about(format!("worker {}: {kind}", id.value), CreateWorkerResponse { id: Some(id) }))
    }

    async fn update(&self, request: Request<Worker>) -> Answer<SuccessResponse> {
        let Worker { id, data } = request.into_inner();
        let id = id.ok_or_else(|| Status::from(Fault::missing("a worker without an `id`")))?.value;
        let Some(data) = data else { return success(id, false) };
        to_its_end(update(self.0.clone(), id, data)).await?;
        success(id, true)
    }

    async fn delete(&self, request: Request<WorkerId>) -> Answer<SuccessResponse> {
        let id = request.into_inner().value;
        let was_there = delete(&self.0, id).await?;
        success(id, was_there)
    }

    async fn find(&self, request: Request<WorkerId>) -> Answer<OptionalWorkerResponse> {
        let id = request.into_inner().value;
        if id == BUILT_IN_ID {
            return Ok(Response::new(OptionalWorkerResponse { data: Some(built_in::worker()) }));
        }
        let workers = Workers::now(&self.0).await?;
        let data =
            workers.by_id(id).map(|(kind, known)| translate::said(kind, &known.handler, &workers));
        Ok(Response::new(OptionalWorkerResponse { data }))
    }

    async fn find_by_name(
        &self,
        request: Request<WorkerNameRequest>,
    ) -> Answer<OptionalWorkerResponse> {
        let name = request.into_inner().name;
        let workers = Workers::now(&self.0).await?;
        let found = workers.by_name(&name).filter(|_| !workers::is_reserved(&name));
        let data = found.map(|(kind, known)| translate::said(kind, &known.handler, &workers));
        Ok(Response::new(OptionalWorkerResponse { data }))
    }

    type FindListStream = Answers<Worker>;

    async fn find_list(&self, request: Request<FindListRequest>) -> Answer<Answers<Worker>> {
        let FindListRequest { limit, offset } = request.into_inner();
        let part = Part::read(limit, offset).map_err(invalid)?;
        let workers = Workers::now(&self.0).await?;
        let said = |(kind, known): (&Name, &crore::handlers::Known)| {
            Ok(translate::said(kind, &known.handler, &workers))
        };
        let some: Vec<_> = part.of(workers.created()).into_iter().map(said).collect();
        Ok(Response::new(Box::pin(stream::iter(some))))
    }

    async fn count(&self, _: Request<CountCondition>) -> Answer<CountResponse> {
        let total = Workers::now(&self.0).await?.created().len();
        Ok(Response::new(CountResponse { total: i64::try_from(total).unwrap_or(i64::MAX) }))
    }
}

/// Does something that takes several writes to its end, also if its caller leaves in the middle.
async fn to_its_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, Status>> + Send + 'static,
) -> Result<T, Status> {
    match tokio::spawn(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime ends.
            Err(_) => Err(failed(crore::Error::Stopping)),
        },
    }
}

/// Says anew what a worker is.
async fn update(doors: Doors, id: i64, data: WorkerData) -> Result<(), Status> {
    for _ in 0..TRIES {
        let workers = Workers::now(&doors).await?;
        let (kind, handler) = read(&doors, &data)?;
        // What is not there is not changed, and that is no failure there.
        let Some((from, known)) = workers.by_id(id).filter(|_| id != BUILT_IN_ID) else {
            return Ok(());
        };
        let handler = links::updated(handler, &known.handler);
        let seen = (from.clone(), known.revision);
        let is_done = if *from == kind {
            doors.engine().handlers().replace(seen, handler).await
        } else if workers.has(&kind) {
            return Err(is_there(&kind));
        } else {
            doors.engine().handlers().rename(seen, kind, handler).await
        };
        // Otherwise somebody else has changed it meanwhile, and what he said that a worker has no word for stays.
        if is_done.map_err(in_its_words)? {
            return Ok(());
        }
    }
    Err(busy(id))
}

/// Takes a worker away; says whether it was there.
async fn delete(doors: &Doors, id: i64) -> Result<bool, Status> {
    for _ in 0..TRIES {
        let workers = Workers::now(doors).await?;
        let Some((kind, known)) = workers.by_id(id).filter(|_| id != BUILT_IN_ID) else {
            return Ok(false);
        };
        // Its name may be another worker's by now.
        let seen = (kind.clone(), known.revision);
        if doors.engine().handlers().remove_seen(seen).await.map_err(failed)? {
            return Ok(true);
        }
    }
    Err(busy(id))
}

/// A worker in our words, as one that can be had.
fn read(doors: &Doors, data: &WorkerData) -> Result<(Name, Handler), Status> {
    let read = translate::read(data, &doors.options().jobworkerp);
    let (kind, handler) = read.map_err(invalid)?;
    let checked = doors.api().check_handler(&handler);
    checked.map_err(|bad| invalid(translate::in_its_words(bad)))?;
    Ok((kind, handler))
}

fn in_its_words(error: crore::Error) -> Status {
    match error {
        crore::Error::Invalid(bad) => invalid(translate::in_its_words(bad)),
        crore::Error::Refused { .. } => aborted(error),
        other => failed(other),
    }
}

/// Others were faster too often.
fn busy(id: i64) -> Status {
    in_its_words(crore::Error::Refused { what: format!("worker {id}"), why: BUSY })
}

fn is_there(kind: &Name) -> Status {
    taken("name", format!("there is a worker `{kind}`"))
}

fn success(id: i64, is_success: bool) -> Answer<SuccessResponse> {
    Ok(about(format!("worker {id}"), SuccessResponse { is_success }))
}
