//! The calls of a worker: fetch, renew, finish.

use crore::fetch::Fetch;
use crore::finish::{Finish, FinishResult};
use crore::store::jobs::{QueueOrder, Renew, Renewed};
use crore_core::{Code, Invalid, Job, JobId, Name};
use crore_wire::Format;
use crore_wire::api::fetch::{self, Lease};
use crore_wire::api::finish::{self, FinishOne, FinishedOne};
use crore_wire::units::{Moment, Period};

use super::push::pushed_result;
use crate::params::names;
use crate::{Api, Fault};

/// The worker of a fetch that names none.
const ANONYMOUS: &str = "anonymous";

impl Api {
    /// Fetches the next jobs, each under a lease, and waits for the first one up to the requested time.
    pub async fn fetch(&self, request: fetch::Fetch) -> Result<Vec<Job>, Fault> {
        let lease = request.lease;
        let mut jobs = self.engine().fetch(self.read_fetch(request)?).await?;
        if let Some(lease) = lease {
            self.extend(&mut jobs, lease).await?;
        }
        Ok(self.engine().deliveries().hand_over(jobs).await?)
    }

    fn read_fetch(&self, request: fetch::Fetch) -> Result<Fetch, Fault> {
        Ok(Fetch {
            queues: names("queues", &request.queues)?,
            kinds: request.kinds.map(|kinds| names("kinds", &kinds)).transpose()?,
            handled: None,
            n: request.n.unwrap_or(1),
            order: match request.order {
                fetch::Order::Merged => QueueOrder::Merged,
                fetch::Order::Strict => QueueOrder::Strict,
            },
            worker: Name::new("worker", request.worker.as_deref().unwrap_or(ANONYMOUS))?,
            wait: self.bounded_wait(request.wait),
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
    pub async fn renew(&self, request: &fetch::Renew) -> Result<fetch::Renewed, Fault> {
        self.check_count(request.jobs.len())?;
        let span = request.lease.map(|lease| lease.0);
        let lease =
            |held: &fetch::Held| Renew { id: held.id.into(), delivery: held.delivery.into(), span };
        let renewed = self.engine().renew(request.jobs.iter().map(lease).collect()).await?;
        let answer = |renewed| match renewed {
            Renewed::Until { until, stop } => Lease::Renewed { until: Moment(until), stop },
            Renewed::Stale => Lease::Stale,
        };
        Ok(fetch::Renewed { jobs: renewed.into_iter().map(answer).collect() })
    }

    /// Reports outcomes of deliveries. If one report is invalid, none is accepted.
    pub async fn finish(
        &self,
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
        let finished = self.engine().deliveries().finish_all(reports).await.map_err(name_jobs)?;
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
