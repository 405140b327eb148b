//! `JobService`.

use crore::act::{Act, Acted};
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

use super::list::{self, Among, Looking, Part};
use super::workers::{Workers, worker_id};
use super::{Answer, Answers, Service, about, enqueue};
use crate::grpc::{as_named as invalid, failed};

/// What stands before the keys of this door.
pub(super) const KEYS: &str = "jobworkerp:";

#[tonic::async_trait]
impl JobService for Service {
    async fn enqueue(&self, request: Request<JobRequest>) -> Answer<CreateJobResponse> {
        enqueue::enqueue(&self.0, request).await
    }

    async fn delete(&self, request: Request<JobId>) -> Answer<SuccessResponse> {
        let id = request.into_inner().value;
        let is_success = match self.live(id).await? {
            Some((job, _)) => {
                let which = job.id.into();
                let acted =
                    self.0.engine().jobs().act(which, &Act::Cancel).await.map_err(failed)?;
                // Whoever runs it may have been asked before.
                matches!(acted, Acted::Yes(_) | Acted::No(Refusal::Nothing))
            }
            None => false,
        };
        Ok(about(format!("job {id}"), SuccessResponse { is_success }))
    }

    async fn find(&self, request: Request<JobId>) -> Answer<OptionalJobResponse> {
        let found = self.live(request.into_inner().value).await?;
        let data = found.and_then(|(job, workers)| said(&job, &workers));
        Ok(Response::new(OptionalJobResponse { data }))
    }

    type FindListStream = Answers<Job>;

    async fn find_list(&self, request: Request<FindListRequest>) -> Answer<Answers<Job>> {
        let FindListRequest { limit, offset } = request.into_inner();
        let part = Part::read(limit, offset).map_err(invalid)?;
        let workers = Workers::now(&self.0).await?;
        let is_wanted = |kind: &Name| workers.of_kind(kind).is_some();
        let looking = Looking::begin(&self.0, Among::Live, is_wanted).await?;
        let tell = move |job: &Stored| said_live(job, &workers);
        Ok(Response::new(list::told(looking, part, tell)))
    }

    type FindListByWorkerIdStream = Answers<Job>;

    async fn find_list_by_worker_id(
        &self,
        request: Request<FindListByWorkerIdRequest>,
    ) -> Answer<Answers<Job>> {
        let (worker, part) = of_worker(request.into_inner())?;
        let workers = Workers::now(&self.0).await?;
        let is_wanted =
            |kind: &Name| workers.of_kind(kind).is_some() && workers.may_be(worker, kind);
        let looking = Looking::begin(&self.0, Among::Live, is_wanted).await?;
        let tell = move |job: &Stored| {
            let is_its = workers.whose(job).is_some_and(|whose| whose.id == worker);
            if is_its { said_live(job, &workers) } else { Vec::new() }
        };
        Ok(Response::new(list::told(looking, part, tell)))
    }

    async fn count(&self, _: Request<CountCondition>) -> Answer<CountResponse> {
        let workers = Workers::now(&self.0).await?;
        let mut counts = self.0.engine().jobs().counts(None).await.map_err(failed)?;
        counts.retain(|count| workers.of_kind(&count.kind).is_some());
        let total = list::meant(&counts, Among::Live);
        Ok(Response::new(CountResponse { total: i64::try_from(total).unwrap_or(i64::MAX) }))
    }
}

impl Service {
    /// A job of a worker that has not ended.
    pub(super) async fn live(&self, id: i64) -> Result<Option<(Stored, Workers)>, tonic::Status> {
        let Some(id) = job_id(id) else { return Ok(None) };
        let workers = Workers::now(&self.0).await?;
        let job = self.0.engine().get(id).await.map_err(failed)?;
        let is_live =
            |job: &Stored| !job.live.state.has_ended() && workers.of_kind(&job.spec.kind).is_some();
        Ok(job.filter(is_live).map(|job| (job, workers)))
    }
}

/// What a list of a worker's jobs, or results, asks for.
pub(super) fn of_worker(ask: FindListByWorkerIdRequest) -> Result<(i64, Part), tonic::Status> {
    let missing = || enqueue::missing("worker_id");
    let worker = ask.worker_id.ok_or_else(missing)?.value;
    Ok((worker, Part::read(ask.limit, ask.offset).map_err(invalid)?))
}

/// The number of a job, if it can be one.
pub(super) fn job_id(value: i64) -> Option<Id> {
    u64::try_from(value).ok().and_then(Id::new)
}

fn said_live(job: &Stored, workers: &Workers) -> Vec<Job> {
    let is_live = !job.live.state.has_ended() && workers.of_kind(&job.spec.kind).is_some();
    is_live.then(|| said(job, workers)).flatten().into_iter().collect()
}

/// A job in the words of jobworkerp.
fn said(job: &Stored, workers: &Workers) -> Option<Job> {
    let whose = workers.whose(job)?;
    let is_running = job.live.state == State::Running;
    let data = JobData {
        worker_id: worker_id(whose.id),
        arg: job.spec.payload.bytes.to_vec(),
        uniq_key: key(job.spec.unique.as_ref()),
        enqueue_time: job.live.pushed_at.as_millis(),
        grabbed_until_time: Some(if is_running { job.live.lease_until.as_millis() } else { 0 }),
        run_after_time: job.live.due.as_millis(),
        retried: if is_running { job.live.attempt.saturating_sub(1) } else { job.live.attempt },
        priority: priority(job.spec.priority).into(),
        timeout: timeout(job.spec.timeout),
    };
    Some(Job { id: said_id(job.id), data: Some(data) })
}

pub(super) fn said_id(id: Id) -> Option<JobId> {
    Some(JobId { value: i64::try_from(id.0).unwrap_or(i64::MAX) })
}

/// A key, without what this door puts before its own.
pub(super) fn key(unique: Option<&Unique>) -> Option<String> {
    let key = &*unique?.key;
    Some(key.strip_prefix(KEYS).unwrap_or(key).to_owned())
}

/// Larger first there, smaller first here.
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
