//! Details of a connected worker, as `GET /v1/workers` shows them.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};

use crore_core::version::KindVersions;
use crore_core::{Name, Time};
use crore_wire::api::workers::WorkerStream;
use crore_wire::units::Moment;

use super::handshake::Profile;

/// Details of a connected worker, for the list of workers.
#[derive(Debug)]
pub(super) struct Presence {
    queues: Vec<Name>,
    kinds: Vec<Name>,
    versions: KindVersions,
    version: String,
    slots: AtomicUsize,
    since: Time,
    last_message_ms: AtomicI64,
    /// End of the grace period; 0: the worker is connected.
    until_ms: AtomicI64,
    /// An operator asked the server to send no jobs.
    is_quiet: AtomicBool,
    /// An operator asked the worker to exit.
    is_stopping: AtomicBool,
    /// The worker runs in the process of the server.
    is_local: AtomicBool,
}

impl Presence {
    pub(super) fn new(profile: &Profile, now: Time) -> Self {
        Self {
            queues: profile.fetch_template().queues.clone(),
            kinds: profile.fetch_template().kinds.clone().unwrap_or_default(),
            versions: profile.fetch_template().versions.clone(),
            version: profile.version().to_owned(),
            slots: AtomicUsize::new(profile.slots()),
            since: now,
            last_message_ms: AtomicI64::new(now.as_millis()),
            until_ms: AtomicI64::new(0),
            is_quiet: AtomicBool::new(false),
            is_stopping: AtomicBool::new(false),
            is_local: AtomicBool::new(false),
        }
    }

    /// Sets what an operator asked for. A stop cannot be taken back.
    pub(super) fn set_requests(&self, quiet: bool, stopping: bool) {
        self.is_stopping.fetch_or(stopping, Ordering::AcqRel);
        self.is_quiet.store(quiet || self.is_stopping(), Ordering::Release);
    }

    /// Whether the server sends no jobs.
    pub(super) fn is_quiet(&self) -> bool {
        self.is_quiet.load(Ordering::Acquire)
    }

    /// Whether the worker was asked to exit.
    pub(super) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    /// Records that the worker runs in the process of the server.
    pub(super) fn record_local(&self) {
        self.is_local.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_local(&self) -> bool {
        self.is_local.load(Ordering::Relaxed)
    }

    pub(super) fn version(&self) -> &str {
        &self.version
    }

    /// Records that a message was received.
    pub(super) fn record_message(&self, slots: usize, now: Time) {
        self.slots.store(slots, Ordering::Relaxed);
        self.last_message_ms.store(now.as_millis(), Ordering::Relaxed);
    }

    /// Records that the connection is closed; the grace period ends at `until`.
    pub(super) fn record_disconnect(&self, until: Time) {
        self.until_ms.store(until.as_millis(), Ordering::Relaxed);
    }

    /// End of the grace period, if the connection is closed.
    pub(super) fn until(&self) -> Option<Time> {
        let until = self.until_ms.load(Ordering::Relaxed);
        (until > 0).then(|| Time::from_millis(until))
    }

    pub(super) fn shown(&self, incarnation: &str, running: usize) -> WorkerStream {
        let Self { queues, kinds, versions, version, slots, since, last_message_ms, .. } = self;
        let last_message = Time::from_millis(last_message_ms.load(Ordering::Relaxed));
        WorkerStream {
            incarnation: incarnation.to_owned(),
            version: (!version.is_empty()).then(|| version.clone()),
            queues: queues.iter().map(Name::to_string).collect(),
            kinds: kinds.iter().map(Name::to_string).collect(),
            versions: versions.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect(),
            slots: slots.load(Ordering::Relaxed),
            running,
            quiet: self.is_quiet(),
            stopping: self.is_stopping(),
            since: Moment(*since),
            heard: Moment(last_message),
        }
    }
}
