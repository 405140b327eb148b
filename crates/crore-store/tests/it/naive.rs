//! Claim order and parking of lanes, compared with a model that examines every job.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crore_core::fair::{FairField, FairKey, FairShare, STEP, Turn};
use crore_core::job::{DueTime, JobRetention};
use crore_core::limit::{Limit, LimitKey, PauseEnd, Tat};
use crore_core::machine::{JobEdit, JobEvent, Outcome, Report, RetryDirective, decide};
use crore_core::version::{KindVersions, Version, VersionRequirement};
use crore_core::{Clock, Job, JobId, Name, NewJob, Payload, Span, Spec, State, Time};
use crore_store::jobs::{Applied, Claim, JobSelector, QueueOrder, StoreWrite};
use crore_store::registry::{Define, QueueSettings, RegistryTable, RegistryValue};
use crore_store::{Jobs, Memory, Registry, StoreFuture, Upkeep};
use crore_testkit::FakeClock;
use proptest::prelude::*;

const QUEUES: [&str; 3] = ["a", "b", "c"];
const LIMITS: [(&str, [&str; 2]); 5] = [
    ("few", ["concurrency 2", "concurrency 0"]),
    ("slow", ["rate 2/1s burst 2", "rate 1/3s burst 1"]),
    ("both", ["rate 3/1s burst 1 concurrency 1", "concurrency 1"]),
    ("coins", ["rate 10/1s cost payload.n", "rate 4/1s burst 6 cost payload.n concurrency 2"]),
    ("tokens", ["rate 3/1s burst 9 cost payload.n", "rate 2/1s"]),
];

/// How long a rate stays reserved after it has what the job costs.
const GRACE: Span = Span::from_secs(5);

/// Weights of the fair keys `0`, `1` and `2`.
const WEIGHTS: [[u32; 3]; 3] = [[1, 1, 1], [1, 3, 2], [7, 1, 1000]];

/// Required versions, and versions that workers have.
const REQUIRED: [&str; 4] = [">=2.3", "<2.3", "=2", ">=2.3 <3"];
const VERSIONS: [&str; 4] = ["1", "2.3", "2.2.9", "3.1"];

#[derive(Debug, Clone)]
enum Step {
    Push {
        queue: usize,
        kind: usize,
        priority: i32,
        limits: [Option<u8>; 5],
        /// Its costs under `coins` and `tokens`.
        costs: [u32; 2],
        fair: Option<u8>,
        version: Option<usize>,
        later: u64,
    },
    Claim {
        queues: [bool; 3],
        kind: Option<usize>,
        /// Versions of the kinds `k` and `l`.
        versions: [Option<usize>; 2],
        n: usize,
        strict: bool,
    },
    Finish {
        nth: usize,
        how: u8,
        /// Its real cost under `coins`.
        real: Option<u32>,
    },
    Resume(usize),
    Cancel(usize),
    Reorder {
        nth: usize,
        priority: i32,
    },
    Wait(u64),
    Limit {
        which: usize,
        text: Option<usize>,
    },
    Pause {
        queue: usize,
        paused: bool,
    },
    Weigh {
        queue: usize,
        weights: usize,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let limits = proptest::array::uniform5(proptest::option::weighted(0.3, 0u8..3));
    let cost = || prop_oneof![3 => 0u32..5, 1 => 0u32..14];
    let costs = (cost(), cost()).prop_map(|(coins, tokens)| [coins, tokens]);
    let fair = proptest::option::weighted(0.7, 0u8..3);
    let required = proptest::option::weighted(0.4, 0usize..REQUIRED.len());
    let version = || proptest::option::weighted(0.4, 0usize..VERSIONS.len());
    let versions = (version(), version()).prop_map(|(k, l)| [k, l]);
    let keys = (limits, costs, fair, required);
    let step = prop_oneof![
        8 => (0usize..3, 0usize..2, -1i32..2, keys, prop_oneof![4 => Just(0u64), 1 => 1u64..900])
            .prop_map(|(queue, kind, priority, (limits, costs, fair, version), later)| {
                Step::Push { queue, kind, priority, limits, costs, fair, version, later }
            }),
        6 => (any::<[bool; 3]>(), proptest::option::weighted(0.3, 0usize..2), versions, 1usize..4, any::<bool>())
            .prop_map(|(queues, kind, versions, n, strict)| Step::Claim { queues, kind, versions, n, strict }),
        4 => (any::<usize>(), 0u8..6, proptest::option::of(0u32..20))
            .prop_map(|(nth, how, real)| Step::Finish { nth, how, real }),
        1 => (0usize..5).prop_map(Step::Resume),
        1 => any::<usize>().prop_map(Step::Cancel),
        1 => (any::<usize>(), -1i32..2).prop_map(|(nth, priority)| Step::Reorder { nth, priority }),
        3 => prop_oneof![1u64..400, Just(1000), Just(5000)].prop_map(Step::Wait),
        1 => (0usize..5, proptest::option::of(0usize..2)).prop_map(|(which, text)| Step::Limit { which, text }),
        1 => (0usize..3, any::<bool>()).prop_map(|(queue, paused)| Step::Pause { queue, paused }),
        1 => (0usize..3, 0usize..3).prop_map(|(queue, weights)| Step::Weigh { queue, weights }),
    ];
    proptest::collection::vec(step, 1..80)
}

fn name(text: &str) -> Name {
    Name::new("name", text).expect("a valid name")
}

fn kind_versions(versions: [Option<usize>; 2]) -> KindVersions {
    let version = |nth: usize| Version::parse("version", VERSIONS[nth]).expect("a version");
    let of_kinds = ["k", "l"].into_iter().zip(versions);
    of_kinds.filter_map(|(kind, nth)| Some((name(kind), version(nth?)))).collect()
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
    /// A claim that merges shared queues may or may not try a job whose rate is exhausted, which changes the rate's
    /// counter: a model with rates does not predict such claims.
    has_rates: bool,
    limits: BTreeMap<Name, Limit>,
    tats: BTreeMap<LimitKey, Tat>,
    /// Ends of the pauses of keys.
    paused_keys: BTreeMap<LimitKey, Time>,
    /// Jobs that rates are reserved for, with their priority and the time at which the rates have their costs.
    reserved: BTreeMap<LimitKey, (JobId, i32, Time)>,
    paused: [bool; 3],
    weights: [usize; 3],
    turns: BTreeMap<(Name, FairKey), Turn>,
    virtual_times: BTreeMap<Name, Turn>,
}

impl NaiveModel {
    fn new() -> Self {
        Self::with_rates(true)
    }

