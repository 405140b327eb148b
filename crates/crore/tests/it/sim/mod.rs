//! The whole engine in the simulator: the callers that try the stores speak to an engine, on a
//! simulated clock and disk, through crashes; and the checker judges what they were told.

mod desk;
mod ear;
mod front;
mod scribe;

use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use crore::{Engine, Options};
use crore_core::{Clock, Span};
use crore_store::Error;
use crore_store::embedded::disk::Disk;
use crore_store::simulation::{
    Config, Coverage, Generation, OnLog, Running, Sometimes, Subject, Sweep, first_failing_seed,
    run_twice,
};
use crore_testkit::history::Recorder;

use desk::Desk;
use ear::Ear;
use front::Engaged;
use scribe::Scribe;

/// What is said to be so, and is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lie {
    /// Nothing.
    Nothing,
    /// That what is answered is durable.
    AnswersAreDurable,
    /// That any delivery's report is the current one's.
    AnyDeliveryCounts,
    /// That leases are extended.
    RenewalsAreIgnored,
    /// That there is nothing new.
    NobodyIsWoken,
    /// That nothing has happened, now and then.
    EventsAreLost,
    /// That something has happened which is not durable, now and then.
    EventsComeEarly,
}

/// An engine on the embedded store, without threads.
#[derive(Debug)]
struct OnEngine {
    lie: Lie,
    recorder: Option<Arc<Recorder>>,
    ticked: Arc<AtomicU64>,
    /// How many engines there were.
    opened: u64,
}

impl OnEngine {
    fn new(lie: Lie) -> Self {
        Self { lie, recorder: None, ticked: Arc::default(), opened: 0 }
    }

    fn options(&mut self, config: &Config) -> Options {
        let mut options = Options::default();
        // Leases that end within a run are what it is about.
        options.caps.min_lease = Span::from_millis(1);
        options.seed = Some(config.seed ^ self.opened);
        self.opened += 1;
        options
    }
}

impl Subject for OnEngine {
    fn open(
        &mut self,
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        config: &Config,
    ) -> Result<Running, Error> {
        let mut store_config = config.clone();
        if self.lie == Lie::AnswersAreDurable {
            store_config.store.durability = crore_store::simulation::Durability::None;
        }
        let mut running = OnLog.open(disk, Arc::clone(&clock), &store_config)?;
        let recorder = self.recorder.clone().expect("told before anything is opened");
        let (store, ticked) = (Arc::clone(&running.store), Arc::clone(&self.ticked));
        let (ear, lie) = (Arc::<Ear>::default(), self.lie);
        let desk = Desk::new(Arc::clone(&recorder));
        let scribe = Scribe {
            store,
            recorder,
            ticked,
            ear: Arc::clone(&ear),
            desk: Arc::clone(&desk),
            known: Mutex::default(),
            lie,
        };
        let options = self.options(config);
        let engine = Engine::over(Arc::new(scribe), Arc::clone(&clock), options);
        let engine = engine.map_err(front::plain)?;
        ear.listen(engine.listen());
        running.front = Some(Arc::new(Engaged { engine, clock, ear, desk, lie }));
        Ok(running)
    }

    fn survives(&self) -> bool {
        true
    }

    fn has_front(&self) -> bool {
        true
    }

    fn again(&self) -> &'static str {
        "cargo xtask sim --engine"
    }

    fn write_into(&mut self, recorder: &Arc<Recorder>) {
        self.recorder = Some(Arc::clone(recorder));
    }
}

/// Runs seeds, each twice, to see that nothing but the seed has a say; the first that fails ends it.
fn all_well(seeds: impl IntoIterator<Item = u64>) -> Coverage {
    let mut coverage = Coverage::default();
    for seed in seeds {
        match run_twice(seed, || OnEngine::new(Lie::Nothing)) {
            Ok(report) => coverage.add(&report.coverage),
            Err(failure) => panic!("{failure}"),
        }
    }
    println!("{coverage}");
    coverage
}

