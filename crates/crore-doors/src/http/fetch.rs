//! Fetching jobs, and keeping their leases.

use axum::extract::State;
use axum::response::Response;
use crore::store::jobs::{Order, Renew, Renewed};
use crore_core::{Code, Invalid, Job, Name};
use crore_wire::api::fetch::{self as api, Delivered, Fetched, Lease};
use crore_wire::words::{Moment, Period};

use super::body::Read;
use super::fault::Fault;
use super::wants::Reply;
use crate::Doors;

/// Who asks, if he does not say.
const NOBODY: &str = "anonymous";

/// Takes the next jobs, each under a lease.
///
/// If there is none it waits for the first one, as long as asked. Whoever takes longer than the lease
/// renews it, and whoever is done reports so; a job whose lease ends is given to another worker.
#[utoipa::path(
    post, path = "/v1/fetch", operation_id = "fetch", tag = "work",
    request_body = api::Fetch,
    responses((status = 200, description = "The jobs; none, if there was none in time.", body = Fetched)),
)]
pub(super) async fn fetch(
    State(doors): State<Doors>,
    reply: Reply,
    Read { value: ask, .. }: Read<api::Fetch>,
) -> Result<Response, Fault> {
    let lease = ask.lease;
    let mut jobs = doors.engine().fetch(read(&doors, ask)?).await?;
    if let Some(lease) = lease {
        extend(&doors, &mut jobs, lease).await?;
    }
    let jobs = doors.engine().hand_over(jobs).await?;
    let delivered = |job| Delivered { trace: doors.trace_of(job), ..Delivered::of(job, reply.0) };
    Ok(reply.ok(&Fetched { jobs: jobs.iter().map(delivered).collect() }))
}

fn read(doors: &Doors, ask: api::Fetch) -> Result<crore::fetch::Fetch, Fault> {
    Ok(crore::fetch::Fetch {
        queues: names("queues", &ask.queues)?,
        kinds: ask.kinds.map(|kinds| names("kinds", &kinds)).transpose()?,
        handled: None,
        n: ask.n.unwrap_or(1),
        order: match ask.order {
            api::Order::Merged => Order::Merged,
            api::Order::Strict => Order::Strict,
        },
        worker: Name::new("worker", ask.worker.as_deref().unwrap_or(NOBODY))?,
        wait: doors.at_most(ask.wait),
    })
}

pub(crate) fn names(field: &str, texts: &[String]) -> Result<Vec<Name>, Invalid> {
    let name = |(n, text): (usize, &String)| {
        Name::new(field, text)
            .map_err(|invalid| Invalid { field: format!("{field}[{n}]"), ..invalid })
    };
    texts.iter().enumerate().map(name).collect()
}

/// Makes the leases of jobs that were just handed over longer.
async fn extend(doors: &Doors, jobs: &mut [Job], Period(span): Period) -> Result<(), Fault> {
    let renew = |job: &Job| Renew { id: job.id, delivery: job.live.delivery, span: Some(span) };
    let leased = jobs.iter().filter(|job| job.spec.lease.is_some()).map(renew).collect();
    let renewed = doors.engine().renew(leased).await?;
    let leased = jobs.iter_mut().filter(|job| job.spec.lease.is_some());
    for (job, renewed) in leased.zip(renewed) {
        if let Renewed::Until { until, .. } = renewed {
            job.live.lease_until = until;
        }
    }
    Ok(())
}

/// Extends leases, each from now on.
#[utoipa::path(
    post, path = "/v1/renew", operation_id = "renew", tag = "work",
    request_body = api::Renew,
    responses((status = 200, description = "One answer for each lease, in order.", body = api::Renewed)),
)]
pub(super) async fn renew(
    State(doors): State<Doors>,
    reply: Reply,
    Read { value: ask, .. }: Read<api::Renew>,
) -> Result<Response, Fault> {
    count(&doors, ask.jobs.len())?;
    let span = ask.lease.map(|lease| lease.0);
    let lease =
        |held: &api::Held| Renew { id: held.id.into(), delivery: held.delivery.into(), span };
    let renewed = doors.engine().renew(ask.jobs.iter().map(lease).collect()).await?;
    let answer = |renewed| match renewed {
        Renewed::Until { until, stop } => Lease::Renewed { until: Moment(until), stop },
        Renewed::Stale => Lease::Stale,
    };
    Ok(reply.ok(&api::Renewed { jobs: renewed.into_iter().map(answer).collect() }))
}

/// Refuses more at once than one could have fetched.
pub(crate) fn count(doors: &Doors, n: usize) -> Result<(), Invalid> {
    let most = doors.engine().caps().fetch;
    if n > most {
        let message = format!("{n} at once, at most {most} are allowed");
        return Err(Invalid::new(Code::CountRange, "jobs", message));
    }
    Ok(())
}