    fn with_rates(has_rates: bool) -> Self {
        let clock = Arc::new(FakeClock::default());
        let store = Memory::new(clock.clone());
        let (limits, tats) = (BTreeMap::new(), BTreeMap::new());
        let mut world = Self {
            clock,
            store,
            ids: Vec::new(),
            has_rates,
            limits,
            tats,
            paused_keys: BTreeMap::new(),
            reserved: BTreeMap::new(),
            paused: [false; 3],
            weights: [0; 3],
            turns: BTreeMap::new(),
            virtual_times: BTreeMap::new(),
        };
        for which in 0..LIMITS.len() {
            world.limit(which, Some(0));
        }
        for which in 0..3 {
            world.set_queue(which);
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
                let mut parsed = Limit::parse(texts[text]).expect("a valid limit");
                if !self.has_rates {
                    (parsed.rate, parsed.cost) = (None, None);
                }
                self.limits.insert(name(limit), parsed.clone());
                Define::set(name(limit), RegistryValue::Limit(parsed))
            }
            None => {
                self.limits.remove(&name(limit));
                Define::remove(RegistryTable::Limits, name(limit))
            }
        };
        assert_eq!(now(self.store.define(vec![define])).get().len(), 1);
        self.reserved.retain(|key, _| key.limit != name(limit));
    }

    /// Whether a claim merges queues and one of them is shared. Its order between queues of one priority is not promised:
    /// it depends on whether the first job of a shared queue was tried before and found without a permit.
    fn merges_shares(&self, ask: &Claim) -> bool {
        let is_shared = |job: &Job| job.spec.fair.is_some() && ask.queues.contains(&job.spec.queue);
        ask.order == QueueOrder::Merged
            && ask.queues.len() > 1
            && self.in_state(State::Ready).iter().any(is_shared)
    }

