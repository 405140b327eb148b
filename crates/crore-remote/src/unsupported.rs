//! Features that these stores do not implement yet: they are refused, because ignoring them would break a promise.
//! Records of actions by hand (`Live::actions`) are left out instead: without cancel and retry, an operator could do nothing.

use crore_core::machine::{Effect, NextRecord};
use crore_core::{Code, Invalid, NewJob, Spec};
use crore_store::Error;
use crore_store::jobs::StoreWrite;
use crore_store::registry::{Define, DefineAction, RegistryValue};

/// Refuses definitions that the store cannot put into effect.
pub(crate) fn check_definitions(definitions: &[Define]) -> Result<(), Error> {
    let is_shared = |define: &Define| matches!(&define.action, DefineAction::Set(RegistryValue::Queue(queue)) if queue.fair.is_some());
    let has_costs = |define: &Define| matches!(&define.action, DefineAction::Set(RegistryValue::Limit(limit)) if limit.cost.is_some());
    if let Some(define) = definitions.iter().find(|define| has_costs(define)) {
        let message = format!(
            "limit `{}`: this store cannot count costs; use the embedded store",
            define.name
        );
        return Err(Invalid::new(Code::CostRange, "limit", message).into());
    }
    let is_indexed = |define: &Define| matches!(&define.action, DefineAction::Set(RegistryValue::Queue(queue)) if queue.index.is_some());
    if let Some(define) = definitions.iter().find(|define| is_indexed(define)) {
        let message =
            format!("queue `{}`: this store has no index; use the embedded store", define.name);
        return Err(Invalid::new(Code::IndexField, "index", message).into());
    }
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
    if let Some(awaited) = &spec.wait_for {
        let message = format!(
            "`{}`: this store does not support events; use the embedded store",
            awaited.name
        );
        return Err(Invalid::new(Code::Refused, "wait_for", message).into());
    }
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
                Effect::PauseKey { key, .. } => Err(cannot_pause(key.limit.as_str())),
                _ => Ok(()),
            })
        }
        StoreWrite::Seal(_) => Ok(()),
        StoreWrite::ResumeKeys { limit, .. } => Err(cannot_pause(limit.as_str())),
        StoreWrite::Tick { push, .. } => check_jobs(push),
    })
}

fn cannot_pause(limit: &str) -> Error {
    let message = format!("limit `{limit}`: this store cannot pause keys; use the embedded store");
    Invalid::new(Code::LimitRange, "limit", message).into()
}

#[cfg(test)]
#[expect(clippy::expect_used, clippy::panic, reason = "a test may panic")]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use crore_core::fair::{FairField, FairShare};
    use crore_core::job::StartDeadline;
    use crore_core::limit::{Limit, LimitKey, PauseEnd};
    use crore_core::machine::{JobEvent, decide};
    use crore_core::version::VersionRequirement;
    use crore_core::{
        AwaitedEvent, GroupId, IndexedField, Job, JobId, Live, Name, Payload, QueueIndex, Revision,
        Span, Time,
    };
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
    fn an_indexed_queue_is_refused_and_named() {
        let fields = vec![IndexedField::parse("payload.customer").expect("a field")];
        let index = Some(Arc::new(QueueIndex::new(fields).expect("an index")));
        let name = Name::new("name", "mail").expect("a name");
        let settings = QueueSettings { index, ..QueueSettings::default() };
        let refused = check_definitions(&[Define::set(name, RegistryValue::Queue(settings))]);
        let Err(Error::Invalid(invalid)) = refused else { panic!("accepted: {refused:?}") };
        assert_eq!((invalid.code, invalid.field.as_str()), (Code::IndexField, "index"));
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
    fn costs_and_pauses_are_refused_and_named() {
        let name = Name::new("name", "tokens").expect("a name");
        let limit = |text| RegistryValue::Limit(Limit::parse(text).expect("a limit"));
        let define = |text| check_definitions(&[Define::set(name.clone(), limit(text))]);
        assert!(define("rate 5/1s").is_ok());
        let refused = define("rate 5/1s cost payload.n");
        let Err(Error::Invalid(invalid)) = refused else { panic!("accepted: {refused:?}") };
        assert_eq!((invalid.code, invalid.field.as_str()), (Code::CostRange, "limit"));
        assert!(invalid.message.contains("`tokens`"), "{}", invalid.message);
        let resume = StoreWrite::ResumeKeys { limit: name.clone(), key: None };
        assert!(check_writes(&[resume]).is_err());
        let queue = Name::new("name", "q").expect("a name");
        let spec = Spec::new(queue.clone(), queue, Payload::json("1"));
        let live = Live::pushed(Time::ZERO, Time::ZERO, 0);
        let job = Job { id: JobId(1), spec: Arc::new(spec), live };
        let mut change = decide(&job, &JobEvent::Cancel, 0).expect("a ready job can be cancelled");
        let key = LimitKey { limit: name, value: None };
        let until = PauseEnd::After(Span::from_secs(1));
        change.effects.push(Effect::PauseKey { key, until });
        assert!(check_writes(&[StoreWrite::Job(change)]).is_err());
    }

    #[test]
    fn a_wait_for_an_event_is_refused_and_named() {
        let name = |text| Name::new("name", text).expect("a name");
        let mut spec = Spec::new(name("q"), name("k"), Payload::json("{}"));
        assert!(check_jobs(&[spec.clone().into()]).is_ok());
        let (timeout, on_timeout) = (None, <_>::default());
        spec.wait_for = Some(Box::new(AwaitedEvent { name: name("paid"), timeout, on_timeout }));
        let refused = check_jobs(&[spec.into()]);
        let Err(Error::Invalid(invalid)) = refused else { panic!("accepted: {refused:?}") };
        assert_eq!((invalid.code, invalid.field.as_str()), (Code::Refused, "wait_for"));
        assert!(invalid.message.contains("`paid`"), "{}", invalid.message);
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
