//! Claim and renew.

use std::sync::Arc;

use crore_core::job::{Attempt, DEFAULT_LEASE, DeliveryEnd, EndReason, ReportDetails};
use crore_core::payload::Encoding;
use crore_core::unique::UniqueHold;
use crore_core::{Delivery, Job, JobId, Live, Payload, Spec, State, Time};

use super::LocalIndex;
use super::index_position::IndexPosition;
use super::lanes::LaneHead;
use super::records::JobRecords;
use crate::Error;
use crate::bug::planted;
use crate::jobs::{Claim, Claimed, QueueOrder, Renew, Renewed};

impl<R: JobRecords> LocalIndex<R> {
    pub(crate) fn claim(&mut self, request: &Claim, now: Time) -> Result<Claimed, Error> {
        self.expire(usize::MAX, now);
        if !self.hide_expired(now) {
            return Ok(Claimed { now, jobs: Vec::new(), next_at: Some(now) });
        }
        let queues: Vec<u32> = request.queues.iter().filter_map(|q| self.lanes.queue(q)).collect();
        for queue in &queues {
            self.lanes.fire_timers(*queue, now);
        }
        let mut jobs = Vec::with_capacity(request.n.min(64));
        let chunk_len = match request.order {
            QueueOrder::Merged => queues.len().max(1),
            QueueOrder::Strict => 1,
        };
        for queues in queues.chunks(chunk_len) {
            let mut sources = self.lanes.claim_sources(queues, request);
            while jobs.len() < request.n
                && let Some(head) = self.lanes.take(&mut sources, now)
            {
                self.hand_out(head, request, &mut jobs, now)?;
            }
        }
        let next_at = if jobs.len() < request.n {
            queues.iter().filter_map(|queue| self.lanes.next_timer(*queue, now)).min()
        } else {
            None
        };
        Ok(Claimed { now, jobs, next_at })
    }

    /// Claims the job at the head of a lane and adds it to `jobs`, unless its record is unreadable. A job is large, so
    /// it is copied straight to its place.
    fn hand_out(
        &mut self,
        head: LaneHead,
        request: &Claim,
        jobs: &mut Vec<Job>,
        now: Time,
    ) -> Result<(), Error> {
        self.last_delivery += 1;
        let delivery = Delivery(self.last_delivery);
        self.records.mark_shown(head.id);
        let claimed = self.change(head.id, |record| {
            let job = &mut record.job;
            let had_deadline = job.live.deadline.is_some();
            job.live.claim(delivery, now, job.spec.lease, &request.worker);
            jobs.push(job.clone());
            had_deadline
        });
        let had_deadline = match claimed {
            Err(error) => {
                self.lanes.return_permits(head.lane, now);
                let Error::Corrupt { what } = error else { return Err(error) };
                let deadline = self.deadlines.find(head.id);
                let position = IndexPosition { deadline, ..IndexPosition::ready(head) };
                self.mark_damaged(position, &what, now)?;
                return Ok(());
            }
            Ok(claimed) => claimed.ok_or_else(|| missing_record(head.id))?,
        };
        if had_deadline && !planted!("bug-45") {
            // If a crash lost this claim, the job could expire although a worker has it.
            self.records.mark_shown(head.id);
        }
        let Some(job) = jobs.last_mut() else { return Ok(()) };
        if let Some(unique) = &job.spec.unique
            && (unique.hold == UniqueHold::UntilStart || planted!("bug-5"))
        {
            self.keys.release(unique, head.id);
        }
        self.events.attach(job);
        Ok(())
    }

    /// Replaces a job whose record is unreadable by a dead job with the fields that the index
    /// knows; its history has the reason.
    pub(crate) fn mark_damaged(
        &mut self,
        position: IndexPosition,
        what: &str,
        now: Time,
    ) -> Result<(), Error> {
        let (queue, kind) = self.lanes.names(position.lane);
        let mut spec = Spec::new(queue, kind, Payload::new(Encoding::Bytes, []));
        spec.priority = position.priority;
        let mut live = Live::pushed(now, now, 0);
        (live.state, live.why, live.ended_at) = (State::Dead, Some(EndReason::Damaged), Some(now));
        live.history.push(Attempt {
            delivery: Delivery::NONE,
            started_at: now,
            ended_at: now,
            worker: None,
            ended: DeliveryEnd::Failed,
            error: Some(what.into()),
            details: ReportDetails::default(),
        });
        self.index_remove(position);
        self.remove_unreadable_keys(&position);
        self.events.remove_job(position.slot.id);
        self.lanes.remove_job(position.lane);
        self.lanes.set_costs(position.slot.id, None);
        self.add(Job { id: position.slot.id, spec: Arc::new(spec), live })
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

/// Error for a job that is in the index but not in the records.
pub(super) fn missing_record(id: JobId) -> Error {
    Error::Corrupt { what: format!("job {id} is in the index but has no record") }
}