    /// Checks what is promised of a claim that merges shared queues: each job is the first with a permit of its
    /// queue, no other queue has one of a better priority, and none with a permit is left out.
    fn claim_merged(&mut self, ask: &Claim) {
        let mut ready = self.ready_jobs(ask);
        let mut held = self.held_permits();
        let claimed = now(self.store.claim(ask.clone()));
        for job in &claimed.jobs {
            let jobs = ready.iter().map(|(_, job)| job);
            let free: Vec<&Job> = jobs.filter(|job| self.has_permits(&job.spec, &held)).collect();
            let of_queue = free.iter().filter(|other| other.spec.queue == job.spec.queue);
            let first = of_queue
                .min_by_key(|job| (job.spec.priority, self.turn(&job.spec), job.live.due, job.id));
            let first = first.map(|job| job.id);
            assert_eq!(first, Some(job.id), "the first of queue {}", job.spec.queue);
            let best = free.iter().map(|job| job.spec.priority).min();
            assert_eq!(best, Some(job.spec.priority), "the best priority");
            assert!(self.permits(job, &mut held));
            self.take_turn(&job.spec);
            ready.retain(|(_, other)| other.id != job.id);
        }
        let is_left = ready.iter().any(|(_, job)| self.has_permits(&job.spec, &held));
        assert!(claimed.jobs.len() == ask.n || !is_left, "a job with a permit is left");
    }

    /// The jobs that a claim must return: examines every ready job in order, and recounts every
    /// permit.
    fn expected(&mut self, ask: &Claim) -> Vec<JobId> {
        let mut ready = self.ready_jobs(ask);
        let mut held = self.held_permits();
        let mut taken = Vec::new();
        let mut refused = Vec::new();
        while taken.len() < ask.n
            && let Some(index) = self.best(&ready)
        {
            let (place, job) = ready.remove(index);
            if !self.permits(&job, &mut held) {
                refused.push((place, job));
                continue;
            }
            taken.push(job.id);
            self.take_turn(&job.spec);
            let before = self.reserved.len();
            self.reserved.retain(|_, (id, ..)| *id != job.id);
            if self.reserved.len() < before {
                // The rates are free for the others.
                ready.extend(refused.extract_if(.., |(other, _)| *other == place));
            }
        }
        taken
    }

    /// Ready jobs that a claim names, with the position of their queue if the order is strict.
    fn ready_jobs(&self, ask: &Claim) -> Vec<(usize, Job)> {
        let mut ready: Vec<(usize, Job)> = Vec::new();
        for job in self.in_state(State::Ready) {
            let asked = ask.queues.iter().position(|queue| *queue == job.spec.queue);
            let of_kind = ask.kinds.as_ref().is_none_or(|kinds| kinds.contains(&job.spec.kind));
            let required = job.spec.worker_version.as_deref();
            let of_kind = of_kind && ask.versions.satisfy(&job.spec.kind, required);
            let paused =
                QUEUES.iter().zip(self.paused).any(|(q, p)| p && *q == job.spec.queue.as_str());
            if let Some(place) = asked.filter(|_| of_kind && !paused) {
                let place = if ask.order == QueueOrder::Strict { place } else { 0 };
                ready.push((place, job));
            }
        }
        ready
    }

    fn held_permits(&self) -> BTreeMap<LimitKey, u32> {
        let mut held: BTreeMap<LimitKey, u32> = BTreeMap::new();
        for job in self.in_state(State::Running) {
            job.spec.limits.iter().for_each(|key| *held.entry(key.clone()).or_default() += 1);
        }
        held
    }

    /// The job to try next: of each queue the first by priority, turn, due time and id; of these the first by
    /// priority, due time and id.
    fn best(&self, ready: &[(usize, Job)]) -> Option<usize> {
        let mut firsts = BTreeMap::new();
        for (index, (place, job)) in ready.iter().enumerate() {
            let spec = &job.spec;
            let key = (spec.priority, self.turn(spec), job.live.due, job.id);
            let first = firsts.entry((place, &spec.queue)).or_insert((key, index));
            *first = (*first).min((key, index));
        }
        let merged = firsts.into_iter().map(|((place, _), ((priority, _, due, id), index))| {
            ((place, priority, due, id), index)
        });
        merged.min().map(|(_, index)| index)
    }

    fn turn(&self, spec: &Spec) -> Turn {
        let key = spec.fair.as_ref().map(|fair| (spec.queue.clone(), fair.clone()));
        key.and_then(|key| self.turns.get(&key).copied()).unwrap_or(0)
    }

    fn take_turn(&mut self, spec: &Spec) {
        let Some(fair) = &spec.fair else { return };
        let queue = QUEUES.iter().position(|queue| *queue == spec.queue.as_str()).expect("a queue");
        let weight = WEIGHTS[self.weights[queue]][fair.as_str().parse::<usize>().expect("a key")];
        let now = self.virtual_times.entry(spec.queue.clone()).or_default();
        let start = self.turns.entry((spec.queue.clone(), fair.clone())).or_default();
        *now = (*start).max(*now);
        *start = *now + STEP / u64::from(weight);
    }

