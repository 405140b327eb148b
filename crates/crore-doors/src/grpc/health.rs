//! Whether the server can be used, as `/readyz` says it, in the words of `grpc.health.v1`.

use std::pin::Pin;
use std::time::Duration;

use crore_api::Fault;
use crore_api::calls::Seat;
use futures_util::stream::{Stream, unfold};
use tokio::time::{Instant, sleep_until};
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse, health_server};

use super::services;
use crate::Doors;

/// How often somebody who watches is told anew, if there is anything new.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The service.
#[derive(Debug, Clone)]
pub(super) struct Service(pub(super) Doors);

impl Service {
    /// How a service is; `None`: there is none of this name. The empty one is the whole server.
    fn of(&self, service: &str) -> Option<ServingStatus> {
        let is_known = service.is_empty() || services().any(|known| known == service);
        is_known.then(|| match self.0.api().health().ok {
            true => ServingStatus::Serving,
            false => ServingStatus::NotServing,
        })
    }
}

fn said(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}

#[tonic::async_trait]
impl health_server::Health for Service {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let status = self.of(&request.into_inner().service);
        let status = status.ok_or_else(|| Fault::missing("this service"))?;
        Ok(Response::new(said(status)))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let watch = Watch {
            health: self.clone(),
            service: request.into_inner().service,
            told: None,
            _seat: self.0.api().take_seat()?,
        };
        Ok(Response::new(Box::pin(unfold(watch, |mut watch| async {
            let status = watch.next().await;
            Some((Ok(said(status)), watch))
        }))))
    }
}

/// Somebody who watches a service.
struct Watch {
    health: Service,
    service: String,
    told: Option<ServingStatus>,
    _seat: Seat,
}

impl Watch {
    /// How the service is, when that is something new.
    async fn next(&mut self) -> ServingStatus {
        loop {
            let now = self.health.of(&self.service).unwrap_or(ServingStatus::ServiceUnknown);
            if self.told != Some(now) {
                self.told = Some(now);
                return now;
            }
            let later = sleep_until(Instant::now() + LOOK_EVERY);
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
