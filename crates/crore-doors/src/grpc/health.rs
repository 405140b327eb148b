//! `grpc.health.v1`: readiness, as `/readyz` reports it.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crore_api::Fault;
use crore_core::Code;
use futures_util::stream::{Stream, unfold};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until};
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse, health_server};

use super::services;
use crate::Doors;

/// Interval at which watchers are checked for a change.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum size of a request: the name of a service. Callers need no token.
pub(super) const MAX_REQUEST_BYTES: usize = 1024;

/// The health service.
#[derive(Debug, Clone)]
pub(super) struct HealthService {
    doors: Doors,
    /// Permits for watchers.
    watchers: Arc<Semaphore>,
}

impl HealthService {
    pub(super) fn new(doors: Doors) -> Self {
        let max = doors.options().grpc.max_health_watchers.min(Semaphore::MAX_PERMITS);
        Self { doors, watchers: Arc::new(Semaphore::new(max)) }
    }

    /// Refuses an unknown service. The empty name is the whole server.
    fn check_service(service: &str) -> Result<(), Status> {
        match service.is_empty() || services().any(|known| known == service) {
            true => Ok(()),
            false => Err(Fault::missing("this service").into()),
        }
    }

    /// Status of the server, which is that of every service.
    fn status(&self) -> ServingStatus {
        match self.doors.api().health().ok {
            true => ServingStatus::Serving,
            false => ServingStatus::NotServing,
        }
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
        Self::check_service(&request.into_inner().service)?;
        Ok(Response::new(response(self.status())))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        Self::check_service(&request.into_inner().service)?;
        let too_many = |_| Fault::new(Code::TooMany, "too many health watchers; retry later");
        let permit = self.watchers.clone().try_acquire_owned().map_err(too_many)?;
        let watch = HealthWatcher { health: self.clone(), last_sent: None, _permit: permit };
        Ok(Response::new(Box::pin(unfold(watch, |mut watch| async {
            let status = watch.next().await;
            Some((Ok(response(status)), watch))
        }))))
    }
}

/// A client that watches a service.
struct HealthWatcher {
    health: HealthService,
    last_sent: Option<ServingStatus>,
    _permit: OwnedSemaphorePermit,
}

impl HealthWatcher {
    /// The status, as soon as it differs from the last one sent.
    async fn next(&mut self) -> ServingStatus {
        loop {
            let now = self.health.status();
            if self.last_sent != Some(now) {
                self.last_sent = Some(now);
                return now;
            }
            let later = sleep_until(Instant::now() + POLL_INTERVAL);
            match self.health.doors.is_closing() {
                true => later.await,
                false => tokio::select! {
                    () = later => {}
                    () = self.health.doors.closing() => {}
                },
            }
        }
    }
}