    fn set_queue(&self, queue: usize) {
        let weights = WEIGHTS[self.weights[queue]].iter().enumerate();
        let weights = weights.map(|(key, weight)| (key.to_string(), *weight)).collect();
        let by = FairField::parse("payload.tenant").expect("a field");
        let fair = Some(Arc::new(FairShare { by, weights }));
        let settings =
            QueueSettings { paused: self.paused[queue], fair, ..QueueSettings::default() };
        let define = Define::set(name(QUEUES[queue]), RegistryValue::Queue(settings));
        assert_eq!(now(self.store.define(vec![define])).get().len(), 1);
    }

    /// A key without jobs is forgotten.
    fn prune_turns(&mut self) {
        let jobs = self.jobs();
        let has_jobs = |queue: &Name, key: &FairKey| {
            jobs.iter().any(|job| job.spec.queue == *queue && job.spec.fair.as_ref() == Some(key))
        };
        self.turns.retain(|(queue, key), _| has_jobs(queue, key));
    }

    /// Whether every concurrency limit of a job has a permit, in a model without rates.
    fn has_permits(&self, spec: &Spec, held: &BTreeMap<LimitKey, u32>) -> bool {
        spec.limits.iter().all(|key| !self.is_held_back(key, held))
    }

    /// Whether the concurrency or a pause of a key keeps its jobs from starting.
    fn is_held_back(&self, key: &LimitKey, held: &BTreeMap<LimitKey, u32>) -> bool {
        let Some(limit) = self.limits.get(&key.limit) else { return false };
        let is_paused = self.paused_keys.get(key).is_some_and(|until| self.clock.now() < *until);
        let held = held.get(key).copied().unwrap_or(0);
        is_paused || limit.concurrency.is_some_and(|most| held >= most)
    }

    fn is_costed(&self, key: &LimitKey) -> bool {
        self.limits.get(&key.limit).is_some_and(|limit| limit.cost.is_some())
    }

    /// Whether the rate of a key has what a job costs; if not, stores the new state and returns when.
    fn lacks(&mut self, key: &LimitKey, cost: u32) -> Option<Time> {
        let at = self.clock.now();
        let limit = self.limits.get(&key.limit)?;
        let rate = limit.rate?;
        let tat = self.tats.get(key).copied().unwrap_or_default();
        let (is_granted, tat, next) = if limit.cost.is_some() {
            let look = rate.take_cost(tat, at, cost);
            (look.is_granted, look.tat, rate.next_at_cost(tat, at, cost))
        } else {
            let look = rate.take(tat, at, 1);
            (look.granted == 1, look.tat, rate.next_at(tat, at))
        };
        if is_granted {
            return None;
        }
        self.tats.insert(key.clone(), tat);
        Some(next)
    }

    fn permits(&mut self, job: &Job, held: &mut BTreeMap<LimitKey, u32>) -> bool {
        let spec = &job.spec;
        let free = if spec.limits.iter().any(|key| self.is_costed(key)) {
            self.has_costs(job, held)
        } else {
            spec.limits
                .iter()
                .all(|key| !self.is_held_back(key, held) && self.lacks(key, 1).is_none())
        };
        if free {
            for (key, cost) in spec.charges() {
                *held.entry(key.clone()).or_default() += 1;
                self.charge(key, cost);
            }
        }
        free
    }

    fn charge(&mut self, key: &LimitKey, cost: u32) {
        let (at, is_costed) = (self.clock.now(), self.is_costed(key));
        if let Some(rate) = self.limits.get(&key.limit).and_then(|limit| limit.rate) {
            let tat = self.tats.entry(key.clone()).or_default();
            *tat = if is_costed {
                rate.take_cost(*tat, at, cost).tat
            } else {
                rate.take(*tat, at, 1).tat
            };
        }
    }

    /// Whether a job under costs may start. If only rates keep it from starting, they are reserved for it.
    fn has_costs(&mut self, job: &Job, held: &BTreeMap<LimitKey, u32>) -> bool {
        let (spec, at) = (&job.spec, self.clock.now());
        let is_reserved = |key: &LimitKey| {
            self.reserved.get(key).is_some_and(|(id, priority, from)| {
                *id != job.id && *priority <= spec.priority && at < from.after(GRACE)
            })
        };
        if spec.limits.iter().any(|key| self.is_held_back(key, held) || is_reserved(key)) {
            return false;
        }
        let lacking: Vec<Time> =
            spec.charges().filter_map(|(key, cost)| self.lacks(key, cost)).collect();
        let Some(from) = lacking.into_iter().max() else { return true };
        for key in spec.limits.iter().filter(|key| self.is_costed(key)).cloned().collect::<Vec<_>>()
        {
            self.reserved.insert(key, (job.id, spec.priority, from));
        }
        false
    }

