//! What a worker has before it: its jobs, and what it has yet to be told.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use crore::store::jobs::Renew;
use crore_core::{Delivery, Job, JobId, Name, Span};
use crore_wire::grpc::v1;
use futures_util::task::AtomicWaker;

/// A delivery that a worker has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hold {
    pub(super) delivery: Delivery,
    pub(super) lease: Span,
}

/// Something about one of its jobs that a worker has to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Notice {
    /// It is asked to stop.
    Stop(JobId, Delivery),
    /// It is another's, or has ended.
    Lost(JobId, Delivery),
}

/// What a worker has before it. It outlives a broken connection for a while.
#[derive(Debug)]
pub(super) struct Desk {
    /// What people call the worker; kept with its deliveries.
    pub(super) worker: Name,
    held: Mutex<HashMap<JobId, Hold>>,
    notices: Mutex<Vec<Notice>>,
    is_replaced: AtomicBool,
    waker: AtomicWaker,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Desk {
    pub(super) fn new(worker: Name) -> Self {
        let (held, notices) = (Mutex::default(), Mutex::default());
        let (is_replaced, waker) = (AtomicBool::new(false), AtomicWaker::new());
        Self { worker, held, notices, is_replaced, waker }
    }

    /// How many jobs it has.
    pub(super) fn len(&self) -> usize {
        lock(&self.held).len()
    }

    /// Jobs were handed to it; those that are done with that are not held.
    pub(super) fn take(&self, jobs: &[Job]) {
        let mut held = lock(&self.held);
        let leased = jobs.iter().filter_map(|job| Some((job, job.spec.lease?)));
        held.extend(
            leased.map(|(job, lease)| (job.id, Hold { delivery: job.live.delivery, lease })),
        );
    }

    /// It has these, from before.
    pub(super) fn hold(&self, holds: HashMap<JobId, Hold>) {
        lock(&self.held).extend(holds);
    }

    /// Parts its reports into those about what it has, which it has no more, and the others.
    pub(super) fn give(&self, reports: Vec<v1::Report>) -> (Vec<v1::Report>, Vec<v1::Held>) {
        let mut held = lock(&self.held);
        let mut strange = Vec::new();
        let mut its_own = reports;
        its_own.retain(|report| {
            let (id, delivery) = (JobId(report.id), Delivery(report.delivery));
            let is_held = held.get(&id).is_some_and(|hold| hold.delivery == delivery);
            if is_held {
                held.remove(&id);
            } else {
                strange.push(v1::Held { id: report.id, delivery: report.delivery });
            }
            is_held
        });
        (its_own, strange)
    }

    /// It has this no more; says whether it had.
    pub(super) fn drop_one(&self, id: JobId, delivery: Delivery) -> bool {
        let mut held = lock(&self.held);
        let is_held = held.get(&id).is_some_and(|hold| hold.delivery == delivery);
        is_held && held.remove(&id).is_some()
    }

    /// Takes everything away from it.
    pub(super) fn clear(&self) -> HashMap<JobId, Hold> {
        std::mem::take(&mut *lock(&self.held))
    }

    /// The leases to renew, and how long the shortest is.
    pub(super) fn leases(&self) -> (Vec<Renew>, Option<Span>) {
        let held = lock(&self.held);
        let renew = |(id, hold): (&JobId, &Hold)| {
            let Hold { delivery, .. } = *hold;
            Renew { id: *id, delivery, span: None }
        };
        (held.iter().map(renew).collect(), held.values().map(|hold| hold.lease).min())
    }

    /// Tells it something, if it concerns one of its jobs.
    pub(super) fn tell(&self, notice: Notice) {
        let (Notice::Stop(id, delivery) | Notice::Lost(id, delivery)) = notice;
        if lock(&self.held).get(&id).is_some_and(|hold| hold.delivery == delivery) {
            lock(&self.notices).push(notice);
            self.waker.wake();
        }
    }

    /// What it has to be told, from now on with a wake-up.
    pub(super) fn hear(&self, waker: &Waker) -> Vec<Notice> {
        self.waker.register(waker);
        std::mem::take(&mut *lock(&self.notices))
    }

    /// Somebody else sits here now.
    pub(super) fn replace(&self) {
        self.is_replaced.store(true, Ordering::Release);
        self.waker.wake();
    }

    pub(super) fn is_replaced(&self) -> bool {
        self.is_replaced.load(Ordering::Acquire)
    }
}
