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

use super::job::to_job_id;
use super::list::{self, JobCursor, ListedJobs, OffsetPage};
use super::workers::WorkerDirectory;
use super::{JobworkerpReply, JobworkerpService, JobworkerpStream};
use crate::grpc::grant;

#[tonic::async_trait]
impl JobStatusService for JobworkerpService {
    async fn find(&self, request: Request<JobId>) -> JobworkerpReply<OptionalJobStatusResponse> {
        let grant = grant(&request)?;
        let found = self.find_live(&grant, request.into_inner().value).await?;
        let status = found.map(|(job, _)| status(&job).into());
        Ok(Response::new(OptionalJobStatusResponse { status }))
    }

    type FindAllStream = JobworkerpStream<JobStatusResponse>;

    async fn find_all(
        &self,
        request: Request<Empty>,
    ) -> JobworkerpReply<JobworkerpStream<JobStatusResponse>> {
        let grant = grant(&request)?;
        let workers = WorkerDirectory::load(&self.0).await?;
        let is_wanted = |kind: &Name| workers.of_kind(kind).is_some();
        let cursor = JobCursor::open((&self.0, &grant), ListedJobs::Live, is_wanted).await?;
        let items_of = move |job: &Stored| {
            let item = || JobStatusResponse { id: to_job_id(job.id), status: status(job).into() };
            let is_live = !job.live.state.has_ended() && workers.of_kind(&job.spec.kind).is_some();
            is_live.then(item).into_iter().collect()
        };
        Ok(Response::new(list::stream_items(cursor, OffsetPage::ALL, items_of)))
    }
}

/// Status of a job that has not ended. The result is written together with the end, so `WAIT_RESULT` never occurs.
const fn status(job: &Stored) -> JobStatus {
    match job.live.state {
        State::Running => JobStatus::Running,
        _ => JobStatus::Pending,
    }
}

#[tonic::async_trait]
impl JobRestoreService for JobworkerpService {
    async fn restore(&self, _: Request<JobRestoreRequest>) -> JobworkerpReply<SuccessResponse> {
        Ok(Response::new(SuccessResponse { is_success: true }))
    }

    type FindAllStream = JobworkerpStream<Job>;

    async fn find_all(
        &self,
        _: Request<JobRestoreRequest>,
    ) -> JobworkerpReply<JobworkerpStream<Job>> {
        Ok(Response::new(Box::pin(stream::empty())))
    }
}