    /// A reservation ends when its job is no longer the first of its lane.
    fn prune_reserved(&mut self) {
        let ready = self.in_state(State::Ready);
        let first = |id: JobId, priority: i32| {
            let Some(job) = ready.iter().find(|job| job.id == id) else { return false };
            if job.spec.priority != priority {
                return false;
            }
            let lane = |job: &Job| {
                let Spec { queue, kind, limits, fair, worker_version, .. } = Spec::clone(&job.spec);
                (queue, kind, limits, fair, worker_version)
            };
            let of_lane = ready.iter().filter(|other| lane(other) == lane(job));
            of_lane.map(|job| (job.spec.priority, job.live.due, job.id)).min().map(|it| it.2)
                == Some(id)
        };
        self.reserved.retain(|_, (id, priority, _)| first(*id, *priority));
    }

    /// Corrects the costs of a job as its report says.
    fn settle(&mut self, job: &Job, report: &Report) {
        let at = self.clock.now();
        let is_exhausted = matches!(report.outcome, Outcome::Exhausted { .. });
        for (key, charged) in job.spec.charges() {
            let real = report.costs.get(&key.limit).copied();
            let real = real.or(is_exhausted.then_some(0)).unwrap_or(charged);
            let rate = self.limits.get(&key.limit).filter(|limit| limit.cost.is_some());
            if let Some(rate) = rate.and_then(|limit| limit.rate).filter(|_| real != charged) {
                let tat = self.tats.entry(key.clone()).or_default();
                *tat = rate.settle(*tat, at, charged, real);
            }
        }
    }

    fn apply_event(&self, job: &Job, event: &JobEvent) {
        if let Ok(change) = decide(job, event, 0) {
            let applied = now(self.store.apply(vec![StoreWrite::Job(change)])).into_inner();
            assert!(matches!(applied.as_slice(), [Applied::Yes(_)]), "{event:?}");
        }
    }

    fn step(&mut self, step: &Step) {
        self.run_step(step);
        self.prune_reserved();
    }

