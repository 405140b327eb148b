//! `JobResultService`.

use crore::act::{Act, Acted};
use crore::store::views::Count;
use crore_api::Fault;
use crore_core::handler::Answer as Waits;
use crore_core::{Code, Invalid, Job as Stored, Name, State, Time};
use crore_wire::grpc::jobworkerp::data::{JobResult, JobResultId};
use crore_wire::grpc::jobworkerp::service::job_result_service_server::JobResultService;
use crore_wire::grpc::jobworkerp::service::{
    CountCondition, CountResponse, FindListByJobIdRequest, FindListByWorkerIdRequest,
    FindListRequest, ListenRequest, OptionalJobResultResponse, SuccessResponse, listen_request,
};
use futures_util::stream::{self, StreamExt};
use tonic::{Request, Response, Status};

use super::enqueue::{Named, missing};
use super::job::{job_id, of_worker};
use super::list::{self, Among, Looking, Part, SORTED};
use super::wait::Patience;
use super::workers::Workers;
use super::{Answer, Answers, Service, about, rows};
use crate::grpc::{as_named as invalid, failed};

#[tonic::async_trait]
impl JobResultService for Service {
    async fn delete(&self, request: Request<JobResultId>) -> Answer<SuccessResponse> {
        let id = request.into_inner().value;
        let is_success = match self.found(id).await? {
            Some((job, _)) if job.live.state.has_ended() => {
                let which = job.id.into();
                let acted =
                    self.0.engine().jobs().act(which, &Act::Delete).await.map_err(failed)?;
                matches!(acted, Acted::Yes(_))
            }
            _ => false,
        };
        Ok(about(format!("result {id}"), SuccessResponse { is_success }))
    }

    async fn find(&self, request: Request<JobResultId>) -> Answer<OptionalJobResultResponse> {
        let found = self.found(request.into_inner().value).await?;
        let data = found.map(|(_, result)| result);
        Ok(Response::new(OptionalJobResultResponse { data }))
    }

    type FindListStream = Answers<JobResult>;

    async fn find_list(&self, request: Request<FindListRequest>) -> Answer<Answers<JobResult>> {
        let FindListRequest { limit, offset } = request.into_inner();
        let part = Part::read(limit, offset).map_err(invalid)?;
        Ok(Response::new(self.all(part, None).await?))
    }

    type FindListByJobIdStream = Answers<JobResult>;

    async fn find_list_by_job_id(
        &self,
        request: Request<FindListByJobIdRequest>,
    ) -> Answer<Answers<JobResult>> {
        let id = request.into_inner().job_id.ok_or_else(|| missing("job_id"))?.value;
        let (workers, now) = (Workers::now(&self.0).await?, self.0.engine().status().now());
        let job = match job_id(id) {
            Some(id) => self.0.engine().get(id).await.map_err(failed)?,
            None => None,
        };
        let results = job.map(|job| rows::stored(&job, &workers, now)).unwrap_or_default();
        Ok(Response::new(Box::pin(stream::iter(results.into_iter().map(Ok)))))
    }

    type FindListByWorkerIdStream = Answers<JobResult>;

    async fn find_list_by_worker_id(
        &self,
        request: Request<FindListByWorkerIdRequest>,
    ) -> Answer<Answers<JobResult>> {
        let (worker, part) = of_worker(request.into_inner())?;
        Ok(Response::new(self.all(part, Some(worker)).await?))
    }

    async fn listen(&self, request: Request<ListenRequest>) -> Answer<JobResult> {
        let patience = Patience::of(request.metadata());
        let ask = request.into_inner();
        let id = ask.job_id.ok_or_else(|| missing("job_id"))?.value;
        let worker = match &ask.worker {
            Some(listen_request::Worker::WorkerId(id)) => Named::Id(id),
            Some(listen_request::Worker::WorkerName(name)) => Named::Name(name),
            None => return Err(missing("worker_id")),
        };
        let workers = Workers::now(&self.0).await?;
        let (kind, handler) = worker.find(&workers).map_err(invalid)?;
        if handler.results.answer != Waits::Listen {
            let why = format!("worker `{kind}` has another response type than `LISTEN_AFTER`");
            return Err(invalid(Invalid::new(Code::Malformed, "response_type", why)));
        }
        let no_job = || Status::from(Fault::missing(format!("job {id}")));
        let job = patience.wait(&self.0, job_id(id).ok_or_else(no_job)?, ask.timeout).await?;
        let result = rows::last(&job, &workers, self.0.engine().status().now());
        result.map(Response::new).ok_or_else(no_job)
    }

    async fn count(&self, _: Request<CountCondition>) -> Answer<CountResponse> {
        let workers = Workers::now(&self.0).await?;
        let counts = self.0.engine().jobs().counts(None).await.map_err(failed)?;
        let total = match list::meant(&counts, Among::Any) {
            ..=SORTED => {
                let all = self.all(Part::ALL, None).await?;
                let total = all.fold(Ok(0_i64), async |so_far, one| {
                    let (so_far, _) = (so_far?, one?);
                    Ok::<_, Status>(so_far + 1)
                });
                total.await?
            }
            // Of so many, ends are counted and not attempts.
            _ => i64::try_from(ends(&counts, &workers)).unwrap_or(i64::MAX),
        };
        Ok(Response::new(CountResponse { total }))
    }
}

/// How many jobs have ended with a result that their worker lets be found.
fn ends(counts: &[Count], workers: &Workers) -> u64 {
    let is_found = |count: &&Count| {
        let Some((_, known)) = workers.of_kind(&count.kind) else { return false };
        match count.state {
            State::Done => known.handler.results.success,
            State::Dead => known.handler.results.failure,
            _ => false,
        }
    };
    counts.iter().filter(is_found).map(|count| count.n).sum()
}

impl Service {
    /// A result, with the job that it is of.
    async fn found(&self, id: i64) -> Result<Option<(Stored, JobResult)>, Status> {
        let Some(job) = job_id(rows::job_of(id)) else { return Ok(None) };
        let Some(job) = self.0.engine().get(job).await.map_err(failed)? else { return Ok(None) };
        let (workers, now) = (Workers::now(&self.0).await?, self.0.engine().status().now());
        let is_it = |result: &JobResult| result.id == Some(JobResultId { value: id });
        let result = rows::stored(&job, &workers, now).into_iter().find(is_it);
        Ok(result.map(|result| (job, result)))
    }

    /// The results of one worker, or of all, those of the newest job first. Jobs of any kind are looked at, since
    /// workers may be gone.
    async fn all(&self, part: Part, worker: Option<i64>) -> Result<Answers<JobResult>, Status> {
        let (workers, now): (_, Time) =
            (Workers::now(&self.0).await?, self.0.engine().status().now());
        let may_be = |kind: &Name| worker.is_none_or(|id| workers.may_be(id, kind));
        let looking = Looking::begin(&self.0, Among::Any, may_be).await?;
        let tell = move |job: &Stored| {
            let is_its = |id: i64| worker.is_none_or(|worker| worker == id);
            let is_wanted = workers.whose(job).is_some_and(|whose| is_its(whose.id));
            if is_wanted { rows::stored(job, &workers, now) } else { Vec::new() }
        };
        Ok(list::told(looking, part, tell))
    }
}
