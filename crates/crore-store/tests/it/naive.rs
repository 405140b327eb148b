//! Claim order and parking of lanes, compared with a model that examines every job.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crore_core::job::{DueTime, JobRetention};
use crore_core::limit::{Limit, LimitKey, Tat};
use crore_core::machine::{JobEdit, JobEvent, Outcome, RetryDirective, decide};
use crore_core::{Clock, Job, JobId, Name, NewJob, Payload, Span, Spec, State, Time};
use crore_store::jobs::{Applied, Claim, JobSelector, QueueOrder, StoreWrite};
use crore_store::registry::{Define, QueueSettings, RegistryTable, RegistryValue};
use crore_store::{Jobs, Memory, Registry, StoreFuture, Upkeep};
use crore_testkit::FakeClock;
use proptest::prelude::*;

const QUEUES: [&str; 3] = ["a", "b", "c"];
const LIMITS: [(&str, [&str; 2]); 3] = [
    ("few", ["concurrency 2", "concurrency 0"]),
    ("slow", ["rate 2/1s burst 2", "rate 1/3s burst 1"]),
    ("both", ["rate 3/1s burst 1 concurrency 1", "concurrency 1"]),
];

#[derive(Debug, Clone)]
enum Step {
    Push { queue: usize, kind: usize, priority: i32, limits: [Option<u8>; 3], later: u64 },
    Claim { queues: [bool; 3], kind: Option<usize>, n: usize, strict: bool },
    Finish { nth: usize, how: u8 },
    Cancel(usize),
    Reorder { nth: usize, priority: i32 },
    Wait(u64),
    Limit { which: usize, text: Option<usize> },
    Pause { queue: usize, paused: bool },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let limits = proptest::array::uniform3(proptest::option::weighted(0.4, 0u8..3));
    let step = prop_oneof![
        8 => (0usize..3, 0usize..2, -1i32..2, limits, prop_oneof![4 => Just(0u64), 1 => 1u64..900])
            .prop_map(|(queue, kind, priority, limits, later)| {
                Step::Push { queue, kind, priority, limits, later }
            }),
        6 => (any::<[bool; 3]>(), proptest::option::weighted(0.3, 0usize..2), 1usize..4, any::<bool>())
            .prop_map(|(queues, kind, n, strict)| Step::Claim { queues, kind, n, strict }),
        4 => (any::<usize>(), 0u8..4).prop_map(|(nth, how)| Step::Finish { nth, how }),
        1 => any::<usize>().prop_map(Step::Cancel),
        1 => (any::<usize>(), -1i32..2).prop_map(|(nth, priority)| Step::Reorder { nth, priority }),
        3 => prop_oneof![1u64..400, Just(1000), Just(5000)].prop_map(Step::Wait),
        1 => (0usize..3, proptest::option::of(0usize..2)).prop_map(|(which, text)| Step::Limit { which, text }),
        1 => (0usize..3, any::<bool>()).prop_map(|(queue, paused)| Step::Pause { queue, paused }),
    ];
    proptest::collection::vec(step, 1..80)
}

fn name(text: &str) -> Name {
    Name::new("name", text).expect("a valid name")
}

/// Result of a store whose futures are ready at once.
fn now<T>(mut answer: StoreFuture<'_, T>) -> T {
    match answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result.expect("an answer"),
        Poll::Pending => panic!("the memory store answers at once"),
    }
}

/// A store, and the state needed to predict its claims.
struct NaiveModel {
    clock: Arc<FakeClock>,
    store: Memory,
    ids: Vec<JobId>,
    limits: BTreeMap<Name, Limit>,
    tats: BTreeMap<LimitKey, Tat>,
    paused: [bool; 3],
}

impl NaiveModel {
    fn new() -> Self {
        let clock = Arc::new(FakeClock::default());
        let store = Memory::new(clock.clone());
        let (limits, tats) = (BTreeMap::new(), BTreeMap::new());
        let mut world = Self { clock, store, ids: Vec::new(), limits, tats, paused: [false; 3] };
        for which in 0..3 {
            world.limit(which, Some(0));
        }
        world
    }

