//! `JobResultService`.

use crore::actions::{ActionResult, JobAction};
use crore::store::views::JobCount;
use crore_api::{Fault, Grant};
use crore_core::handler::ResultWaiter as Waits;
use crore_core::{Code, Invalid, Job as Stored, Name, State, Time};
use crore_wire::grpc::jobworkerp::data::{JobResult, JobResultId};
use crore_wire::grpc::jobworkerp::service::job_result_service_server::JobResultService;
use crore_wire::grpc::jobworkerp::service::{
    CountCondition, CountResponse, FindListByJobIdRequest, FindListByWorkerIdRequest,
    FindListRequest, ListenRequest, OptionalJobResultResponse, SuccessResponse, listen_request,
};
use futures_util::stream::{self, StreamExt};
use tonic::{Request, Response, Status};

use super::enqueue::{WorkerRef, missing};
use super::job::{job_id, read_worker_list};
use super::list::{self, JobCursor, ListedJobs, MAX_SORTED, OffsetPage};
use super::wait::CallDeadline;
use super::workers::WorkerDirectory;
use super::{JobworkerpReply, JobworkerpService, JobworkerpStream, result_rows, with_audit_entry};
use crate::grpc::{failed, grant, invalid_unmapped as invalid};

#[tonic::async_trait]
impl JobResultService for JobworkerpService {
    async fn delete(&self, request: Request<JobResultId>) -> JobworkerpReply<SuccessResponse> {
        let grant = grant(&request)?;
        let id = request.into_inner().value;
        let is_success = match self.find_result(&grant, id).await? {
            Some((job, _)) if job.live.state.has_ended() => {
                let which = job.id.into();
                let acted =
                    self.0.engine().jobs().act(which, &JobAction::Delete).await.map_err(failed)?;
                matches!(acted, ActionResult::Applied(_))
            }
            _ => false,
        };
        Ok(with_audit_entry(format!("result {id}"), SuccessResponse { is_success }))
    }

    async fn find(
        &self,
        request: Request<JobResultId>,
    ) -> JobworkerpReply<OptionalJobResultResponse> {
        let grant = grant(&request)?;
        let found = self.find_result(&grant, request.into_inner().value).await?;
        let data = found.map(|(_, result)| result);
        Ok(Response::new(OptionalJobResultResponse { data }))
    }

    type FindListStream = JobworkerpStream<JobResult>;

    async fn find_list(
        &self,
        request: Request<FindListRequest>,
    ) -> JobworkerpReply<JobworkerpStream<JobResult>> {
        let grant = grant(&request)?;
        let FindListRequest { limit, offset } = request.into_inner();
        let page = OffsetPage::read(limit, offset).map_err(invalid)?;
        Ok(Response::new(self.list_results(&grant, page, None).await?))
    }

    type FindListByJobIdStream = JobworkerpStream<JobResult>;

    async fn find_list_by_job_id(
        &self,
        request: Request<FindListByJobIdRequest>,
    ) -> JobworkerpReply<JobworkerpStream<JobResult>> {
        let grant = grant(&request)?;
        let id = request.into_inner().job_id.ok_or_else(|| missing("job_id"))?.value;
        let (workers, now) =
            (WorkerDirectory::load(&self.0).await?, self.0.engine().status().now());
        let job = match job_id(id) {
            Some(id) => self.0.engine().get(id).await.map_err(failed)?,
            None => None,
        };
        if let Some(job) = &job {
            grant.check_job(&job.spec).map_err(invalid)?;
        }
        let results = job.map(|job| result_rows::stored(&job, &workers, now)).unwrap_or_default();
        Ok(Response::new(Box::pin(stream::iter(results.into_iter().map(Ok)))))
    }

    type FindListByWorkerIdStream = JobworkerpStream<JobResult>;

    async fn find_list_by_worker_id(
        &self,
        request: Request<FindListByWorkerIdRequest>,
    ) -> JobworkerpReply<JobworkerpStream<JobResult>> {
        let grant = grant(&request)?;
        let (worker, page) = read_worker_list(request.into_inner())?;
        Ok(Response::new(self.list_results(&grant, page, Some(worker)).await?))
    }

