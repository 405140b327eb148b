//! A worker is let in, with the deliveries that it still has.

use std::sync::Arc;

use crore::store::jobs::{Renew, Renewed};
use crore::{Engine, Error};
use crore_core::id::ById;
use crore_core::{Delivery, JobId, Span};
use crore_wire::grpc::v1;

use super::at_work::renew;
use super::desk::{Desk, Hold};
use super::hello::Hello;
use super::sessions::GRACE_MS;
use crate::Doors;
use crate::bug::planted;

/// A worker that was let in.
pub(super) struct Entered {
    pub(super) hello: Hello,
    pub(super) desk: Arc<Desk>,
    pub(super) welcome: v1::Welcome,
    pub(super) lost: Vec<v1::Held>,
}

/// Lets a worker in, with the deliveries that it still has.
pub(super) async fn enter(doors: Doors, hello: Hello) -> Result<Entered, Error> {
    let desk = Arc::new(Desk::new(&hello, doors.engine().now()));
    doors.sessions().enter(&hello.incarnation, &desk);
    let kept = keep(doors.engine(), &desk, &hello).await;
    if kept.is_err() {
        let incarnation = Arc::clone(&hello.incarnation);
        doors.sessions().leave(doors.engine().clone(), incarnation, Arc::clone(&desk));
    }
    let (welcome, lost) = kept?;
    Ok(Entered { hello, desk, welcome, lost })
}

/// Which of its deliveries a worker keeps, and which are others' by now.
async fn keep(
    engine: &Engine,
    desk: &Desk,
    hello: &Hello,
) -> Result<(v1::Welcome, Vec<v1::Held>), Error> {
    let leases = hello.held.iter().map(|held| {
        let (id, delivery) = (JobId(held.id), Delivery(held.delivery));
        Renew { id, delivery, span: None }
    });
    let (mut kept, mut lost) = (Vec::new(), Vec::new());
    let mut holds = ById::default();
    for (lease, renewed) in renew(engine.clone(), leases.collect()).await? {
        let held = v1::Held { id: lease.id.0, delivery: lease.delivery.0 };
        match renewed {
            Renewed::Until { until, .. } => {
                let span = until.since(engine.now());
                holds.insert(lease.id, Hold { delivery: lease.delivery, lease: span });
                kept.push(held);
            }
            Renewed::Stale if planted!("bug-34") => {
                holds.insert(
                    lease.id,
                    Hold { delivery: lease.delivery, lease: Span::from_secs(30) },
                );
                kept.push(held);
            }
            Renewed::Stale => lost.push(held),
        }
    }
    // What it had and does not know of is given to others.
    let mut forgotten = desk.hold(holds.clone());
    forgotten.retain(|id, _| !holds.contains_key(id));
    if !forgotten.is_empty() {
        engine.lapse(forgotten.into_iter().map(|(id, hold)| (id, hold.delivery)).collect()).await?;
    }
    Ok((v1::Welcome { kept, grace_ms: GRACE_MS }, lost))
}