    fn jobs(&self) -> Vec<Job> {
        now(self.store.get(JobSelector::all(&self.ids))).into_iter().flatten().collect()
    }

    fn in_state(&self, state: State) -> Vec<Job> {
        self.jobs().into_iter().filter(|job| job.live.state == state).collect()
    }

    fn limit(&mut self, which: usize, text: Option<usize>) {
        let (limit, texts) = LIMITS[which];
        let define = match text {
            Some(text) => {
                let parsed = Limit::parse(texts[text]).expect("a valid limit");
                self.limits.insert(name(limit), parsed.clone());
                Define::set(name(limit), RegistryValue::Limit(parsed))
            }
            None => {
                self.limits.remove(&name(limit));
                Define::remove(RegistryTable::Limits, name(limit))
            }
        };
        assert_eq!(now(self.store.define(vec![define])).get().len(), 1);
    }

    /// The jobs that a claim must return: examines every ready job in order, and recounts every
    /// permit.
    fn expected(&mut self, ask: &Claim) -> Vec<JobId> {
        let mut ready: Vec<(usize, Job)> = Vec::new();
        for job in self.in_state(State::Ready) {
            let asked = ask.queues.iter().position(|queue| *queue == job.spec.queue);
            let of_kind = ask.kinds.as_ref().is_none_or(|kinds| kinds.contains(&job.spec.kind));
            let paused =
                QUEUES.iter().zip(self.paused).any(|(q, p)| p && *q == job.spec.queue.as_str());
            if let Some(place) = asked.filter(|_| of_kind && !paused) {
                let place = if ask.order == QueueOrder::Strict { place } else { 0 };
                ready.push((place, job));
            }
        }
        ready.sort_by_key(|(place, job)| (*place, job.spec.priority, job.live.due, job.id));
        let mut held: BTreeMap<LimitKey, u32> = BTreeMap::new();
        for job in self.in_state(State::Running) {
            job.spec.limits.iter().for_each(|key| *held.entry(key.clone()).or_default() += 1);
        }
        let mut taken = Vec::new();
        for (_, job) in ready {
            if taken.len() < ask.n && self.permits(&job.spec, &mut held) {
                taken.push(job.id);
            }
        }
        taken
    }

    fn permits(&mut self, spec: &Spec, held: &mut BTreeMap<LimitKey, u32>) -> bool {
        let at = self.clock.now();
        let free = spec.limits.iter().all(|key| {
            let Some(limit) = self.limits.get(&key.limit) else { return true };
            let room =
                limit.concurrency.is_none_or(|most| held.get(key).copied().unwrap_or(0) < most);
            let tat = self.tats.get(key).copied().unwrap_or_default();
            room && limit.rate.is_none_or(|rate| {
                let look = rate.take(tat, at, 1);
                if look.granted == 0 {
                    self.tats.insert(key.clone(), look.tat);
                }
                look.granted == 1
            })
        });
        if free {
            for key in &spec.limits {
                *held.entry(key.clone()).or_default() += 1;
                if let Some(rate) = self.limits.get(&key.limit).and_then(|limit| limit.rate) {
                    let tat = self.tats.entry(key.clone()).or_default();
                    *tat = rate.take(*tat, at, 1).tat;
                }
            }
        }
        free
    }

