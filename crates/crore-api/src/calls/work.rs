//! The calls of a worker: fetch, renew, finish.

use std::sync::Arc;

use crore::fetch::Fetch;
use crore::finish::{Finish, FinishResult};
use crore::store::jobs::{QueueOrder, Renew, Renewed};
use crore_core::machine::Report;
use crore_core::{Code, Invalid, Job, JobId, Name, OwnerId};
use crore_wire::Format;
use crore_wire::api::fetch::{self, Lease};
use crore_wire::api::finish::{self, FinishOne, FinishedOne};
use crore_wire::units::{Moment, Period};

use super::push::{pushed_result, set_pusher};
use crate::access::list_patterns;
use crate::params::{kind_versions, names};
use crate::{Api, Fault, Grant};

/// The worker of a fetch that names none.
const ANONYMOUS: &str = "anonymous";

impl Api {
    /// Fetches the next jobs, each under a lease, and waits for the first one up to the requested time.
    pub async fn fetch(&self, grant: &Grant, request: fetch::Fetch) -> Result<Vec<Job>, Fault> {
        let lease = request.lease;
        let mut request = self.read_fetch(request)?;
        restrict_fetch(grant, &mut request)?;
        let mut jobs = self.engine().fetch(request).await?;
        if let Some(lease) = lease {
            self.extend(&mut jobs, lease).await?;
        }
        Ok(self.engine().deliveries().hand_over(jobs).await?)
    }

    fn read_fetch(&self, request: fetch::Fetch) -> Result<Fetch, Fault> {
        let kinds = request.kinds.map(|kinds| names("kinds", &kinds)).transpose()?;
        Ok(Fetch {
            queues: names("queues", &request.queues)?,
            versions: kind_versions(&request.versions, kinds.as_deref())?,
            kinds,
            also: Vec::new(),
            handled: None,
            n: request.n.unwrap_or(1),
            order: match request.order {
                fetch::Order::Merged => QueueOrder::Merged,
                fetch::Order::Strict => QueueOrder::Strict,
            },
            worker: Name::new("worker", request.worker.as_deref().unwrap_or(ANONYMOUS))?,
            wait: self.bounded_wait(request.wait),
            within: None,
        })
    }

    /// Extends the leases of jobs that were just claimed.
    async fn extend(&self, jobs: &mut [Job], Period(span): Period) -> Result<(), Fault> {
        let renew = |job: &Job| Renew { id: job.id, delivery: job.live.delivery, span: Some(span) };
        let leased = jobs.iter().filter(|job| job.spec.lease.is_some()).map(renew).collect();
        let renewed = self.engine().renew(leased).await?;
        let leased = jobs.iter_mut().filter(|job| job.spec.lease.is_some());
        for (job, renewed) in leased.zip(renewed) {
            if let Renewed::Until { until, .. } = renewed {
                job.live.lease_until = until;
            }
        }
        Ok(())
    }

    /// Renews leases, each from now.
    pub async fn renew(
        &self,
        grant: &Grant,
        request: &fetch::Renew,
    ) -> Result<fetch::Renewed, Fault> {
        let span = request.lease.map(|lease| lease.0);
        let lease =
            |held: &fetch::Held| Renew { id: held.id.into(), delivery: held.delivery.into(), span };
        let leases = request.jobs.iter().map(lease).collect();
        let renewed = self.renew_leases(grant, leases).await?;
        let answer = |renewed| match renewed {
            Renewed::Until { until, stop } => Lease::Renewed { until: Moment(until), stop },
            Renewed::Stale => Lease::Stale,
        };
        Ok(fetch::Renewed { jobs: renewed.into_iter().map(answer).collect() })
    }

    /// Renews leases of jobs that the caller may work on.
    pub async fn renew_leases(
        &self,
        grant: &Grant,
        leases: Vec<Renew>,
    ) -> Result<Vec<Renewed>, Fault> {
        self.check_count(leases.len())?;
        let which = || leases.iter().map(|lease| lease.id.into()).collect();
        self.check_selected(grant, which).await?;
        Ok(self.engine().renew(leases).await?)
    }

    /// Applies reports, if the caller may work on all of their jobs and push all of their follow-ups.
    pub async fn finish_all(
        &self,
        grant: &Grant,
        mut reports: Vec<Finish>,
    ) -> Result<Vec<FinishResult>, crore::Error> {
        if let Some(owner) = grant.owner() {
            let which = || reports.iter().map(|report| report.job.clone()).collect();
            self.check_selected(grant, which).await?;
            for (n, Finish { report, .. }) in reports.iter_mut().enumerate() {
                let inside = |invalid: Invalid| invalid.inside(&format!("finishes[{n}]"));
                self.check_follow_ups(grant, owner, report).await.map_err(|error| match error {
                    crore::Error::Invalid(invalid) => inside(invalid).into(),
                    other => other,
                })?;
            }
        }
        self.engine().deliveries().finish_all(reports).await
    }

