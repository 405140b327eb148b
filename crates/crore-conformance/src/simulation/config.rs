//! What a run is like: drawn from its seed before anything else, so that features and faults are
//! now and then all off, all on, and in every mixture. A fixed mixture would find less.

use std::collections::BTreeSet;

use crore_core::Span;

use super::dice::Dice;
use super::odds::Faults;

const SECOND: Span = Span::from_secs(1);

/// The configuration of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The seed that all of this, and the run itself, follows from.
    pub seed: u64,
    /// How the run's numbers follow from its seed.
    pub generation: Generation,
    /// How many steps are made before the faults are healed.
    pub steps: u32,
    /// The last step that is made; all of them, unless the run is shrunk.
    pub last_step: u32,
    /// Steps that are left out, by which a failing run is shrunk.
    pub skip: BTreeSet<u32>,
    /// How many callers of each sort there are.
    pub callers: Callers,
    /// What the pushed jobs are like.
    pub jobs: Jobs,
    /// What people do by hand.
    pub hands: Hands,
    /// How the store is set up and driven.
    pub store: Setup,
    /// What goes wrong, and how often.
    pub faults: Faults,
}

/// How the numbers of a run follow from its seed. A seed that failed once is kept with its generation,
/// so that it goes on to mean the same run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Generation {
    /// One stream of numbers from the first step to the last. Without the faults that were added later.
    First,
    /// A stream of numbers for each step and purpose, so that a step that is left out changes no number
    /// of another.
    #[default]
    Second,
}

/// How many callers of each sort there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Callers {
    /// Those that push.
    pub pushers: u32,
    /// Those that claim and report.
    pub workers: u32,
    /// Those that look, cancel, retry, delete, edit and define.
    pub admins: u32,
    /// Those that promote, rescue and prune.
    pub keepers: u32,
    /// How many operations one caller may have under way.
    pub depth: u32,
    /// How many jobs one claim asks for.
    pub max_claim: u64,
    /// After so many percent of the steps nobody pushes any more, until the last tenth: what is there
    /// is worked off, and the log forgets it.
    pub rush: u32,
}

/// What the pushed jobs are like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Jobs {
    /// How many queues there are.
    pub queues: u64,
    /// How many kinds there are.
    pub kinds: u64,
    /// Jobs in one batch.
    pub max_batch: u64,
    /// Bytes of a payload, and of a result.
    pub max_payload: u64,
    /// Whether priorities differ.
    pub priorities: bool,
    /// Whether jobs are due later.
    pub delays: bool,
    /// How many attempts a job has.
    pub attempts: u32,
    /// How long leases are.
    pub lease: Span,
    /// Whether some jobs have no lease: done when handed over.
    pub fire_and_forget: bool,
    /// Whether jobs have unique keys, and out of how many.
    pub keys: Option<u64>,
    /// Whether there are groups.
    pub groups: bool,
    /// Whether jobs wait for others.
    pub waits: bool,
    /// Whether jobs count against limits.
    pub limits: bool,
    /// Whether finishing jobs push others.
    pub follow_ups: bool,
    /// Whether results are kept.
    pub results: bool,
    /// Whether any delivery of some jobs may report.
    pub unfenced: bool,
    /// Whether some jobs are removed as soon as they are done.
    pub vanish: bool,
}

/// What people do by hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hands {
    /// Cancel.
    pub cancel: bool,
    /// Retry.
    pub retry: bool,
    /// Delete.
    pub delete: bool,
    /// Move to another queue, priority or time.
    pub edit: bool,
    /// Pause queues, and say how long ended jobs are kept.
    pub settings: bool,
    /// Define schedules, and fire their ticks.
    pub schedules: bool,
    /// Keep notes and statistics.
    pub notes: bool,
    /// Pop, run workers, and act on all jobs that match; only where callers speak to a front.
    pub programs: bool,
}

/// How the store is set up and driven.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// The size of a segment.
    pub segment_bytes: u64,
    /// When a write counts as durable.
    pub durability: Durability,
    /// How often a commit is made, as a weight among the steps of callers (ten each).
    pub commit_weight: u32,
    /// How often the keeper tidies up, as a weight.
    pub keep_weight: u32,
    /// How far the clock moves at most in one step.
    pub pace: Span,
}

/// When a write counts as durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// When it is synced.
    Always,
    /// When it is written; synced now and then. A power cut may take the last of it.
    Interval,
    /// When it is written; never synced.
    None,
}

impl Config {
    /// The configuration that follows from a seed, in the newest generation.
    pub fn draw(seed: u64) -> Self {
        Self::draw_as(seed, Generation::default())
    }

