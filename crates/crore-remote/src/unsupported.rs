//! Features that these stores do not implement yet: they are refused, because ignoring them would break a promise.

use crore_core::machine::Effect;
use crore_core::{Code, Invalid, NewJob};
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
pub(crate) fn check_jobs<'a>(jobs: impl IntoIterator<Item = &'a NewJob>) -> Result<(), Error> {
    match jobs.into_iter().find(|job| job.deadline.is_some()) {
        None => Ok(()),
        Some(job) => {
            let message = format!(
                "queue `{}`: this store does not support deadlines; use the embedded store",
                job.spec.queue
            );
            Err(Invalid::new(Code::TimeRange, "deadline", message).into())
        }
    }
}

/// Refuses writes that push jobs with deadlines.
pub(crate) fn check_writes(writes: &[StoreWrite]) -> Result<(), Error> {
    let jobs = writes.iter().flat_map(|write| match write {
        StoreWrite::Job(change) => change.effects.iter().flat_map(follow_ups).collect(),
        StoreWrite::Tick { push, .. } => push.iter().collect::<Vec<_>>(),
        StoreWrite::Seal(_) => Vec::new(),
    });
    check_jobs(jobs)
}

fn follow_ups(effect: &Effect) -> &[NewJob] {
    match effect {
        Effect::Push(jobs) => jobs,
        _ => &[],
    }
}

#[cfg(test)]
#[expect(clippy::expect_used, clippy::panic, reason = "a test may panic")]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use crore_core::fair::{FairField, FairShare};
    use crore_core::job::StartDeadline;
    use crore_core::machine::{JobEvent, decide};
    use crore_core::{Job, JobId, Live, Name, Payload, Revision, Span, Spec, Time};
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
        assert!(!is_refused(check_jobs([&plain])));
        assert!(is_refused(check_jobs([&plain, &expiring])));
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
}