    fn run_step(&mut self, step: &Step) {
        match *step {
            Step::Push { queue, kind, priority, limits, costs, fair, version, later } => {
                let (queue, kind) = (name(QUEUES[queue]), name(["k", "l"][kind]));
                let mut spec = Spec::new(queue, kind, Payload::json("0"));
                spec.priority = priority;
                spec.retain = JobRetention::Nothing;
                let keys = LIMITS.iter().zip(limits).filter_map(|((limit, _), value)| {
                    let value = value?.checked_sub(1).map(|n| Arc::from(n.to_string()));
                    Some(LimitKey { limit: name(limit), value })
                });
                spec.limits = keys.collect();
                let cost = |key: &LimitKey| match key.limit.as_str() {
                    "coins" => costs[0],
                    "tokens" => costs[1],
                    _ => 1,
                };
                let costs: Arc<[u32]> = spec.limits.iter().map(cost).collect();
                spec.costs = Some(costs).filter(|costs| costs.iter().any(|cost| *cost != 1));
                spec.fair = fair.map(|key| FairKey::new(Some(key.to_string().into())));
                spec.worker_version = version.map(|nth| {
                    let required = VersionRequirement::parse("worker_version", REQUIRED[nth]);
                    Box::new(required.expect("a requirement"))
                });
                let due = DueTime::After(Span::from_millis(later));
                let job = NewJob { due, ..spec.into() };
                let pushed = now(self.store.push(job.into())).into_inner();
                self.ids.extend(pushed.jobs.iter().filter_map(|pushed| pushed.id()));
            }
            Step::Claim { queues, kind, versions, n, strict } => {
                let asked = QUEUES.iter().zip(queues).filter(|(_, asked)| *asked);
                let mut ask = Claim {
                    queues: asked.map(|(queue, _)| name(queue)).collect(),
                    kinds: kind.map(|kind| vec![name(["k", "l"][kind])]),
                    versions: kind_versions(versions),
                    n,
                    order: if strict { QueueOrder::Strict } else { QueueOrder::Merged },
                    worker: name("w"),
                };
                let merges_shares = self.merges_shares(&ask);
                if merges_shares && self.has_rates {
                    ask.order = QueueOrder::Strict;
                } else if merges_shares {
                    return self.claim_merged(&ask);
                }
                let expected = self.expected(&ask);
                let claimed = now(self.store.claim(ask));
                let ids: Vec<JobId> = claimed.jobs.iter().map(|job| job.id).collect();
                assert_eq!(ids, expected);
            }
            Step::Finish { nth, how, real } => {
                let running = self.in_state(State::Running);
                let Some(job) = running.get(nth % running.len().max(1)) else { return };
                let again = RetryDirective::After(Span::from_millis(500));
                let outcome = match how {
                    0 => Outcome::Interrupted,
                    1 => Outcome::Failed { error: "no".into(), detail: None, again },
                    2 => Outcome::Snooze(Span::from_millis(100)),
                    3 if !job.spec.limits.is_empty() => {
                        let key = &job.spec.limits[nth % job.spec.limits.len()];
                        let until = self.clock.now().after(Span::from_millis(1500));
                        let pause = self.paused_keys.entry(key.clone()).or_default();
                        *pause = until.max(*pause);
                        let until = PauseEnd::After(Span::from_millis(1500));
                        Outcome::Exhausted { limit: key.limit.clone(), until }
                    }
                    _ => Outcome::Done { result: None },
                };
                let mut report = Report::from(outcome);
                report.costs = real.map(|real| (name("coins"), real)).into_iter().collect();
                self.settle(job, &report);
                let delivery = Some(job.live.delivery);
                self.apply_event(job, &JobEvent::Finished { delivery, report });
            }
            Step::Resume(which) => {
                let limit = name(LIMITS[which].0);
                let at = self.clock.now();
                self.paused_keys.retain(|key, until| at < *until && key.limit != limit);
                let resume = StoreWrite::ResumeKeys { limit, key: None };
                assert_eq!(now(self.store.apply(vec![resume])).get().len(), 1);
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
                    self.prune_turns();
                }
            }
            Step::Limit { which, text } => self.limit(which, text),
            Step::Pause { queue, paused } => {
                self.paused[queue] = paused;
                self.set_queue(queue);
            }
            Step::Weigh { queue, weights } => {
                self.weights[queue] = weights;
                self.set_queue(queue);
            }
        }
    }
}

/// A rate that was made faster counts as just used up when a claim next reaches it, not before.
#[test]
fn a_raised_rate_applies_from_the_next_claim() {
    let limits = [None, Some(2), None, None, None];
    let push = Step::Push {
        queue: 0,
        kind: 0,
        priority: 0,
        limits,
        costs: [1; 2],
        fair: None,
        version: None,
        later: 0,
    };
    let claim = |n| Step::Claim {
        queues: [true, false, false],
        kind: None,
        versions: [None; 2],
        n,
        strict: false,
    };
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

    #[test]
    fn a_claim_that_merges_shared_queues_keeps_its_promises(steps in steps()) {
        let mut world = NaiveModel::with_rates(false);
        for step in &steps {
            world.step(step);
        }
    }
}

/// One permit at a time, returned in between: the key whose turn it is gets it, although all are parked.
#[test]
fn keys_that_wait_for_one_permit_take_turns() {
    let mut world = NaiveModel::new();
    world.step(&Step::Limit { which: 2, text: Some(1) });
    world.step(&Step::Weigh { queue: 0, weights: 1 });
    let limits = [None, None, Some(1), None, None];
    for fair in [0, 1, 2].map(Some) {
        let push = Step::Push {
            queue: 0,
            kind: 0,
            priority: 0,
            limits,
            costs: [1; 2],
            fair,
            version: None,
            later: 0,
        };
        (0..9).for_each(|_| world.step(&push));
    }
    let mut counts = [0; 3];
    for _ in 0..12 {
        world.step(&Step::Claim {
            queues: [true, false, false],
            kind: None,
            versions: [None; 2],
            n: 9,
            strict: false,
        });
        let running = world.in_state(State::Running);
        let key = running[0].spec.fair.as_ref().map(|key| key.as_str().to_owned());
        counts[key.and_then(|key| key.parse::<usize>().ok()).expect("a key")] += 1;
        world.step(&Step::Finish { nth: 0, how: 5, real: None });
    }
    assert_eq!(counts, [2, 6, 4]);
}
