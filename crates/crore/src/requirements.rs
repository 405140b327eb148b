//! A bound on the different versions that jobs of one queue require: claims look at each requirement that has ready jobs.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crore_core::version::VersionRequirement;
use crore_core::{Code, Invalid, Name, NewJob};

use crate::engine::EngineInner;
use crate::error::Error;

/// Maximum number of different requirements in a queue.
pub(crate) const MAX_REQUIREMENTS: usize = 1000;

/// Maximum number of queues whose requirements are remembered; beyond it they are read from the store again.
const MAX_QUEUES: usize = 10_000;

/// The requirements of pushed jobs, by queue. When a queue has too many, those that have no ready jobs any more are
/// forgotten.
#[derive(Debug, Default)]
pub(crate) struct QueueRequirements(Mutex<HashMap<Name, BTreeSet<VersionRequirement>>>);

impl QueueRequirements {
    fn lock(&self) -> MutexGuard<'_, HashMap<Name, BTreeSet<VersionRequirement>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits the requirement of a job, if there is room for it.
    pub(crate) fn admit(&self, job: &NewJob) -> Result<(), Invalid> {
        let Some(required) = job.spec.worker_version.as_deref() else { return Ok(()) };
        let mut queues = self.lock();
        let known = queues.entry(job.spec.queue.clone()).or_default();
        if known.len() >= MAX_REQUIREMENTS && !known.contains(required) {
            let message = format!(
                "jobs of queue `{}` require {MAX_REQUIREMENTS} different versions already; `{required}` would be one more. \
                 Use fewer, or push the job to another queue",
                job.spec.queue
            );
            return Err(Invalid::new(Code::TooMany, "worker_version", message));
        }
        known.insert(*required);
        Ok(())
    }

    /// The queues of these jobs that may not have room for their requirements.
    fn crowded(&self, jobs: &[NewJob]) -> BTreeSet<Name> {
        let versioned: Vec<&NewJob> =
            jobs.iter().filter(|job| job.spec.worker_version.is_some()).collect();
        if versioned.is_empty() {
            return BTreeSet::new();
        }
        let queues = self.lock();
        // Nothing is known of a queue at its first push after a start.
        let is_crowded = |job: &&NewJob| {
            let known = queues.get(&job.spec.queue);
            known.is_none_or(|known| known.len() + versioned.len() > MAX_REQUIREMENTS)
        };
        let crowded = versioned.iter().copied().filter(is_crowded);
        crowded.map(|job| job.spec.queue.clone()).collect()
    }
}

impl EngineInner {
    /// Makes room for the requirements of jobs that are about to be pushed, where it is possible.
    pub(crate) async fn refresh_requirements(&self, jobs: &[NewJob]) -> Result<(), Error> {
        for queue in self.requirements.crowded(jobs) {
            let ready = self.store.required_versions(Some(queue.clone())).await?;
            let ready = ready.into_iter().map(|one| one.version).collect();
            let mut queues = self.requirements.lock();
            if queues.len() >= MAX_QUEUES {
                queues.clear();
            }
            queues.insert(queue, ready);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Engine, block_on};
    use crore_core::{Payload, Spec};

    fn job(queue: &str, version: usize) -> NewJob {
        let name = |text| Name::new("name", text).expect("a name");
        let mut spec = Spec::new(name(queue), name("k"), Payload::json("1"));
        let text = format!("={version}");
        let required = VersionRequirement::parse("worker_version", &text).expect("a requirement");
        spec.worker_version = Some(Box::new(required));
        spec.into()
    }

    #[test]
    fn too_many_different_requirements_are_refused_and_named() {
        let engine = Engine::memory();
        let push = |job: NewJob| block_on(engine.push_all(vec![job].into())).expect("an answer");
        for n in 0..MAX_REQUIREMENTS {
            assert!(push(job("q", n)).jobs[0].id().is_some(), "{n}");
        }
        let refused = push(job("q", MAX_REQUIREMENTS)).jobs.remove(0);
        let crate::push::PushResult::Invalid(invalid) = refused else { panic!("{refused:?}") };
        assert_eq!(
            (invalid.code, invalid.field.as_str()),
            (Code::TooMany, "jobs[0].worker_version")
        );
        assert!(push(job("q", 7)).jobs[0].id().is_some(), "one that is there already");
        assert!(push(job("other", MAX_REQUIREMENTS)).jobs[0].id().is_some(), "another queue");
        let counts = block_on(engine.jobs().counts(None)).expect("counts");
        assert_eq!(counts.iter().map(|count| count.n).sum::<u64>(), MAX_REQUIREMENTS as u64 + 2);
    }

    #[test]
    fn requirements_without_ready_jobs_make_room() {
        let engine = Engine::memory();
        let known: BTreeSet<_> = (0..MAX_REQUIREMENTS)
            .map(|n| **job("q", n).spec.worker_version.as_ref().expect("one"))
            .collect();
        engine.inner.requirements.lock().insert(job("q", 0).spec.queue, known);
        let pushed = block_on(engine.push_all(vec![job("q", 5000)].into())).expect("an answer");
        assert!(pushed.jobs[0].id().is_some());
    }
}
