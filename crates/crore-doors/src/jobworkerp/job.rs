//! `JobService`.

use crore::actions::{ActionResult, JobAction};
use crore_api::Grant;
use crore_core::machine::Refusal;
use crore_core::unique::Unique;
use crore_core::{Job as Stored, JobId as Id, Name, Span, State};
use crore_wire::grpc::jobworkerp::data::{Job, JobData, JobId, Priority};
use crore_wire::grpc::jobworkerp::service::job_service_server::JobService;
use crore_wire::grpc::jobworkerp::service::{
    CountCondition, CountResponse, CreateJobResponse, FindListByWorkerIdRequest, FindListRequest,
    JobRequest, OptionalJobResponse, SuccessResponse,
};
use tonic::{Request, Response};

use super::list::{self, JobCursor, ListedJobs, OffsetPage};
use super::workers::{WorkerDirectory, worker_id};
use super::{JobworkerpReply, JobworkerpService, JobworkerpStream, enqueue, with_audit_entry};
use crate::grpc::{failed, grant, invalid_unmapped as invalid};

/// Prefix of unique keys of this door.
pub(super) const KEY_PREFIX: &str = "jobworkerp:";

#[tonic::async_trait]
impl JobService for JobworkerpService {
    async fn enqueue(&self, request: Request<JobRequest>) -> JobworkerpReply<CreateJobResponse> {
        enqueue::enqueue(&self.0, request).await
    }

    async fn delete(&self, request: Request<JobId>) -> JobworkerpReply<SuccessResponse> {
        let grant = grant(&request)?;
        let id = request.into_inner().value;
        let is_success = match self.find_live(&grant, id).await? {
            Some((job, _)) => {
                let which = job.id.into();
                let caller = grant.who().to_string();
                let jobs = self.0.engine().jobs().by(&caller);
                let acted = jobs.act(which, &JobAction::Cancel).await.map_err(failed)?;
                // A running job may already have been asked to stop.
                matches!(
                    acted,
                    ActionResult::Applied(_)
                        | ActionResult::Refused { refusal: Refusal::Nothing, .. }
                )
            }
            None => false,
        };
        Ok(with_audit_entry(format!("job {id}"), SuccessResponse { is_success }))
    }

    async fn find(&self, request: Request<JobId>) -> JobworkerpReply<OptionalJobResponse> {
        let grant = grant(&request)?;
        let found = self.find_live(&grant, request.into_inner().value).await?;
        let data = found.and_then(|(job, workers)| to_message(&job, &workers));
        Ok(Response::new(OptionalJobResponse { data }))
    }

    type FindListStream = JobworkerpStream<Job>;

    async fn find_list(
        &self,
        request: Request<FindListRequest>,
    ) -> JobworkerpReply<JobworkerpStream<Job>> {
        let grant = grant(&request)?;
        let FindListRequest { limit, offset } = request.into_inner();
        let page = OffsetPage::read(limit, offset).map_err(invalid)?;
        let workers = WorkerDirectory::load(&self.0).await?;
        let is_wanted = |kind: &Name| workers.of_kind(kind).is_some();
        let cursor = JobCursor::open((&self.0, &grant), ListedJobs::Live, is_wanted).await?;
        let items_of = move |job: &Stored| live_message(job, &workers);
        Ok(Response::new(list::stream_items(cursor, page, items_of)))
    }

    type FindListByWorkerIdStream = JobworkerpStream<Job>;

    async fn find_list_by_worker_id(
        &self,
        request: Request<FindListByWorkerIdRequest>,
    ) -> JobworkerpReply<JobworkerpStream<Job>> {
        let grant = grant(&request)?;
        let (worker, page) = read_worker_list(request.into_inner())?;
        let workers = WorkerDirectory::load(&self.0).await?;
        let is_wanted =
            |kind: &Name| workers.of_kind(kind).is_some() && workers.may_own_kind(worker, kind);
        let cursor = JobCursor::open((&self.0, &grant), ListedJobs::Live, is_wanted).await?;
        let items_of = move |job: &Stored| {
            let is_its = workers.worker_of(job).is_some_and(|owner| owner.id == worker);
            if is_its { live_message(job, &workers) } else { Vec::new() }
        };
        Ok(Response::new(list::stream_items(cursor, page, items_of)))
    }