    async fn listen(&self, request: Request<ListenRequest>) -> JobworkerpReply<JobResult> {
        let grant = grant(&request)?;
        let deadline = CallDeadline::of(request.metadata());
        let request = request.into_inner();
        let id = request.job_id.ok_or_else(|| missing("job_id"))?.value;
        let worker = match &request.worker {
            Some(listen_request::Worker::WorkerId(id)) => WorkerRef::Id(id),
            Some(listen_request::Worker::WorkerName(name)) => WorkerRef::Name(name),
            None => return Err(missing("worker_id")),
        };
        let workers = WorkerDirectory::load(&self.0).await?;
        let (kind, handler) = worker.find(&workers).map_err(invalid)?;
        if handler.results.answer != Waits::Listen {
            let why = format!("worker `{kind}` does not have response type `LISTEN_AFTER`");
            return Err(invalid(Invalid::new(Code::Malformed, "response_type", why)));
        }
        let no_job = || Status::from(Fault::missing(format!("job {id}")));
        let id = job_id(id).ok_or_else(no_job)?;
        self.0.api().check_result(&grant, id).await?;
        let job = deadline.wait(&self.0, id, request.timeout).await?;
        let result = result_rows::last(&job, &workers, self.0.engine().status().now());
        result.map(Response::new).ok_or_else(no_job)
    }

    async fn count(&self, request: Request<CountCondition>) -> JobworkerpReply<CountResponse> {
        let grant = grant(&request)?;
        let workers = WorkerDirectory::load(&self.0).await?;
        let counts = self.0.api().counts(&grant, None).await?;
        let total = match list::count_listed(&counts, ListedJobs::Any) {
            ..=MAX_SORTED => {
                let all = self.list_results(&grant, OffsetPage::ALL, None).await?;
                let total = all.fold(Ok(0_i64), async |so_far, one| {
                    let (so_far, _) = (so_far?, one?);
                    Ok::<_, Status>(so_far + 1)
                });
                total.await?
            }
            // For large lists, count ended jobs instead of attempts.
            _ => i64::try_from(count_ended(&counts, &workers)).unwrap_or(i64::MAX),
        };
        Ok(Response::new(CountResponse { total }))
    }
}

/// Number of ended jobs whose worker stores the result.
fn count_ended(counts: &[JobCount], workers: &WorkerDirectory) -> u64 {
    let is_found = |count: &&JobCount| {
        let Some((_, stored)) = workers.of_kind(&count.kind) else { return false };
        match count.state {
            State::Done => stored.handler.results.success,
            State::Dead => stored.handler.results.failure,
            _ => false,
        }
    };
    counts.iter().filter(is_found).map(|count| count.n).sum()
}

impl JobworkerpService {
    /// A result, with its job.
    async fn find_result(
        &self,
        grant: &Grant,
        id: i64,
    ) -> Result<Option<(Stored, JobResult)>, Status> {
        let Some(job) = job_id(result_rows::job_of(id)) else { return Ok(None) };
        let Some(job) = self.0.engine().get(job).await.map_err(failed)? else { return Ok(None) };
        grant.check_job(&job.spec).map_err(invalid)?;
        let (workers, now) =
            (WorkerDirectory::load(&self.0).await?, self.0.engine().status().now());
        let is_it = |result: &JobResult| result.id == Some(JobResultId { value: id });
        let result = result_rows::stored(&job, &workers, now).into_iter().find(is_it);
        Ok(result.map(|result| (job, result)))
    }

    /// Results of one worker, or of all, newest job first. Jobs of any kind are read, because workers may have been
    /// deleted.
    async fn list_results(
        &self,
        grant: &Grant,
        page: OffsetPage,
        worker: Option<i64>,
    ) -> Result<JobworkerpStream<JobResult>, Status> {
        let (workers, now): (_, Time) =
            (WorkerDirectory::load(&self.0).await?, self.0.engine().status().now());
        let may_be = |kind: &Name| worker.is_none_or(|id| workers.may_own_kind(id, kind));
        let cursor = JobCursor::open((&self.0, grant), ListedJobs::Any, may_be).await?;
        let items_of = move |job: &Stored| {
            let is_its = |id: i64| worker.is_none_or(|worker| worker == id);
            let is_wanted = workers.worker_of(job).is_some_and(|owner| is_its(owner.id));
            if is_wanted { result_rows::stored(job, &workers, now) } else { Vec::new() }
        };
        Ok(list::stream_items(cursor, page, items_of))
    }
}
