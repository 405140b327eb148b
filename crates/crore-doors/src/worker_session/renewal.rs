//! Renewal of leases, in time for the shortest of them.

use std::pin::Pin;
use std::task::{Context, Poll};

use crore::resources::Deliveries;
use crore::store::jobs::{Renew, Renewed};
use crore::{Engine, Error};
use crore_core::Span;
use crore_wire::worker::{DeliveryRef, ServerMessage};
use tokio::time::{Instant, Sleep, sleep_until};

use super::BoxFuture;
use super::incarnation::Incarnation;

type RenewalResults = Result<Vec<(Renew, Renewed)>, Error>;

/// Renews the leases of an incarnation.
pub(super) enum LeaseRenewal {
    Idle,
    Scheduled(Pin<Box<Sleep>>),
    Running(BoxFuture<RenewalResults>),
}

impl LeaseRenewal {
    /// Schedules a renewal; `shortest` is the shortest of the leases.
    pub(super) fn schedule(&mut self, shortest: Option<Span>) {
        let Some(lease) = shortest else { return };
        let at = Instant::now() + Deliveries::renew_every(lease).into();
        match self {
            Self::Idle => *self = Self::Scheduled(Box::pin(sleep_until(at))),
            Self::Scheduled(sleep) if at < sleep.deadline() => sleep.as_mut().reset(at),
            Self::Scheduled(_) | Self::Running(_) => {}
        }
    }

    /// Renews leases that are due, and adds lost deliveries and stop requests to `message`. Returns whether leases
    /// were renewed.
    pub(super) fn poll(
        &mut self,
        engine: &Engine,
        incarnation: &Incarnation,
        message: &mut ServerMessage,
        context: &mut Context<'_>,
    ) -> bool {
        let mut has_renewed = false;
        loop {
            match self {
                Self::Idle => return has_renewed,
                Self::Scheduled(sleep) => {
                    if sleep.as_mut().poll(context).is_pending() {
                        return has_renewed;
                    }
                    let leases = incarnation.renewals();
                    *self = match leases.is_empty() {
                        true => Self::Idle,
                        false => Self::Running(Box::pin(renew(engine.clone(), leases))),
                    };
                }
                Self::Running(renewing) => {
                    let Poll::Ready(renewed) = renewing.as_mut().poll(context) else {
                        return has_renewed;
                    };
                    *self = Self::Idle;
                    has_renewed = true;
                    // A failed renewal is retried; if it keeps failing, the lease expires.
                    apply(renewed.unwrap_or_default(), incarnation, message);
                    self.schedule(incarnation.shortest_lease());
                }
            }
        }
    }
}

fn apply(renewed: Vec<(Renew, Renewed)>, incarnation: &Incarnation, message: &mut ServerMessage) {
    for (lease, renewed) in renewed {
        let held = DeliveryRef { id: lease.id, delivery: lease.delivery };
        match renewed {
            Renewed::Until { stop: true, .. } => message.stop.push(held),
            Renewed::Until { stop: false, .. } => {}
            Renewed::Stale => {
                if incarnation.release(held) {
                    message.lost.push(held);
                }
            }
        }
    }
}

/// Renews leases in batches of the maximum size.
pub(super) async fn renew(engine: Engine, leases: Vec<Renew>) -> RenewalResults {
    let mut all = Vec::with_capacity(leases.len());
    for some in leases.chunks(engine.status().caps().fetch) {
        let renewed = engine.renew(some.to_vec()).await?;
        all.extend(some.iter().copied().zip(renewed));
    }
    Ok(all)
}