/// What the callers cannot see of an engine: it decides anew by itself, and does not say in which
/// state a job was when a report came.
const UNSEEN: [Sometimes; 3] =
    [Sometimes::DecidedAnew, Sometimes::LapsedBeforeItsReport, Sometimes::ReportedAfterCancel];

/// The engine keeps every promise, and the moments in which queues go wrong were met.
fn the_engine_is_well(seeds: Range<u64>) {
    let coverage = all_well(seeds);
    let never = coverage.never(&Sometimes::ALL);
    let never: Vec<_> = never.into_iter().filter(|what| !UNSEEN.contains(what)).collect();
    assert_eq!(never, [], "moments that were never met");
}

/// Six thousand seeds, in parts that run side by side.
macro_rules! the_engine_keeps_every_promise {
    ($($part:ident: $seeds:expr,)+) => {
        mod the_engine_keeps_every_promise {$(
            #[test]
            fn $part() {
                super::the_engine_is_well($seeds);
            }
        )+}
    };
}

the_engine_keeps_every_promise! {
    part_1: 0..1000,
    part_2: 1000..2000,
    part_3: 2000..3000,
    part_4: 3000..4000,
    part_5: 4000..5000,
    part_6: 5000..6000,
}

/// `cargo xtask sim --engine`: the seeds that the environment names, as `first..end`, on all cores.
#[test]
#[expect(clippy::disallowed_methods, reason = "a tool says in the environment what it wants")]
#[ignore = "runs the seeds in `CRORE_SIM_SEEDS`, for `cargo xtask sim --engine`"]
fn the_seeds_that_were_asked_for() {
    let asked = std::env::var("CRORE_SIM_SEEDS").expect("`CRORE_SIM_SEEDS` is `first..end`");
    let (first, end) = asked.split_once("..").expect("`first..end`");
    let seed = |text: &str| text.parse::<u64>().expect("a seed");
    let mut sweep = Sweep::over(seed(first)..seed(end));
    if std::env::var("CRORE_SIM_GENERATION").is_ok_and(|generation| generation == "1") {
        sweep.generation = Generation::First;
    }
    if sweep.seeds.end - sweep.seeds.start == 1 {
        sweep.twice_every = 1;
    }
    let swept = sweep.run(|| OnEngine::new(Lie::Nothing), || false);
    println!("{}", swept.coverage);
    if std::env::var_os("CRORE_SIM_TABLE").is_some() {
        println!("{}", swept.coverage.table());
    }
    if let Some(file) = std::env::var_os("CRORE_SIM_JSON") {
        std::fs::write(file, swept.to_json().to_string()).expect("the file can be written");
    }
    let failing: Vec<_> = swept.failures.iter().map(|failure| &failure.again).collect();
    assert!(failing.is_empty(), "{} seeds fail: {failing:#?}", failing.len());
    assert_eq!(swept.coverage.runs, seed(end) - seed(first));
}

/// What failed once is run for ever. A line is a seed, and what it once found.
#[test]
fn seeds_that_failed_once_do_not_fail_again() {
    let lines = include_str!("seeds.txt").lines();
    let words = lines.filter_map(|line| line.split_whitespace().next());
    let seeds = words.filter(|word| *word != "#");
    all_well(seeds.map(|seed| seed.parse().expect("a seed")));
}

#[test]
fn every_lie_is_found() {
    for lie in [
        Lie::AnswersAreDurable,
        Lie::AnyDeliveryCounts,
        Lie::RenewalsAreIgnored,
        Lie::NobodyIsWoken,
        Lie::EventsAreLost,
        Lie::EventsComeEarly,
    ] {
        let found = first_failing_seed(0..150, || OnEngine::new(lie));
        let (seed, failure) = found.unwrap_or_else(|| panic!("{lie:?} is never found"));
        println!("{lie:?}: seed {seed}: {:?}", failure.violations.first());
    }
}