    async fn count(&self, request: Request<CountCondition>) -> JobworkerpReply<CountResponse> {
        let grant = grant(&request)?;
        let workers = WorkerDirectory::load(&self.0).await?;
        let mut counts = self.0.api().counts(&grant, None).await?;
        counts.retain(|count| workers.of_kind(&count.kind).is_some());
        let total = list::count_listed(&counts, ListedJobs::Live);
        Ok(Response::new(CountResponse { total: i64::try_from(total).unwrap_or(i64::MAX) }))
    }
}

impl JobworkerpService {
    /// A job of a worker that has not ended.
    pub(super) async fn find_live(
        &self,
        grant: &Grant,
        id: i64,
    ) -> Result<Option<(Stored, WorkerDirectory)>, tonic::Status> {
        let Some(id) = job_id(id) else { return Ok(None) };
        let workers = WorkerDirectory::load(&self.0).await?;
        let job = self.0.engine().get(id).await.map_err(failed)?;
        let is_live =
            |job: &Stored| !job.live.state.has_ended() && workers.of_kind(&job.spec.kind).is_some();
        let found = job.filter(is_live).map(|job| (job, workers));
        if let Some((job, _)) = &found {
            grant.check_job(&job.spec).map_err(invalid)?;
        }
        Ok(found)
    }
}

/// Reads a request for the jobs or results of one worker.
pub(super) fn read_worker_list(
    request: FindListByWorkerIdRequest,
) -> Result<(i64, OffsetPage), tonic::Status> {
    let missing = || enqueue::missing("worker_id");
    let worker = request.worker_id.ok_or_else(missing)?.value;
    Ok((worker, OffsetPage::read(request.limit, request.offset).map_err(invalid)?))
}

/// A job id, if it is in range.
pub(super) fn job_id(value: i64) -> Option<Id> {
    u64::try_from(value).ok().and_then(Id::new)
}

fn live_message(job: &Stored, workers: &WorkerDirectory) -> Vec<Job> {
    let is_live = !job.live.state.has_ended() && workers.of_kind(&job.spec.kind).is_some();
    is_live.then(|| to_message(job, workers)).flatten().into_iter().collect()
}

/// A job as a jobworkerp message.
fn to_message(job: &Stored, workers: &WorkerDirectory) -> Option<Job> {
    let owner = workers.worker_of(job)?;
    let is_running = job.live.state == State::Running;
    let data = JobData {
        worker_id: worker_id(owner.id),
        arg: workers.masked_argument(job),
        uniq_key: key(job.spec.unique.as_deref()),
        enqueue_time: job.live.pushed_at.as_millis(),
        grabbed_until_time: Some(if is_running { job.live.lease_until.as_millis() } else { 0 }),
        run_after_time: job.live.due.as_millis(),
        retried: if is_running { job.live.attempt.saturating_sub(1) } else { job.live.attempt },
        priority: priority(job.spec.priority).into(),
        timeout: timeout(job.spec.timeout),
    };
    Some(Job { id: to_job_id(job.id), data: Some(data) })
}

pub(super) fn to_job_id(id: Id) -> Option<JobId> {
    Some(JobId { value: i64::try_from(id.0).unwrap_or(i64::MAX) })
}

/// The unique key without this door's prefix.
pub(super) fn key(unique: Option<&Unique>) -> Option<String> {
    let key = &*unique?.key;
    Some(key.strip_prefix(KEY_PREFIX).unwrap_or(key).to_owned())
}

/// jobworkerp: larger first. crore: smaller first.
pub(super) const fn priority(ours: i32) -> Priority {
    match ours {
        ..0 => Priority::High,
        0 => Priority::Medium,
        1.. => Priority::Low,
    }
}

pub(super) fn timeout(timeout: Option<Span>) -> u64 {
    timeout.map_or(0, Span::as_millis)
}
