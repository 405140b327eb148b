//! `crore.v1.Work`: fetching jobs, renewing leases, and reporting.

use crore::fetch::Fetch;
use crore::store::jobs::{Renew, Renewed};
use crore_api::AdmittedCall;
use crore_api::calls::restrict_fetch;
use crore_api::params::kind_versions;
use crore_core::{Delivery, JobId, Span};
use crore_wire::grpc::v1::{self, work_server};
use crore_wire::worker::JobDelivery;
use tonic::{Request, Response, Status, Streaming};

use super::fault::{failed, invalid};
use super::grant;
use super::stream::WorkerResponseStream;
use crate::Doors;
use crate::worker_session::{WorkerSession, fetch_for, finish};

#[derive(Debug, Clone)]
pub(super) struct WorkService(pub(super) Doors);

/// Name of a worker that gives none.
const ANONYMOUS: &str = "anonymous";

type WorkReply<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl work_server::Work for WorkService {
    type StreamStream = WorkerResponseStream<Streaming<v1::WorkerSays>>;

    async fn stream(
        &self,
        request: Request<Streaming<v1::WorkerSays>>,
    ) -> WorkReply<Self::StreamStream> {
        let call = AdmittedCall::of(request.extensions()).cloned();
        let session = WorkerSession::new(self.0.clone(), grant(&request)?, call);
        Ok(Response::new(WorkerResponseStream::new(session, request.into_inner())))
    }

    async fn fetch(&self, request: Request<v1::FetchRequest>) -> WorkReply<v1::FetchResponse> {
        let grant = grant(&request)?;
        let request = request.into_inner();
        let worker = if request.worker.is_empty() { ANONYMOUS } else { &request.worker };
        let wait = Span::from_millis(request.wait_ms).min(self.0.api().options().max_wait);
        let mut fetch = Fetch {
            n: request.n.max(1) as usize,
            wait,
            ..fetch_for(&request.queues, &request.kinds, request.strict, worker).map_err(invalid)?
        };
        fetch.versions =
            kind_versions(&request.versions, fetch.kinds.as_deref()).map_err(invalid)?;
        restrict_fetch(&grant, &mut fetch).map_err(invalid)?;
        let jobs = self.0.engine().fetch(fetch).await.map_err(failed)?;
        let jobs = self.0.engine().deliveries().hand_over(jobs).await.map_err(failed)?;
        let delivered =
            jobs.iter().map(|job| JobDelivery::of(job, self.0.api().trace_of(job)).into());
        Ok(Response::new(v1::FetchResponse { jobs: delivered.collect() }))
    }

    async fn renew(&self, request: Request<v1::RenewRequest>) -> WorkReply<v1::RenewResponse> {
        let grant = grant(&request)?;
        let request = request.into_inner();
        let span = request.lease_ms.map(Span::from_millis);
        let renew = |held: &v1::Held| {
            let (id, delivery) = (JobId(held.id), Delivery(held.delivery));
            Renew { id, delivery, span }
        };
        let leases = request.jobs.iter().map(renew).collect();
        let renewed = self.0.api().renew_leases(&grant, leases).await?;
        let jobs = renewed.into_iter().map(|renewed| match renewed {
            Renewed::Until { until, stop } => v1::Lease { until_ms: until.as_millis(), stop },
            Renewed::Stale => v1::Lease::default(),
        });
        Ok(Response::new(v1::RenewResponse { jobs: jobs.collect() }))
    }

    async fn finish(&self, request: Request<v1::FinishRequest>) -> WorkReply<v1::FinishResponse> {
        let grant = grant(&request)?;
        let reports = request.into_inner().jobs;
        self.0.api().check_count(reports.len()).map_err(invalid)?;
        let reports = reports.into_iter().map(Into::into).collect();
        let finished = finish(self.0.api(), &grant, reports).await.map_err(failed)?;
        let jobs = finished.into_iter().map(Into::into).collect();
        Ok(Response::new(v1::FinishResponse { jobs }))
    }
}
