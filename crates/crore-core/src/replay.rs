//! Replays: a new job from the definition of a stored one, with edits.

use crate::code::{Code, Invalid};
use crate::job::{DueTime, EndReason, Job, Spec};
use crate::name::Name;
use crate::payload::Payload;
use crate::push::{NewJob, RESERVED_PREFIX};
use crate::version::VersionRequirement;

/// Edits of a replay. Fields that are `None` have the values of the original.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ReplayEdits {
    /// The new payload.
    pub payload: Option<Payload>,
    /// The new queue.
    pub queue: Option<Name>,
    /// The new priority.
    pub priority: Option<i32>,
    /// The versions that may run the replay.
    pub worker_version: VersionEdit,
    /// When the replay is due; `None`: now.
    pub due: Option<DueTime>,
}

/// An edit of the versions that may run a job.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum VersionEdit {
    /// Those of the original.
    #[default]
    Keep,
    /// Any worker.
    Any,
    /// These versions.
    Require(Box<VersionRequirement>),
}

impl ReplayEdits {
    /// A replay of `job`: a job to push, with the definition of the original.
    ///
    /// A replay runs alone. It does not take over the client id, group, dependencies, parent, deadline, follow-up for a
    /// missed deadline, trace context and pusher of the original, nor labels and unique keys that crore has given to it.
    /// Limit keys and the fair key are computed when it is pushed. The payload of a damaged job is lost, so its replay
    /// needs a new one.
    pub fn replay(&self, job: &Job) -> Result<NewJob, Invalid> {
        if job.live.why == Some(EndReason::Damaged) && self.payload.is_none() {
            let why =
                format!("job {} was damaged on disk, and its payload is lost; set one", job.id);
            return Err(Invalid::new(Code::Refused, "payload", why));
        }
        Ok(NewJob { due: self.due.unwrap_or_default(), ..self.spec(job).into() })
    }

