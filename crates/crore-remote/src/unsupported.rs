//! Features that these stores do not implement yet: they are refused, because ignoring them would break a promise.

use crore_core::machine::{Effect, NextRecord};
use crore_core::{Code, Invalid, NewJob, Spec};
use crore_store::Error;
use crore_store::jobs::StoreWrite;
use crore_store::registry::{Define, DefineAction, RegistryValue};

/// Refuses definitions that the store cannot put into effect.
pub(crate) fn check_definitions(definitions: &[Define]) -> Result<(), Error> {
    let is_shared = |define: &Define| matches!(&define.action, DefineAction::Set(RegistryValue::Queue(queue)) if queue.fair.is_some());
    match definitions.iter().find(|define| is_shared(define)) {
        None => Ok(()),
        Some(define) => {
            let message = format!(
                "queue `{}`: this store cannot share a queue; use the embedded store",
                define.name
            );
            Err(Invalid::new(Code::FairField, "fair", message).into())
        }
    }
}

/// Refuses jobs that the store cannot keep the promises of.
pub(crate) fn check_jobs(jobs: &[NewJob]) -> Result<(), Error> {
    jobs.iter().try_for_each(check_job)
}

fn check_job(job: &NewJob) -> Result<(), Error> {
    check_spec(&job.spec)?;
    if job.deadline.is_none() {
        return Ok(());
    }
    let message = format!(
        "queue `{}`: this store does not support deadlines; use the embedded store",
        job.spec.queue
    );
    Err(Invalid::new(Code::TimeRange, "deadline", message).into())
}

fn check_spec(spec: &Spec) -> Result<(), Error> {
    let Some(required) = &spec.worker_version else { return Ok(()) };
    let message = format!(
        "`{required}` of kind `{}`: this store cannot require versions; use the embedded store",
        spec.kind
    );
    Err(Invalid::new(Code::VersionRequirement, "worker_version", message).into())
}

/// Refuses writes with such jobs.
pub(crate) fn check_writes(writes: &[StoreWrite]) -> Result<(), Error> {
    writes.iter().try_for_each(|write| match write {
        StoreWrite::Job(change) => {
            let edited = match &change.next {
                NextRecord::Live(next) => next.spec.as_deref(),
                NextRecord::Gone => None,
            };
            edited.map_or(Ok(()), check_spec)?;
            change.effects.iter().try_for_each(|effect| match effect {
                Effect::Push(jobs) => check_jobs(jobs),
                _ => Ok(()),
            })
        }
        StoreWrite::Seal(_) => Ok(()),
        StoreWrite::Tick { push, .. } => check_jobs(push),
    })
}

#[cfg(test)]
#[expect(clippy::expect_used, clippy::panic, reason = "a test may panic")]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use crore_core::fair::{FairField, FairShare};
    use crore_core::job::StartDeadline;
    use crore_core::machine::{JobEvent, decide};
    use crore_core::version::VersionRequirement;
    use crore_core::{GroupId, Job, JobId, Live, Name, Payload, Revision, Span, Time};
    use crore_store::registry::QueueSettings;

    use super::*;

    #[test]
    fn a_shared_queue_is_refused_and_named() {
        let by = FairField::parse("payload.tenant").expect("a field");
        let fair = Some(Arc::new(FairShare { by, weights: BTreeMap::new() }));
        let name = Name::new("name", "mail").expect("a name");
        let define = |queue| Define::set(name.clone(), RegistryValue::Queue(queue));
        assert!(check_definitions(&[define(QueueSettings::default())]).is_ok());
        let shared = define(QueueSettings { fair, ..QueueSettings::default() });
        let refused = check_definitions(&[define(QueueSettings::default()), shared]);
        let Err(Error::Invalid(invalid)) = refused else { panic!("accepted: {refused:?}") };
        assert_eq!((invalid.code, invalid.field.as_str()), (Code::FairField, "fair"));
        assert!(invalid.message.contains("`mail`"), "{}", invalid.message);
    }

    #[test]
    fn a_deadline_is_refused_in_pushes_follow_ups_and_ticks() {
        let name = |text| Name::new("name", text).expect("a name");
        let plain = NewJob::from(Spec::new(name("q"), name("k"), Payload::json("1")));
        let deadline = Some(StartDeadline::Within(Span::from_secs(1)));
        let expiring = NewJob { deadline, ..plain.clone() };
        let is_refused = |checked: Result<(), Error>| match checked {
            Ok(()) => false,
            Err(Error::Invalid(invalid)) => invalid.field == "deadline",
            Err(other) => panic!("{other}"),
        };
        assert!(!is_refused(check_jobs(std::slice::from_ref(&plain))));
        assert!(is_refused(check_jobs(&[plain.clone(), expiring.clone()])));
        let live = Live::pushed(Time::ZERO, Time::ZERO, 0);
        let job = Job { id: JobId(1), spec: Arc::new(plain.spec.clone()), live };
        let mut change = decide(&job, &JobEvent::Cancel, 0).expect("a ready job can be cancelled");
        assert!(!is_refused(check_writes(&[StoreWrite::Job(change.clone())])));
        change.effects.push(Effect::Push(vec![expiring.clone()]));
        assert!(is_refused(check_writes(&[StoreWrite::Job(change)])));
        let tick = |job| StoreWrite::Tick {
            schedule: name("s"),
            seen: Revision(1),
            cursor: Time::ZERO,
            push: vec![job],
        };
        assert!(!is_refused(check_writes(&[tick(plain)])));
        assert!(is_refused(check_writes(&[tick(expiring)])));
    }

    #[test]
    fn a_required_version_is_refused_and_named() {
        let name = |text| Name::new("name", text).expect("a name");
        let plain = Spec::new(name("q"), name("mail"), Payload::json("{}"));
        let required = VersionRequirement::parse("worker_version", ">=2").expect("a requirement");
        let versioned = Spec { worker_version: Some(Box::new(required)), ..plain.clone() };
        assert!(check_jobs(&[plain.clone().into()]).is_ok());
        let refused = check_jobs(&[plain.into(), versioned.clone().into()]);
        let Err(Error::Invalid(invalid)) = refused else { panic!("accepted: {refused:?}") };
        assert_eq!(
            (invalid.code, invalid.field.as_str()),
            (Code::VersionRequirement, "worker_version")
        );
        assert!(invalid.message.contains("`mail`"), "{}", invalid.message);
        let tick = StoreWrite::Tick {
            schedule: name("daily"),
            seen: Revision(1),
            cursor: Time::ZERO,
            push: vec![versioned.into()],
        };
        assert!(check_writes(&[tick]).is_err());
        assert!(check_writes(&[StoreWrite::Seal(GroupId(1))]).is_ok());
    }
}