    /// Marks follow-ups as pushed by the caller, or refuses one that it may not push. Follow-ups that a handler
    /// defines are not in the report, and need no scope.
    async fn check_follow_ups(
        &self,
        grant: &Grant,
        owner: OwnerId,
        report: &mut Report,
    ) -> Result<(), crore::Error> {
        let Report { on_done, on_dead, .. } = report;
        for (field, jobs) in [("on-done", on_done), ("on-dead", on_dead)] {
            for (n, job) in jobs.iter_mut().enumerate() {
                self.check_push(grant, job).await.map_err(|error| match error {
                    crore::Error::Invalid(invalid) => {
                        invalid.inside(&format!("{field}[{n}]")).into()
                    }
                    other => other,
                })?;
                set_pusher(job, owner);
            }
        }
        Ok(())
    }

    /// Reports outcomes of deliveries. If one report is invalid, none is accepted.
    pub async fn finish(
        &self,
        grant: &Grant,
        request: finish::Finish,
        format: Format,
    ) -> Result<finish::Finished, Fault> {
        self.check_count(request.jobs.len())?;
        let read = |(n, one): (usize, FinishOne)| -> Result<Finish, Invalid> {
            let (job, delivery) = (JobId::from(one.id).into(), Some(one.delivery.into()));
            let report =
                one.read(format).map_err(|invalid| invalid.inside(&format!("jobs[{n}]")))?;
            Ok(Finish { job, delivery, report })
        };
        let reports = request.jobs.into_iter().enumerate().map(read).collect::<Result<_, _>>()?;
        let finished = self.finish_all(grant, reports).await.map_err(name_jobs)?;
        let jobs = finished.into_iter().map(|finished| match finished {
            FinishResult::Accepted { state, pushed } => {
                let pushed = pushed.into_iter().enumerate();
                FinishedOne::Finished {
                    state: state.map(Into::into),
                    pushed: pushed.map(|(n, result)| pushed_result(n, result)).collect(),
                }
            }
            FinishResult::Stale => FinishedOne::Stale,
            FinishResult::NotFound => FinishedOne::NotFound,
        });
        Ok(finish::Finished { jobs: jobs.collect() })
    }

    /// Refuses more jobs in one call than one fetch could have returned.
    pub fn check_count(&self, n: usize) -> Result<(), Invalid> {
        let max = self.engine().status().caps().fetch;
        if n > max {
            let message = format!("{n} at once, at most {max} are allowed");
            return Err(Invalid::new(Code::CountRange, "jobs", message));
        }
        Ok(())
    }
}

/// Refuses to fetch from queues and of kinds outside the caller's restriction. A caller that is restricted to kinds has
/// to name them, because a queue may hold others, or to run handlers, whose kinds are filtered.
pub fn restrict_fetch(grant: &Grant, request: &mut Fetch) -> Result<(), Invalid> {
    let Some(only) = grant.only() else { return Ok(()) };
    let at = |field: &str, n: usize| {
        let field = format!("{field}[{n}]");
        move |invalid: Invalid| Invalid { field, ..invalid }
    };
    for (n, queue) in request.queues.iter().enumerate() {
        grant.check_queue(queue).map_err(at("queues", n))?;
    }
    match (&request.kinds, &request.handled) {
        (Some(kinds), _) => {
            for (n, kind) in kinds.iter().enumerate() {
                grant.check_kind(kind).map_err(at("kinds", n))?;
            }
        }
        (None, None) if !only.kinds().is_empty() => {
            let patterns = list_patterns(only.kinds());
            let why = format!(
                "is required: the token is restricted to kinds {patterns}, and lacks the kind pattern `*`"
            );
            return Err(Invalid::new(Code::ScopeMissing, "kinds", why));
        }
        (None, _) => {}
    }
    request.within = Some(Arc::clone(only));
    Ok(())
}

/// The engine calls the list `finishes`, and the API `jobs`.
fn name_jobs(error: crore::Error) -> Fault {
    match error {
        crore::Error::Invalid(mut invalid) => {
            if let Some(rest) = invalid.field.strip_prefix("finishes") {
                invalid.field = format!("jobs{rest}");
            }
            invalid.into()
        }
        other => other.into(),
    }
}
