//! The configuration of a run, drawn from its seed first, so that features and faults are sometimes all off,
//! all on, and in every mixture. A fixed mixture would find less.

use std::collections::BTreeSet;

use crore_core::Span;

use super::fault_odds::FaultOdds;
use super::rng::SimRng;

const SECOND: Span = Span::from_secs(1);

/// The configuration of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimConfig {
    /// The seed from which the configuration and the run follow.
    pub seed: u64,
    /// How random numbers follow from the seed.
    pub generation: Generation,
    /// Number of steps before the faults are healed.
    pub steps: u32,
    /// The last step performed; smaller than `steps` only in a shrunk run.
    pub last_step: u32,
    /// Steps left out of a shrunk run.
    pub skip: BTreeSet<u32>,
    /// Number of callers of each kind.
    pub callers: CallerCounts,
    /// Features of the pushed jobs.
    pub jobs: JobFeatures,
    /// Admin actions.
    pub admin: AdminFeatures,
    /// Setup of the store and its loops.
    pub store: StoreSetup,
    /// Frequency of each fault.
    pub faults: FaultOdds,
}

/// How random numbers follow from the seed. A seed that failed once is stored with its generation, so that it
/// always means the same run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Generation {
    /// One stream of numbers for the whole run. Without the faults that were added later.
    First,
    /// One stream of numbers per step and purpose, so that removing a step changes no number of another.
    Second,
    /// As the second, and some jobs have deadlines.
    Third,
    /// As the third, and some jobs wait for events.
    #[default]
    Fourth,
}

impl Generation {
    /// The generation with this number, from 1.
    pub const fn of(number: u64) -> Option<Self> {
        match number {
            1 => Some(Self::First),
            2 => Some(Self::Second),
            3 => Some(Self::Third),
            4 => Some(Self::Fourth),
            _ => None,
        }
    }
}

/// Number of callers of each kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallerCounts {
    /// Callers that push.
    pub pushers: u32,
    /// Callers that claim and report.
    pub workers: u32,
    /// Callers that read, cancel, retry, delete, edit and define.
    pub admins: u32,
    /// Callers that promote jobs, expire leases and prune.
    pub upkeepers: u32,
    /// Maximum operations in flight per caller.
    pub depth: u32,
    /// Maximum jobs per claim.
    pub max_claim: u64,
    /// Percentage of the steps after which pushing stops, until the last tenth: the backlog is processed, and
    /// the log drops it.
    pub push_percent: u32,
}

/// Features of the pushed jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobFeatures {
    /// Number of queues.
    pub queues: u64,
    /// Number of kinds.
    pub kinds: u64,
    /// Maximum jobs per batch.
    pub max_batch: u64,
    /// Maximum bytes of a payload and of a result.
    pub max_payload: u64,
    /// Whether priorities differ.
    pub priorities: bool,
    /// Whether some jobs are due later.
    pub delays: bool,
    /// Whether some jobs have a deadline for their start.
    pub deadlines: bool,
    /// Whether some jobs wait for events; only if callers use a store without an engine.
    pub events: bool,
    /// Maximum attempts of a job.
    pub attempts: u32,
    /// Length of leases.
    pub lease: Span,
    /// Whether some jobs have no lease and are done on delivery.
    pub fire_and_forget: bool,
    /// Number of unique keys, if jobs have any.
    pub keys: Option<u64>,
    /// Whether groups are used.
    pub groups: bool,
    /// Whether jobs have dependencies.
    pub dependencies: bool,
    /// Whether jobs count against limits.
    pub limits: bool,
    /// Whether finishing jobs push others.
    pub follow_ups: bool,
    /// Whether results are kept.
    pub results: bool,
    /// Whether any delivery of some jobs may report.
    pub unfenced: bool,
    /// Whether some jobs are removed as soon as they are done.
    pub removed_when_done: bool,
    /// Whether some jobs require a version, and some workers name one.
    pub versions: bool,
}