    fn apply_event(&self, job: &Job, event: &JobEvent) {
        if let Ok(change) = decide(job, event, 0) {
            let applied = now(self.store.apply(vec![StoreWrite::Job(change)])).into_inner();
            assert!(matches!(applied.as_slice(), [Applied::Yes(_)]), "{event:?}");
        }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Push { queue, kind, priority, limits, later } => {
                let (queue, kind) = (name(QUEUES[queue]), name(["k", "l"][kind]));
                let mut spec = Spec::new(queue, kind, Payload::json("0"));
                spec.priority = priority;
                spec.retain = JobRetention::Nothing;
                let keys = LIMITS.iter().zip(limits).filter_map(|((limit, _), value)| {
                    let value = value?.checked_sub(1).map(|n| Arc::from(n.to_string()));
                    Some(LimitKey { limit: name(limit), value })
                });
                spec.limits = keys.collect();
                let due = DueTime::After(Span::from_millis(later));
                let job = NewJob { due, ..spec.into() };
                let pushed = now(self.store.push(job.into())).into_inner();
                self.ids.extend(pushed.jobs.iter().filter_map(|pushed| pushed.id()));
            }
            Step::Claim { queues, kind, n, strict } => {
                let asked = QUEUES.iter().zip(queues).filter(|(_, asked)| *asked);
                let ask = Claim {
                    queues: asked.map(|(queue, _)| name(queue)).collect(),
                    kinds: kind.map(|kind| vec![name(["k", "l"][kind])]),
                    n,
                    order: if strict { QueueOrder::Strict } else { QueueOrder::Merged },
                    worker: name("w"),
                };
                let expected = self.expected(&ask);
                let claimed = now(self.store.claim(ask));
                let ids: Vec<JobId> = claimed.jobs.iter().map(|job| job.id).collect();
                assert_eq!(ids, expected);
            }
            Step::Finish { nth, how } => {
                let running = self.in_state(State::Running);
                let Some(job) = running.get(nth % running.len().max(1)) else { return };
                let again = RetryDirective::After(Span::from_millis(500));
                let outcome = match how {
                    0 => Outcome::Interrupted,
                    1 => Outcome::Failed { error: "no".into(), detail: None, again },
                    2 => Outcome::Snooze(Span::from_millis(100)),
                    _ => Outcome::Done { result: None },
                };
                let (delivery, report) = (Some(job.live.delivery), outcome.into());
                self.apply_event(job, &JobEvent::Finished { delivery, report });
            }
            Step::Cancel(nth) => {
                let ready = self.in_state(State::Ready);
                let Some(job) = ready.get(nth % ready.len().max(1)) else { return };
                self.apply_event(job, &JobEvent::Delete);
            }
            Step::Reorder { nth, priority } => {
                let ready = self.in_state(State::Ready);
                let Some(job) = ready.get(nth % ready.len().max(1)) else { return };
                let spec = Some(Arc::new(Spec { priority, ..Spec::clone(&job.spec) }));
                self.apply_event(job, &JobEvent::Edit(JobEdit { spec, due: None }));
            }
            Step::Wait(millis) => {
                self.clock.advance(Span::from_millis(millis));
                now(self.store.promote(1000));
                if millis == 5000 {
                    now(self.store.prune(1000));
                    self.tats.retain(|_, tat| {
                        Time::from_millis(tat.as_micros() / 1000) > self.clock.now()
                    });
                }
            }
            Step::Limit { which, text } => self.limit(which, text),
            Step::Pause { queue, paused } => {
                self.paused[queue] = paused;
                let settings = QueueSettings { paused, ..QueueSettings::default() };
                let define = Define::set(name(QUEUES[queue]), RegistryValue::Queue(settings));
                assert_eq!(now(self.store.define(vec![define])).get().len(), 1);
            }
        }
    }
}

/// A rate that was made faster counts as just used up when a claim next reaches it, not before.
#[test]
fn a_raised_rate_applies_from_the_next_claim() {
    let push =
        Step::Push { queue: 0, kind: 0, priority: 0, limits: [None, Some(2), None], later: 0 };
    let claim = |n| Step::Claim { queues: [true, false, false], kind: None, n, strict: false };
    let (slow, fast) =
        (Step::Limit { which: 1, text: Some(1) }, Step::Limit { which: 1, text: Some(0) });
    let mut world = NaiveModel::new();
    for step in [slow, push.clone(), push, claim(2), fast, Step::Wait(1000), claim(1)] {
        world.step(&step);
    }
    for _ in 0..3 {
        world.step(&Step::Wait(400));
        world.step(&claim(1));
    }
    assert_eq!(world.in_state(State::Running).len(), 2);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn a_claim_equals_a_scan_of_every_job(steps in steps()) {
        let mut world = NaiveModel::new();
        for step in &steps {
            world.step(step);
        }
    }
}
