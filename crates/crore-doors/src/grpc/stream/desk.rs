//! What a worker has before it: its jobs, and what it has yet to be told.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use crore::store::jobs::Renew;
use crore_core::id::ById;
use crore_core::{Delivery, Job, JobId, Name, Span, Time};
use crore_wire::api::workers::WorkerStream;
use crore_wire::grpc::v1;
use crore_wire::words::Moment;
use futures_util::task::AtomicWaker;

use super::hello::Hello;

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
    held: Mutex<ById<Hold>>,
    notices: Mutex<Vec<Notice>>,
    is_replaced: AtomicBool,
    waker: AtomicWaker,
    seen: Seen,
}

/// What people see of a worker.
#[derive(Debug)]
struct Seen {
    queues: Vec<Name>,
    kinds: Vec<Name>,
    version: String,
    slots: AtomicUsize,
    since: Time,
    heard_ms: AtomicI64,
    /// When it is forgotten; 0: its stream is there.
    until_ms: AtomicI64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Desk {
    pub(super) fn new(hello: &Hello, now: Time) -> Self {
        let (held, notices) = (Mutex::default(), Mutex::default());
        let (is_replaced, waker) = (AtomicBool::new(false), AtomicWaker::new());
        let seen = Seen {
            queues: hello.ask.queues.clone(),
            kinds: hello.ask.kinds.clone().unwrap_or_default(),
            version: hello.version.clone(),
            slots: AtomicUsize::new(hello.slots),
            since: now,
            heard_ms: AtomicI64::new(now.as_millis()),
            until_ms: AtomicI64::new(0),
        };
        Self { worker: hello.ask.worker.clone(), held, notices, is_replaced, waker, seen }
    }

    /// It has said something.
    pub(super) fn heard(&self, slots: usize, now: Time) {
        self.seen.slots.store(slots, Ordering::Relaxed);
        self.seen.heard_ms.store(now.as_millis(), Ordering::Relaxed);
    }

    /// Its stream is over, and it is forgotten then.
    pub(super) fn left(&self, until: Time) {
        self.seen.until_ms.store(until.as_millis(), Ordering::Relaxed);
    }

    /// When it is forgotten, if its stream is over.
    pub(super) fn until(&self) -> Option<Time> {
        let until = self.seen.until_ms.load(Ordering::Relaxed);
        (until > 0).then(|| Time::from_millis(until))
    }

    /// The worker and its stream, for people.
    pub(super) fn shown(&self, incarnation: &str) -> WorkerStream {
        let Seen { queues, kinds, version, slots, since, heard_ms, .. } = &self.seen;
        let heard = Time::from_millis(heard_ms.load(Ordering::Relaxed));
        WorkerStream {
            incarnation: incarnation.to_owned(),
            version: (!version.is_empty()).then(|| version.clone()),
            queues: queues.iter().map(Name::to_string).collect(),
            kinds: kinds.iter().map(Name::to_string).collect(),
            slots: slots.load(Ordering::Relaxed),
            running: self.len(),
            since: Moment(*since),
            heard: Moment(heard),
        }
    }

    /// How many jobs it has.
    pub(super) fn len(&self) -> usize {
        lock(&self.held).len()
    }

    /// Jobs were handed to it; those that are done with that are not held. Says which deliveries it has no more: a job
    /// that was taken from it may come to it again before it is told.
    pub(super) fn take(&self, jobs: &[Job]) -> Vec<v1::Held> {
        let mut held = lock(&self.held);
        let leased = jobs.iter().filter_map(|job| Some((job, job.spec.lease?)));
        let replaced = leased.filter_map(|(job, lease)| {
            let delivery = job.live.delivery;
            let former = held.insert(job.id, Hold { delivery, lease })?.delivery;
            (former != delivery).then_some(v1::Held { id: job.id.0, delivery: former.0 })
        });
        replaced.collect()
    }

    /// It has these and nothing else; says what it had.
    pub(super) fn hold(&self, holds: ById<Hold>) -> ById<Hold> {
        std::mem::replace(&mut *lock(&self.held), holds)
    }

    /// Parts its reports into those about what it has, which it has no more, and the others with their places.
    pub(super) fn give(
        &self,
        reports: Vec<v1::Report>,
    ) -> (Vec<v1::Report>, Vec<(usize, v1::Held)>) {
        let mut held = lock(&self.held);
        let (mut strange, mut place) = (Vec::new(), 0..);
        let mut its_own = reports;
        its_own.retain(|report| {
            let (id, delivery) = (JobId(report.id), Delivery(report.delivery));
            let is_held = held.get(&id).is_some_and(|hold| hold.delivery == delivery);
            let place = place.next().unwrap_or(usize::MAX);
            if is_held {
                held.remove(&id);
            } else {
                strange.push((place, v1::Held { id: report.id, delivery: report.delivery }));
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
    pub(super) fn clear(&self) -> ById<Hold> {
        self.hold(ById::default())
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