/// Admin actions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdminFeatures {
    /// Cancel.
    pub cancel: bool,
    /// Retry.
    pub retry: bool,
    /// Delete.
    pub delete: bool,
    /// Change queue, priority or due time.
    pub edit: bool,
    /// Pause queues, and set the retention of ended jobs.
    pub settings: bool,
    /// Define schedules, and fire their ticks.
    pub schedules: bool,
    /// Write notes and statistics.
    pub notes: bool,
    /// Pop, run workers, and act on all matching jobs; only if callers use an `SimulatedEngine`.
    pub programs: bool,
}

/// Setup of the store and its loops.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreSetup {
    /// Size of a segment.
    pub segment_bytes: u64,
    /// When a write counts as durable.
    pub durability: StoreDurability,
    /// Frequency of commits, as a weight among the steps of callers (ten each).
    pub commit_weight: u32,
    /// Frequency of keeper turns, as a weight.
    pub keep_weight: u32,
    /// Maximum clock advance per step.
    pub pace: Span,
}

/// When a write counts as durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreDurability {
    /// When it is synced.
    Always,
    /// When it is written; synced at intervals. A power cut may lose the newest writes.
    Interval,
    /// When it is written; never synced.
    None,
}

impl SimConfig {
    /// The configuration of a seed, in the newest generation.
    pub fn draw(seed: u64) -> Self {
        Self::draw_as(seed, Generation::default())
    }

    /// The configuration of a seed in a generation.
    pub fn draw_as(seed: u64, generation: Generation) -> Self {
        // A separate stream, so that a new field here leaves the run's own numbers unchanged.
        let mut rng = SimRng::new(seed ^ 0x00c0_ffee);
        let rng = &mut rng;
        let steps = rng.between(120, 320) as u32;
        let mut config = Self {
            seed,
            generation,
            steps,
            last_step: steps,
            skip: BTreeSet::new(),
            callers: CallerCounts::draw(rng),
            jobs: JobFeatures::draw(rng),
            admin: AdminFeatures::draw(rng),
            store: StoreSetup::draw(rng),
            faults: FaultOdds::draw(rng),
        };
        // Also a separate stream, so that everything drawn before keeps its numbers.
        config.admin.programs = half(&mut SimRng::new(seed ^ 0x00fa_cade));
        if generation != Generation::First {
            config.faults.draw_second_generation(&mut SimRng::new(seed ^ 0x0bad_cafe));
            config.jobs.versions = SimRng::new(seed ^ 0x0ddb_a115).one_in(3);
        }
        if matches!(generation, Generation::Third | Generation::Fourth) {
            config.jobs.deadlines = SimRng::new(seed ^ 0x0dea_d11e).one_in(3);
        }
        if generation == Generation::Fourth {
            config.jobs.events = SimRng::new(seed ^ 0x0000_ca11).one_in(3);
        }
        if config.store.durability != StoreDurability::Always {
            config.faults = config.faults.without_power_cuts();
        }
        config
    }

    /// The runs of stored seeds, which failed once. A line is `GENERATION/SEED` and a description; lines that
    /// begin with `#` are comments.
    ///
    /// # Panics
    /// At any other line.
    pub fn parse_seeds(text: &str) -> Vec<Self> {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let read = |line: &str| {
            let (generation, seed) = line.split_whitespace().next()?.split_once('/')?;
            let generation = Generation::of(generation.parse().ok()?)?;
            Some(Self::draw_as(seed.parse().ok()?, generation))
        };
        lines.map(|line| read(line).unwrap_or_else(|| panic!("invalid seed `{line}`"))).collect()
    }

