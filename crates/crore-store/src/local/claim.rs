//! Claim and renew: leases.

use crore_core::job::DEFAULT_LEASE;
use crore_core::unique::Hold;
use crore_core::{Delivery, Job, JobId, State, Time};

use super::Local;
use super::lanes::{Course, Head};
use super::records::Records;
use crate::Error;
use crate::bug::planted;
use crate::jobs::{Claim, Claimed, Order, Renew, Renewed};

impl<R: Records> Local<R> {
    pub(crate) fn claim(&mut self, ask: &Claim, now: Time) -> Result<Claimed, Error> {
        self.expire(usize::MAX, now);
        let queues: Vec<u32> = ask.queues.iter().filter_map(|q| self.lanes.queue(q)).collect();
        for queue in &queues {
            self.lanes.ring(*queue, now);
        }
        let sources = ask.queues.iter().map(|q| self.lanes.sources(q, ask.kinds.as_deref()));
        let mut courses: Vec<Course> = match ask.order {
            Order::Merged => vec![self.lanes.course(sources.flatten())],
            Order::Strict => sources.map(|sources| self.lanes.course(sources)).collect(),
        };
        let mut jobs = Vec::with_capacity(ask.n.min(64));
        for course in &mut courses {
            while jobs.len() < ask.n
                && let Some(head) = self.lanes.take(course, now)
            {
                jobs.push(self.hand_out(head, ask, now)?);
            }
        }
        let next_at = if jobs.len() < ask.n {
            queues.iter().filter_map(|queue| self.lanes.next_ring(*queue, now)).min()
        } else {
            None
        };
        Ok(Claimed { now, jobs, next_at })
    }

    fn hand_out(&mut self, head: Head, ask: &Claim, now: Time) -> Result<Job, Error> {
        self.last_delivery += 1;
        let delivery = Delivery(self.last_delivery);
        let claimed = self.change(head.id, |record| {
            let job = &mut record.job;
            job.live.claim(delivery, now, job.spec.lease, &ask.worker);
            job.clone()
        })?;
        let job = claimed.ok_or_else(|| lost(head.id))?;
        if let Some(unique) = &job.spec.unique
            && (unique.hold == Hold::UntilStart || planted!("bug-5"))
        {
            self.keys.release(unique, head.id);
        }
        Ok(job)
    }

    pub(crate) fn renew(&mut self, leases: &[Renew], now: Time) -> Result<Vec<Renewed>, Error> {
        leases.iter().map(|lease| self.renew_one(lease, now)).collect()
    }

    fn renew_one(&mut self, lease: &Renew, now: Time) -> Result<Renewed, Error> {
        let renewed = self.change(lease.id, |record| {
            let job = &mut record.job;
            if job.live.state != State::Running || job.live.delivery != lease.delivery {
                return Renewed::Stale;
            }
            let span = lease.span.or(job.spec.lease).unwrap_or(DEFAULT_LEASE);
            let until = job.live.lease_until.max(now.after(span));
            job.live.lease_until = until;
            Renewed::Until { until, stop: job.live.stop }
        })?;
        Ok(renewed.unwrap_or(Renewed::Stale))
    }
}

/// A job that the index knows and the records do not.
pub(super) fn lost(id: JobId) -> Error {
    Error::Corrupt { what: format!("job {id} is in the index, but has no record") }
}
