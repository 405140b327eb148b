//! The whole engine in the simulator: the callers that try the stores speak to an engine, on a
//! simulated clock and disk, through crashes; and the checker judges what they were told.

#[cfg(feature = "bug-drill")]
mod bugs;
mod subject;

use std::ops::Range;
use std::time::Duration;

use crore_conformance::simulation::{
    Config, Coverage, Generation, Sometimes, Sweep, first_failing_seed, run_fresh_seeds, run_twice,
    run_twice_as,
};

use subject::{Lie, OnEngine};

const MINUTE: Duration = Duration::from_secs(60);

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
    let seeds = seed(first)..seed(end);
    let n = seeds.end - seeds.start;
    let mut sweep = Sweep::over(seeds);
    if std::env::var("CRORE_SIM_GENERATION").is_ok_and(|generation| generation == "1") {
        sweep.generation = Generation::First;
    }
    sweep.twice_every = if n == 1 { 1 } else { sweep.twice_every };
    let swept = sweep.run(|| OnEngine::new(Lie::Nothing), || false);
    println!("{}", swept.coverage);
    if std::env::var_os("CRORE_SIM_TABLE").is_some() {
        println!("{}", swept.coverage.table());
    }
    if let Some(file) = std::env::var_os("CRORE_SIM_JSON") {
        std::fs::write(file, swept.to_json().to_string()).expect("the file can be written");
    }
    swept.assert_well();
    assert_eq!(swept.coverage.runs, n, "every seed was run");
}

/// A seed that failed once is run for ever.
#[test]
fn seeds_that_failed_once_do_not_fail_again() {
    for config in Config::kept(include_str!("seeds.txt")) {
        if let Err(failure) = run_twice_as(&config, || OnEngine::new(Lie::Nothing)) {
            panic!("{failure}");
        }
    }
}

/// A minute of seeds that nobody has seen.
#[test]
fn fresh_seeds_keep_every_promise() {
    run_fresh_seeds(MINUTE, || OnEngine::new(Lie::Nothing));
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