    fn spec(&self, job: &Job) -> Spec {
        let original = &*job.spec;
        let mut labels = original.labels.clone();
        labels.retain(|name, _| !name.starts_with(RESERVED_PREFIX));
        let worker_version = match &self.worker_version {
            VersionEdit::Keep => original.worker_version.clone(),
            VersionEdit::Any => None,
            VersionEdit::Require(required) => Some(required.clone()),
        };
        Spec {
            lease: original.lease,
            unique: original.unique.clone().filter(|unique| !unique.is_of_one_push()),
            queue: self.queue.as_ref().unwrap_or(&original.queue).clone(),
            kind: original.kind.clone(),
            priority: self.priority.unwrap_or(original.priority),
            payload: self.payload.as_ref().unwrap_or(&original.payload).clone(),
            retry: original.retry,
            timeout: original.timeout,
            lapse: original.lapse,
            reports: original.reports,
            keep: original.keep,
            retain: original.retain,
            client_id: None,
            limits: Vec::new(),
            costs: None,
            group: None,
            after: Vec::new(),
            wait_for: None,
            parent: None,
            labels,
            trace: None,
            pusher: None,
            fair: None,
            index: None,
            on_expired: None,
            worker_version,
            replay_of: Some(job.id),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::event::{AwaitedEvent, OnEventTimeout};
    use crate::fair::FairKey;
    use crate::id::{GroupId, JobId, OwnerId};
    use crate::job::{ClientId, Dependency, DependencyCondition, DependencyTarget, Live};
    use crate::limit::LimitKey;
    use crate::push::UnsetFields;
    use crate::time::{Span, Time};
    use crate::unique::{Unique, UniqueHold};

    fn name(text: &str) -> Name {
        Name::new("name", text).expect("a name")
    }

    fn key(key: &str, hold: UniqueHold) -> Unique {
        Unique { key: key.into(), hold, window: Some(Span::from_secs(9)) }
    }

    /// A job with every field that belongs to one push, on top of a plain one.
    fn original(plain: &Spec) -> Job {
        let mut spec = Spec {
            client_id: Some(Box::new(ClientId { door: name("native"), id: "7".into() })),
            limits: vec![LimitKey { limit: name("slow"), value: None }],
            group: Some(GroupId(1)),
            after: vec![Dependency {
                on: DependencyTarget::Job(JobId(2)),
                needs: DependencyCondition::End,
            }],
            parent: Some((JobId(3), 0)),
            trace: Some("trace".into()),
            pusher: Some(OwnerId(4)),
            fair: Some(FairKey::new(None)),
            on_expired: Some(Box::new(plain.clone().into())),
            costs: Some([7].into()),
            wait_for: Some(Box::new(AwaitedEvent {
                name: name("paid"),
                timeout: None,
                on_timeout: OnEventTimeout::default(),
            })),
            replay_of: Some(JobId(5)),
            ..plain.clone()
        };
        spec.labels.insert("crore.phase".to_owned(), "1".to_owned());
        let live = Live::pushed(Time::from_millis(1), Time::from_millis(2), 0);
        Job { id: JobId(17), spec: Arc::new(spec), live }
    }

    fn plain() -> Spec {
        let mut spec = Spec::new(name("mail"), name("send"), Payload::json("1"));
        (spec.priority, spec.timeout) = (3, Some(Span::from_secs(4)));
        spec.unique = Some(Box::new(key("order", UniqueHold::UntilSuccess)));
        spec.labels.insert("tenant".to_owned(), "acme".to_owned());
        let required = VersionRequirement::parse("version", ">=2").expect("a requirement");
        spec.worker_version = Some(Box::new(required));
        spec
    }

    #[test]
    fn a_replay_has_the_definition_of_its_original_and_a_link_to_it() {
        let replay = ReplayEdits::default().replay(&original(&plain())).expect("a replay");
        let spec = Spec { replay_of: Some(JobId(17)), ..plain() };
        assert_eq!(replay, NewJob::from(spec));
        assert_eq!(replay.unset, UnsetFields::default());
    }

    #[test]
    fn edits_replace_fields() {
        let required = VersionRequirement::parse("version", "<3").expect("a requirement");
        let edits = ReplayEdits {
            payload: Some(Payload::json("2")),
            queue: Some(name("slow")),
            priority: Some(-1),
            worker_version: VersionEdit::Require(Box::new(required)),
            due: Some(DueTime::After(Span::from_secs(1))),
        };
        let replay = edits.replay(&original(&plain())).expect("a replay");
        let spec = Spec {
            payload: Payload::json("2"),
            queue: name("slow"),
            priority: -1,
            worker_version: Some(Box::new(required)),
            replay_of: Some(JobId(17)),
            ..plain()
        };
        let due = DueTime::After(Span::from_secs(1));
        assert_eq!(replay, NewJob { due, ..spec.into() });
        let any = ReplayEdits { worker_version: VersionEdit::Any, ..ReplayEdits::default() };
        let replay = any.replay(&original(&plain())).expect("a replay");
        assert_eq!(replay.spec.worker_version, None);
    }

    #[test]
    fn the_replay_of_a_damaged_job_needs_a_payload() {
        let mut job = original(&plain());
        job.live.why = Some(EndReason::Damaged);
        let refused = ReplayEdits::default().replay(&job).expect_err("refused");
        assert_eq!((refused.code, refused.field.as_str()), (Code::Refused, "payload"));
        let payload = Some(Payload::json("2"));
        assert!(ReplayEdits { payload, ..ReplayEdits::default() }.replay(&job).is_ok());
    }

    #[test]
    fn keys_of_one_push_are_not_taken_over() {
        let own = key("idempotency:mine", UniqueHold::UntilEnd);
        for (unique, kept) in [
            (key("idempotency:order:0", UniqueHold::Window), false),
            (key("crore.tick:1", UniqueHold::UntilEnd), false),
            (own, true),
        ] {
            let unique = Box::new(unique);
            let plain = Spec { unique: Some(unique.clone()), ..plain() };
            let replay = ReplayEdits::default().replay(&original(&plain)).expect("a replay");
            assert_eq!(replay.spec.unique, Some(unique).filter(|_| kept));
        }
    }
}
