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

/// Refuses jobs that the store would hand to the wrong workers.
pub(crate) fn check_jobs(jobs: &[NewJob]) -> Result<(), Error> {
    jobs.iter().try_for_each(|job| check_spec(&job.spec))
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
    use crore_core::version::VersionRequirement;
    use crore_core::{GroupId, Name, Payload, Revision, Time};
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
