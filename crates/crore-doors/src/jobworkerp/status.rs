//! `JobStatusService` and `JobRestoreService`.

use crore_core::{Job as Stored, Name, State};
use crore_wire::grpc::jobworkerp::data::{Empty, Job, JobId, JobStatus};
use crore_wire::grpc::jobworkerp::service::job_restore_service_server::JobRestoreService;
use crore_wire::grpc::jobworkerp::service::job_status_service_server::JobStatusService;
use crore_wire::grpc::jobworkerp::service::{
    JobRestoreRequest, JobStatusResponse, OptionalJobStatusResponse, SuccessResponse,
};
use futures_util::stream;
use tonic::{Request, Response};

use super::job::said_id;
use super::list::{self, Among, Looking, Part};
use super::workers::Workers;
use super::{Answer, Answers, Service};

#[tonic::async_trait]
impl JobStatusService for Service {
    async fn find(&self, request: Request<JobId>) -> Answer<OptionalJobStatusResponse> {
        let found = self.live(request.into_inner().value).await?;
        let status = found.map(|(job, _)| status(&job).into());
        Ok(Response::new(OptionalJobStatusResponse { status }))
    }

    type FindAllStream = Answers<JobStatusResponse>;

    async fn find_all(&self, _: Request<Empty>) -> Answer<Answers<JobStatusResponse>> {
        let workers = Workers::now(&self.0).await?;
        let is_wanted = |kind: &Name| workers.of_kind(kind).is_some();
        let looking = Looking::begin(&self.0, Among::Live, is_wanted).await?;
        let tell = move |job: &Stored| {
            let said = || JobStatusResponse { id: said_id(job.id), status: status(job).into() };
            let is_live = !job.live.state.has_ended() && workers.of_kind(&job.spec.kind).is_some();
            is_live.then(said).into_iter().collect()
        };
        Ok(Response::new(list::told(looking, Part::ALL, tell)))
    }
}

/// Where a job stands that has not ended. Its result is kept in the write that ends it, so it never waits for that.
const fn status(job: &Stored) -> JobStatus {
    match job.live.state {
        State::Running => JobStatus::Running,
        _ => JobStatus::Pending,
    }
}

#[tonic::async_trait]
impl JobRestoreService for Service {
    async fn restore(&self, _: Request<JobRestoreRequest>) -> Answer<SuccessResponse> {
        Ok(Response::new(SuccessResponse { is_success: true }))
    }

    type FindAllStream = Answers<Job>;

    async fn find_all(&self, _: Request<JobRestoreRequest>) -> Answer<Answers<Job>> {
        Ok(Response::new(Box::pin(stream::empty())))
    }
}