    /// The configuration that follows from a seed in a generation.
    pub fn draw_as(seed: u64, generation: Generation) -> Self {
        // Apart from the run's own numbers, so that a new field here leaves those as they were.
        let mut dice = Dice::new(seed ^ 0x00c0_ffee);
        let dice = &mut dice;
        let steps = dice.from(120, 320) as u32;
        let mut config = Self {
            seed,
            generation,
            steps,
            last_step: steps,
            skip: BTreeSet::new(),
            callers: Callers::draw(dice),
            jobs: Jobs::draw(dice),
            hands: Hands::draw(dice),
            store: Setup::draw(dice),
            faults: Faults::draw(dice),
        };
        // Drawn apart as well: what was drawn before this was there is drawn again.
        config.hands.programs = half(&mut Dice::new(seed ^ 0x00fa_cade));
        if generation != Generation::First {
            config.faults.draw_later(&mut Dice::new(seed ^ 0x0bad_cafe));
        }
        if config.store.durability != Durability::Always {
            config.faults = config.faults.without_power_cuts();
        }
        config
    }

    /// The runs of seeds that are kept because they failed once. A line is `GENERATION/SEED` and what it
    /// found; one that begins with `#` says something to the reader.
    ///
    /// # Panics
    /// At a line that is neither.
    pub fn kept(text: &str) -> Vec<Self> {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let read = |line: &str| {
            let (generation, seed) = line.split_whitespace().next()?.split_once('/')?;
            let generation = match generation {
                "1" => Generation::First,
                "2" => Generation::Second,
                _ => return None,
            };
            Some(Self::draw_as(seed.parse().ok()?, generation))
        };
        lines.map(|line| read(line).unwrap_or_else(|| panic!("`{line}` names no seed"))).collect()
    }

    /// The features and faults of the run, in a few words.
    pub fn summary(&self) -> String {
        let Callers { pushers, workers, admins, keepers, depth, .. } = self.callers;
        let mut parts = vec![format!(
            "{pushers} pushers, {workers} workers, {admins} admins, {keepers} keepers"
        )];
        let jobs = &self.jobs;
        let features = [
            ("several at once per caller", depth > 1),
            ("priorities", jobs.priorities),
            ("delays", jobs.delays),
            ("jobs without a lease", jobs.fire_and_forget),
            ("unique keys", jobs.keys.is_some()),
            ("groups", jobs.groups),
            ("dependencies", jobs.waits),
            ("limits", jobs.limits),
            ("follow-ups", jobs.follow_ups),
            ("results", jobs.results),
            ("reports of any delivery", jobs.unfenced),
            ("jobs removed when done", jobs.vanish),
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

    /// Whether the clock always shows how much time has passed.
    pub const fn has_steady_clock(&self) -> bool {
        self.faults.clock_back == 0 && self.faults.clock_still == 0
    }
}

/// A feature that half of all runs have.
pub(super) fn half(dice: &mut Dice) -> bool {
    dice.one_in(2)
}

impl Callers {
    fn draw(dice: &mut Dice) -> Self {
        Self {
            pushers: dice.from(1, 3) as u32,
            workers: dice.from(1, 4) as u32,
            admins: dice.from(0, 2) as u32,
            keepers: dice.from(1, 2) as u32,
            depth: dice.from(1, 4) as u32,
            max_claim: dice.choose([1, 2, 4, 16]),
            rush: dice.choose([100, 60, 30]),
        }
    }
}

impl Jobs {
    fn draw(dice: &mut Dice) -> Self {
        Self {
            queues: dice.from(1, 3),
            kinds: dice.from(1, 2),
            max_batch: dice.choose([1, 2, 5, 12]),
            max_payload: dice.choose([0, 100, 1000, 4096]),
            priorities: half(dice),
            delays: half(dice),
            attempts: dice.choose([1, 2, 3, 20]),
            lease: dice.choose([
                Span::from_millis(50),
                SECOND,
                SECOND.times(30),
                SECOND.times(3600),
            ]),
            fire_and_forget: dice.one_in(4),
            keys: half(dice).then(|| dice.from(1, 4)),
            groups: dice.one_in(3),
            waits: dice.one_in(3),
            limits: dice.one_in(3),
            follow_ups: dice.one_in(3),
            results: half(dice),
            unfenced: dice.one_in(4),
            vanish: dice.one_in(3),
        }
    }
}

impl Hands {
    fn draw(dice: &mut Dice) -> Self {
        Self {
            cancel: half(dice),
            retry: half(dice),
            delete: half(dice),
            edit: half(dice),
            settings: dice.one_in(3),
            schedules: dice.one_in(3),
            notes: dice.one_in(4),
            programs: false,
        }
    }
}

impl Setup {
    fn draw(dice: &mut Dice) -> Self {
        let durability = match dice.below(10) {
            0 => Durability::Interval,
            1 => Durability::None,
            _ => Durability::Always,
        };
        Self {
            segment_bytes: 4096 << dice.choose([0, 0, 0, 0, 1, 1, 2, 3, 4, 6]),
            durability,
            commit_weight: dice.choose([2, 10, 30, 100]),
            keep_weight: dice.choose([2, 5, 10, 30]),
            pace: dice.choose([Span::from_millis(5), Span::from_millis(200), SECOND.times(20)]),
        }
    }
}
