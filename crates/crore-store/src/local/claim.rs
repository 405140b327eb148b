//! Claim and renew: leases.

use std::sync::Arc;

use crore_core::job::{Attempt, DEFAULT_LEASE, Ended, Why};
use crore_core::payload::Encoding;
use crore_core::unique::Hold;
use crore_core::{Delivery, Job, JobId, Live, Payload, Spec, State, Time};

use super::Local;
use super::lanes::Head;
use super::place::Place;
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
        let mut jobs = Vec::with_capacity(ask.n.min(64));
        let together = match ask.order {
            Order::Merged => queues.len().max(1),
            Order::Strict => 1,
        };
        for queues in queues.chunks(together) {
            let mut course = self.lanes.course(queues, ask.kinds.as_deref());
            while jobs.len() < ask.n
                && let Some(head) = self.lanes.take(&mut course, now)
            {
                jobs.extend(self.hand_out(head, ask, now)?);
            }
        }
        let next_at = if jobs.len() < ask.n {
            queues.iter().filter_map(|queue| self.lanes.next_ring(*queue, now)).min()
        } else {
            None
        };
        Ok(Claimed { now, jobs, next_at })
    }

    /// Hands a job out; `None`: it cannot be read any more.
    fn hand_out(&mut self, head: Head, ask: &Claim, now: Time) -> Result<Option<Job>, Error> {
        self.last_delivery += 1;
        let delivery = Delivery(self.last_delivery);
        self.records.show(head.id);
        let claimed = self.change(head.id, |record| {
            let job = &mut record.job;
            job.live.claim(delivery, now, job.spec.lease, &ask.worker);
            job.clone()
        });
        let job = match claimed {
            Err(error) => {
                self.lanes.give_back(head.lane, now);
                let Error::Corrupt { what } = error else { return Err(error) };
                self.condemn(Place::ready(head), &what, now)?;
                return Ok(None);
            }
            Ok(claimed) => claimed.ok_or_else(|| lost(head.id))?,
        };
        if let Some(unique) = &job.spec.unique
            && (unique.hold == Hold::UntilStart || planted!("bug-5"))
        {
            self.keys.release(unique, head.id);
        }
        Ok(Some(job))
    }

    /// A job whose record cannot be read any more is dead, and its history says why. What is left of
    /// it is what the index knows.
    pub(crate) fn condemn(&mut self, place: Place, what: &str, now: Time) -> Result<(), Error> {
        let (queue, kind) = self.lanes.names(place.lane);
        let mut spec = Spec::new(queue, kind, Payload::new(Encoding::Bytes, []));
        spec.priority = place.priority;
        let mut live = Live::pushed(now, now, 0);
        (live.state, live.why, live.ended_at) = (State::Dead, Some(Why::Damaged), Some(now));
        live.history.push(Attempt {
            delivery: Delivery::NONE,
            started_at: now,
            ended_at: now,
            worker: None,
            ended: Ended::Failed,
            error: Some(what.into()),
        });
        self.leave(place);
        self.lanes.forget(place.lane);
        self.add(Job { id: place.slot.id, spec: Arc::new(spec), live })
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
