//! Costs that must not grow with the jobs of others. Each test takes well under a second if its
//! cost is linear; with quadratic cost it exceeds the time limit of every test.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crore_core::job::{DependencyCondition, JobRetention};
use crore_core::limit::{Limit, LimitKey};
use crore_core::machine::{JobEvent, Outcome, decide};
use crore_core::push::{GroupRef, NewDependency, NewDependencyTarget, NewGroup};
use crore_core::version::{KindVersions, VersionRequirement};
use crore_core::{Batch, Job, Name, NewJob, Payload, Span, Spec};
use crore_store::jobs::{Claim, QueueOrder, StoreWrite};
use crore_store::registry::{Define, RegistryValue};
use crore_store::{Jobs, Memory, Registry, StoreFuture, Upkeep};
use crore_testkit::FakeClock;

fn name(text: &str) -> Name {
    Name::new("name", text).expect("a valid name")
}

fn job(queue: &str, kind: &str) -> NewJob {
    Spec::new(name(queue), name(kind), Payload::json("1")).into()
}

/// Result of a store whose futures are ready at once.
fn now<T>(mut answer: StoreFuture<'_, T>) -> T {
    match answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result.expect("an answer"),
        Poll::Pending => panic!("the memory store answers at once"),
    }
}

fn claim(store: &Memory, queues: Vec<Name>, n: usize) -> Vec<Job> {
    let worker = name("worker");
    now(store.claim(Claim {
        queues,
        kinds: None,
        versions: KindVersions::default(),
        n,
        order: QueueOrder::Merged,
        worker,
    }))
    .jobs
}

fn done(store: &Memory, jobs: &[Job]) {
    let change = |job: &Job| {
        let report = Outcome::Done { result: None }.into();
        let event = JobEvent::Finished { delivery: Some(job.live.delivery), report };
        StoreWrite::Job(decide(job, &event, 0).expect("it runs"))
    };
    now(store.apply(jobs.iter().map(change).collect())).into_inner();
}

#[test]
fn many_priorities_do_not_make_claims_slow() {
    let store = Memory::default();
    let jobs = (0..30_000).map(|priority| {
        let mut job = job("q", "k");
        job.spec.priority = priority;
        job
    });
    now(store.push(jobs.collect::<Vec<_>>().into())).into_inner();
    assert_eq!(claim(&store, vec![name("q")], 30_000).len(), 30_000);
}

#[test]
fn many_queues_behind_one_limit_do_not_make_claims_nor_pruning_slow() {
    let store = Memory::default();
    let queues: Vec<Name> = (0..8000).map(|n: u32| name(&n.to_string())).collect();
    let rate = RegistryValue::Limit(Limit::parse("rate 1/1h burst 1").expect("a limit"));
    now(store.define(vec![Define::set(name("slow"), rate)])).into_inner();
    let jobs = queues.iter().map(|queue| {
        let mut job = job(queue.as_str(), "k");
        job.spec.limits = vec![LimitKey { limit: name("slow"), value: None }];
        job
    });
    now(store.push(jobs.collect::<Vec<_>>().into())).into_inner();
    assert_eq!(claim(&store, queues, 9).len(), 1);
    assert_eq!(now(store.prune(9)).jobs, 0);
}

#[test]
fn many_kinds_do_not_make_pruning_slow() {
    let clock = FakeClock::default();
    let store = Memory::new(Arc::new(clock.clone()));
    let jobs = (0..16_000).map(|n| job("q", &(n % 4000).to_string())).collect::<Vec<_>>();
    now(store.push(jobs.into())).into_inner();
    done(&store, &claim(&store, vec![name("q")], 16_000));
    clock.advance(Span::from_secs(2 * 86_400));
    assert_eq!(now(store.prune(16_000)).jobs, 16_000);
}

#[test]
fn many_dependants_of_a_group_do_not_slow_down_its_members() {
    let store = Memory::default();
    let group = GroupRef::New(0);
    let waits = |nth: u32| {
        let mut job = job("then", "k");
        let needs = if nth.is_multiple_of(2) {
            DependencyCondition::End
        } else {
            DependencyCondition::Success
        };
        job.after = vec![NewDependency { on: NewDependencyTarget::Group(group), needs }];
        job
    };
    let member = |_| {
        let mut job = job("q", "k");
        job.group = Some(group);
        job.spec.retain = JobRetention::Nothing;
        job
    };
    let jobs = (0..30_000).map(waits).chain((0..10_000).map(member)).collect();
    let batch = Batch { groups: vec![NewGroup::default()], jobs };
    now(store.push(batch)).into_inner();
    let members = claim(&store, vec![name("q")], 10_000);
    done(&store, &members);
    assert_eq!(claim(&store, vec![name("then")], 30_000).len(), 30_000);
}

#[test]
fn many_jobs_that_require_versions_do_not_make_other_claims_slow() {
    let store = Memory::default();
    let versioned = |nth: u32| {
        let mut job = job("q", "k");
        let required =
            VersionRequirement::parse("worker_version", &format!(">={}", nth % 5000 + 2));
        job.spec.worker_version = Some(Box::new(required.expect("a requirement")));
        job.spec.priority = -1;
        job
    };
    let jobs = (0..50_000).map(versioned).chain((0..10_000).map(|_| job("q", "k")));
    now(store.push(jobs.collect::<Vec<_>>().into())).into_inner();
    for _ in 0..5000 {
        assert_eq!(claim(&store, vec![name("q")], 1).len(), 1);
    }
    // A version that satisfies no requirement.
    let versions = KindVersions::parse([("k", "1")]).expect("versions");
    let ask = Claim {
        queues: vec![name("q")],
        kinds: None,
        versions,
        n: 1,
        order: QueueOrder::Merged,
        worker: name("w"),
    };
    for _ in 0..500 {
        let jobs = now(store.claim(ask.clone())).jobs;
        assert!(jobs.iter().all(|job| job.spec.worker_version.is_none()) && jobs.len() == 1);
    }
    assert_eq!(now(store.claim(Claim { n: 10_000, ..ask })).jobs.len(), 4500);
}
