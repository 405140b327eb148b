//! Builder methods for new jobs.

use crore_core::fair::FairKey;
use crore_core::job::{ClientId, DependencyCondition, DueTime, ResultRetention, Spec};
use crore_core::limit::LimitKey;
use crore_core::push::{GroupRef, NewDependency, NewDependencyTarget, NewGroup};
use crore_core::retry::Retry;
use crore_core::unique::{Unique, UniqueHold};
use crore_core::version::VersionRequirement;
use crore_core::{Batch, Name, NewJob, Payload, Span};

pub(super) const SECOND: Span = Span::from_secs(1);
pub(super) const MINUTE: Span = Span::from_secs(60);
pub(super) const DAY: Span = Span::from_secs(24 * 60 * 60);
pub(super) const MILLI: Span = Span::from_millis(1);

pub(super) fn name(text: &str) -> Name {
    Name::new("name", text).expect("a valid name")
}

/// A plain job, due now.
pub(super) fn job(queue: &str) -> NewJob {
    Spec::new(name(queue), name("work"), Payload::json("{}")).into()
}

/// `n` plain jobs.
pub(super) fn jobs(queue: &str, n: usize) -> Vec<NewJob> {
    vec![job(queue); n]
}

/// A batch with one sealed group.
pub(super) fn grouped(jobs: Vec<NewJob>) -> Batch {
    Batch { groups: vec![NewGroup { open: false, maker: None }], jobs }
}

/// A batch with one group that may still grow.
pub(super) fn open_group(jobs: Vec<NewJob>) -> Batch {
    Batch { groups: vec![NewGroup { open: true, maker: None }], jobs }
}

/// Builder methods for a new job.
pub(super) trait NewJobBuilder: Sized {
    fn with(self, say: impl FnOnce(&mut NewJob)) -> Self;

    fn kind(self, kind: &str) -> Self {
        self.with(|job| job.spec.kind = name(kind))
    }

    fn priority(self, priority: i32) -> Self {
        self.with(|job| job.spec.priority = priority)
    }

    fn due(self, due: DueTime) -> Self {
        self.with(|job| job.due = due)
    }

    fn later(self, span: Span) -> Self {
        self.due(DueTime::After(span))
    }

    fn payload(self, payload: Payload) -> Self {
        self.with(|job| job.spec.payload = payload)
    }

    fn attempts(self, max: u32) -> Self {
        self.with(|job| job.spec.retry = Retry { max_attempts: Some(max), ..Retry::default() })
    }

    fn keep(self, keep: ResultRetention) -> Self {
        self.with(|job| job.spec.keep = keep)
    }

    fn unique(self, key: &str, hold: UniqueHold) -> Self {
        self.with(|job| {
            job.spec.unique = Some(Box::new(Unique { key: key.into(), hold, window: None }));
        })
    }

    /// The key's lock ends at most this long after the job is due.
    fn window(self, key: &str, hold: UniqueHold, window: Span) -> Self {
        let unique = Unique { key: key.into(), hold, window: Some(window) };
        self.with(|job| job.spec.unique = Some(Box::new(unique)))
    }

    fn client(self, door: &str, id: &str) -> Self {
        let client = ClientId { door: name(door), id: id.into() };
        self.with(|job| job.spec.client_id = Some(Box::new(client)))
    }

    /// Counts against the only bucket of a limit.
    fn limit(self, limit: &str) -> Self {
        self.with(|job| job.spec.limits.push(LimitKey { limit: name(limit), value: None }))
    }

    /// Counts against the limit's bucket for a value.
    fn limit_for(self, limit: &str, value: &str) -> Self {
        let key = LimitKey { limit: name(limit), value: Some(value.into()) };
        self.with(|job| job.spec.limits.push(key))
    }

    /// Requires versions of its kind.
    fn for_versions(self, text: &str) -> Self {
        let required = VersionRequirement::parse("worker_version", text).expect("a requirement");
        self.with(|job| job.spec.worker_version = Some(Box::new(required)))
    }

    /// Shares its queue under a key.
    fn fair(self, key: &str) -> Self {
        self.with(|job| job.spec.fair = Some(FairKey::new(Some(key.into()))))
    }

    fn member(self, group: GroupRef) -> Self {
        self.with(|job| job.group = Some(group))
    }

    fn after(self, on: NewDependencyTarget, needs: DependencyCondition) -> Self {
        self.with(|job| job.after.push(NewDependency { on, needs }))
    }
}

impl NewJobBuilder for NewJob {
    fn with(mut self, say: impl FnOnce(&mut Self)) -> Self {
        say(&mut self);
        self
    }
}
