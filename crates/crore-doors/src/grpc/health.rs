//! `grpc.health.v1`: readiness, as `/readyz` reports it.

use std::pin::Pin;
use std::time::Duration;

use crore_api::Fault;
use crore_api::calls::ListenerPermit;
use futures_util::stream::{Stream, unfold};
use tokio::time::{Instant, sleep_until};
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse, health_server};

use super::services;
use crate::Doors;

/// Interval at which watchers are checked for a change.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The health service.
#[derive(Debug, Clone)]
pub(super) struct HealthService(pub(super) Doors);

impl HealthService {
    /// Status of a service; `None`: unknown name. The empty name is the whole server.
    fn status_of(&self, service: &str) -> Option<ServingStatus> {
        let is_known = service.is_empty() || services().any(|known| known == service);
        is_known.then(|| match self.0.api().health().ok {
            true => ServingStatus::Serving,
            false => ServingStatus::NotServing,
        })
    }
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}

#[tonic::async_trait]
impl health_server::Health for HealthService {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let status = self.status_of(&request.into_inner().service);
        let status = status.ok_or_else(|| Fault::missing("this service"))?;
        Ok(Response::new(response(status)))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let watch = HealthWatcher {
            health: self.clone(),
            service: request.into_inner().service,
            last_sent: None,
            _seat: self.0.api().acquire_listener()?,
        };
        Ok(Response::new(Box::pin(unfold(watch, |mut watch| async {
            let status = watch.next().await;
            Some((Ok(response(status)), watch))
        }))))
    }
}

/// A client that watches a service.
struct HealthWatcher {
    health: HealthService,
    service: String,
    last_sent: Option<ServingStatus>,
    _seat: ListenerPermit,
}

impl HealthWatcher {
    /// The status, as soon as it differs from the last one sent.
    async fn next(&mut self) -> ServingStatus {
        loop {
            let now = self.health.status_of(&self.service).unwrap_or(ServingStatus::ServiceUnknown);
            if self.last_sent != Some(now) {
                self.last_sent = Some(now);
                return now;
            }
            let later = sleep_until(Instant::now() + POLL_INTERVAL);
            match self.health.0.is_closing() {
                true => later.await,
                false => tokio::select! {
                    () = later => {}
                    () = self.health.0.closing() => {}
                },
            }
        }
    }
}
