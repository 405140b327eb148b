//! The state of a connected worker that outlives a broken connection.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;

use crore::store::jobs::Renew;
use crore_api::WorkerRequest;
use crore_core::{Job, Name, OwnerId, Span, Time};
use crore_wire::api::workers::WorkerStream;
use crore_wire::worker::{DeliveryRef, WorkerReport};
use futures_util::task::AtomicWaker;

use super::handshake::Profile;
use super::lease_table::LeaseTable;
use super::lock;
use super::presence::Presence;

/// A change to a delivery; its worker must be notified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DeliveryNotice {
    /// The job is asked to stop.
    Stop(DeliveryRef),
    /// The delivery has ended, or another worker has the job.
    Lost(DeliveryRef),
}

/// The token of a worker, and its incarnation.
pub(super) type IncarnationKey = (Option<OwnerId>, Arc<str>);

/// Leases that the server renews, with their durations.
pub(super) type Leases = LeaseTable<Span>;

/// One incarnation of a worker: its leases, and its unsent notices.
#[derive(Debug)]
pub(super) struct Incarnation {
    id: Arc<str>,
    /// The token of the worker.
    owner: Option<OwnerId>,
    /// Display name, stored with its deliveries.
    worker: Name,
    leases: Mutex<Leases>,
    notices: Mutex<Vec<DeliveryNotice>>,
    is_replaced: AtomicBool,
    waker: AtomicWaker,
    presence: Presence,
}

impl Incarnation {
    pub(super) fn new(profile: &Profile, now: Time) -> Self {
        Self {
            id: Arc::clone(profile.incarnation()),
            owner: profile.owner(),
            worker: profile.fetch_template().worker.clone(),
            leases: Mutex::default(),
            notices: Mutex::default(),
            is_replaced: AtomicBool::new(false),
            waker: AtomicWaker::new(),
            presence: Presence::new(profile, now),
        }
    }

    /// Identifies it among all workers: a worker with another token cannot take over its leases.
    pub(super) fn key(&self) -> IncarnationKey {
        (self.owner, Arc::clone(&self.id))
    }

    /// Whether it holds exactly this delivery.
    pub(super) fn holds(&self, held: DeliveryRef) -> bool {
        lock(&self.leases).holds(held)
    }

    pub(super) const fn worker(&self) -> &Name {
        &self.worker
    }

    pub(super) const fn presence(&self) -> &Presence {
        &self.presence
    }

    pub(super) fn shown(&self) -> WorkerStream {
        self.presence.shown(&self.id, self.len())
    }

    /// Number of deliveries that it holds.
    pub(super) fn len(&self) -> usize {
        lock(&self.leases).len()
    }

    /// Adds fetched jobs. Jobs without a lease are not held: they end when they are handed over. Returns the
    /// deliveries that were replaced.
    pub(super) fn add_jobs(&self, jobs: &[Job]) -> Vec<DeliveryRef> {
        let mut leases = lock(&self.leases);
        let leased = jobs.iter().filter_map(|job| Some((job, job.spec.lease?)));
        let replaced = leased.filter_map(|(job, lease)| {
            let held = DeliveryRef { id: job.id, delivery: job.live.delivery };
            let (former, _) = leases.insert(held, lease)?;
            (former != held).then_some(former)
        });
        replaced.collect()
    }

    /// Replaces all leases, and returns those that it had.
    pub(super) fn replace_leases(&self, leases: Leases) -> Leases {
        std::mem::replace(&mut *lock(&self.leases), leases)
    }

    /// Removes all leases, and returns them.
    pub(super) fn clear(&self) -> Leases {
        self.replace_leases(Leases::default())
    }

    /// Removes the reported deliveries, which frees their slots. Reports about deliveries that are not held are taken
    /// out and returned with their positions.
    pub(super) fn release_reported(
        &self,
        reports: &mut Vec<WorkerReport>,
    ) -> Vec<(usize, DeliveryRef)> {
        let mut leases = lock(&self.leases);
        let (mut foreign, mut indices) = (Vec::new(), 0..);
        reports.retain(|report| {
            let index = indices.next().unwrap_or(usize::MAX);
            let is_held = leases.release(report.held).is_some();
            if !is_held {
                foreign.push((index, report.held));
            }
            is_held
        });
        foreign
    }

    /// Removes one delivery, and returns whether it was held.
    pub(super) fn release(&self, held: DeliveryRef) -> bool {
        lock(&self.leases).release(held).is_some()
    }

    /// The leases to renew.
    pub(super) fn renewals(&self) -> Vec<Renew> {
        let renew = |(DeliveryRef { id, delivery }, _)| Renew { id, delivery, span: None };
        lock(&self.leases).iter().map(renew).collect()
    }

    /// Duration of the shortest lease.
    pub(super) fn shortest_lease(&self) -> Option<Span> {
        lock(&self.leases).iter().map(|(_, span)| *span).min()
    }

    /// Adds a notice if it is about a delivery that is held.
    pub(super) fn notify(&self, notice: DeliveryNotice) {
        let (DeliveryNotice::Stop(held) | DeliveryNotice::Lost(held)) = notice;
        if lock(&self.leases).holds(held) {
            lock(&self.notices).push(notice);
            self.waker.wake();
        }
    }

    /// The next notice or request of an operator wakes `waker`.
    pub(super) fn watch(&self, waker: &Waker) {
        self.waker.register(waker);
    }

    /// Takes the notices; the next one wakes `waker`.
    pub(super) fn take_notices(&self, waker: &Waker) -> Vec<DeliveryNotice> {
        self.waker.register(waker);
        std::mem::take(&mut *lock(&self.notices))
    }

    /// Applies a request of an operator.
    pub(super) fn request(&self, request: WorkerRequest) {
        match request {
            WorkerRequest::Quiet => self.presence.set_requests(true, false),
            WorkerRequest::Resume => self.presence.set_requests(false, false),
            WorkerRequest::Stop => self.presence.set_requests(true, true),
        }
        self.waker.wake();
    }

    /// Takes over the requests of the connection that it replaces.
    pub(super) fn inherit_requests(&self, replaced: &Self) {
        self.presence.set_requests(replaced.presence.is_quiet(), replaced.presence.is_stopping());
    }

    /// Marks it as replaced by another connection.
    pub(super) fn replace(&self) {
        self.is_replaced.store(true, Ordering::Release);
        self.waker.wake();
    }

    pub(super) fn is_replaced(&self) -> bool {
        self.is_replaced.load(Ordering::Acquire)
    }
}