    /// The features and faults of the run, as text.
    pub fn summary(&self) -> String {
        let CallerCounts { pushers, workers, admins, upkeepers: keepers, depth, .. } = self.callers;
        let mut parts = vec![format!(
            "{pushers} pushers, {workers} workers, {admins} admins, {keepers} keepers"
        )];
        let jobs = &self.jobs;
        let features = [
            ("several at once per caller", depth > 1),
            ("priorities", jobs.priorities),
            ("delays", jobs.delays),
            ("deadlines", jobs.deadlines),
            ("events", jobs.events),
            ("jobs without a lease", jobs.fire_and_forget),
            ("unique keys", jobs.keys.is_some()),
            ("groups", jobs.groups),
            ("dependencies", jobs.dependencies),
            ("limits", jobs.limits),
            ("follow-ups", jobs.follow_ups),
            ("results", jobs.results),
            ("reports of any delivery", jobs.unfenced),
            ("jobs removed when done", jobs.removed_when_done),
        ];
        parts.extend(features.into_iter().filter(|(_, on)| *on).map(|(name, _)| name.to_owned()));
        let faults = self.faults.odds().into_iter().filter(|(_, odds)| *odds > 0);
        parts.extend(faults.map(|(fault, odds)| format!("{fault:?} {odds}‰")));
        parts.push(format!(
            "{} attempts, leases of {:?}, {:?}",
            jobs.attempts, jobs.lease, self.store
        ));
        parts.join("; ")
    }

    /// Whether the clock always advances with elapsed time.
    pub const fn has_steady_clock(&self) -> bool {
        self.faults.clock_back == 0 && self.faults.clock_still == 0
    }
}

/// A feature that half of all runs have.
pub(super) fn half(rng: &mut SimRng) -> bool {
    rng.one_in(2)
}

impl CallerCounts {
    fn draw(rng: &mut SimRng) -> Self {
        Self {
            pushers: rng.between(1, 3) as u32,
            workers: rng.between(1, 4) as u32,
            admins: rng.between(0, 2) as u32,
            upkeepers: rng.between(1, 2) as u32,
            depth: rng.between(1, 4) as u32,
            max_claim: rng.choose([1, 2, 4, 16]),
            push_percent: rng.choose([100, 60, 30]),
        }
    }
}

impl JobFeatures {
    fn draw(rng: &mut SimRng) -> Self {
        Self {
            queues: rng.between(1, 3),
            kinds: rng.between(1, 2),
            max_batch: rng.choose([1, 2, 5, 12]),
            max_payload: rng.choose([0, 100, 1000, 4096]),
            priorities: half(rng),
            delays: half(rng),
            deadlines: false,
            events: false,
            attempts: rng.choose([1, 2, 3, 20]),
            lease: rng.choose([
                Span::from_millis(50),
                SECOND,
                SECOND.times(30),
                SECOND.times(3600),
            ]),
            fire_and_forget: rng.one_in(4),
            keys: half(rng).then(|| rng.between(1, 4)),
            groups: rng.one_in(3),
            dependencies: rng.one_in(3),
            limits: rng.one_in(3),
            follow_ups: rng.one_in(3),
            results: half(rng),
            unfenced: rng.one_in(4),
            removed_when_done: rng.one_in(3),
            versions: false,
        }
    }
}

impl AdminFeatures {
    fn draw(rng: &mut SimRng) -> Self {
        Self {
            cancel: half(rng),
            retry: half(rng),
            delete: half(rng),
            edit: half(rng),
            settings: rng.one_in(3),
            schedules: rng.one_in(3),
            notes: rng.one_in(4),
            programs: false,
        }
    }
}

impl StoreSetup {
    fn draw(rng: &mut SimRng) -> Self {
        let durability = match rng.below(10) {
            0 => StoreDurability::Interval,
            1 => StoreDurability::None,
            _ => StoreDurability::Always,
        };
        Self {
            segment_bytes: 4096 << rng.choose([0, 0, 0, 0, 1, 1, 2, 3, 4, 6]),
            durability,
            commit_weight: rng.choose([2, 10, 30, 100]),
            keep_weight: rng.choose([2, 5, 10, 30]),
            pace: rng.choose([Span::from_millis(5), Span::from_millis(200), SECOND.times(20)]),
        }
    }
}
