//! `crore-chaos`: fault injection tests for a crore server.
#![forbid(unsafe_code)]

mod cli;

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use crore_chaos::{
    ChaosError, ChaosFault, ChaosTally, CrowdPlan, drill, fresh_seed, judge, run, run_crowd,
    server_with_bugs,
};
use crore_testkit::history::{CheckRules, History};
use crore_testkit::{SeededRng, server_binary};
use crore_wire::units::Period;

use crate::cli::{ChaosCli, ChaosCommand, CrowdOptions, FaultOptions};

/// Rounds per run, for a single fault: enough for jobs to live through many, few enough to keep the history in memory.
const ROUNDS_PER_RUN: u32 = 50;
/// Rounds per run where several faults take turns.
const ROUNDS_PER_TURN: u32 = 12;

fn main() -> ExitCode {
    let result = match ChaosCli::parse().command {
        ChaosCommand::Fault(command) => {
            let (faults, options) = command.faults();
            match options.plan_seed {
                Some(seed) => run_plan(&faults, seed, &options),
                None => run_faults(&faults, &options),
            }
        }
        ChaosCommand::Crowd(options) => run_crowd_plan(options),
        ChaosCommand::Drill { seed } => run_drill(seed),
        ChaosCommand::Check { history } => check(&history),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the given seed or a fresh one, and prints it, so that the run can be repeated.
fn seed(given: Option<u64>) -> Result<u64, String> {
    let seed = given.map_or_else(fresh_seed, Ok)?;
    println!("seed {seed}");
    Ok(seed)
}

/// Runs one plan.
fn run_plan(faults: &[ChaosFault], seed: u64, options: &FaultOptions) -> Result<(), String> {
    let [fault] = faults else {
        return Err("`--plan-seed` runs one plan: name one fault".to_owned());
    };
    let rounds = options.rounds.unwrap_or(cli::DEFAULT_ROUNDS);
    let tally = run(&options.plan(*fault, rounds, seed)?).map_err(|failed| failed.to_string())?;
    println!("{tally}");
    Ok(())
}

/// Runs the faults in turn until the round or time limit is reached.
fn run_faults(faults: &[ChaosFault], options: &FaultOptions) -> Result<(), String> {
    let until = RunLimit::new(options);
    let max_rounds = if faults.len() > 1 { ROUNDS_PER_TURN } else { ROUNDS_PER_RUN };
    let (mut sum, mut rng, mut skipped) =
        (ChaosTally::default(), SeededRng(seed(options.seed)?), 0_u64);
    for fault in faults.iter().cycle() {
        let rounds = until.rounds_left(sum.rounds + skipped).min(max_rounds);
        if rounds == 0 {
            break;
        }
        match run(&options.plan(*fault, rounds, rng.next_u64())?) {
            Ok(tally) => {
                sum += tally;
                println!(
                    "{fault:<10} {:>6} rounds in {:>4} s: {} jobs, {} deliveries, nothing lost",
                    sum.rounds,
                    until.start.elapsed().as_secs(),
                    tally.acknowledged,
                    tally.deliveries,
                );
            }
            Err(ChaosError::CannotRun(error)) => {
                skipped += u64::from(rounds);
                println!("{fault:<10} SKIPPED, {rounds} rounds: {error}");
            }
            Err(ChaosError::Broken(broken)) => return Err(broken.to_string()),
        }
    }
    println!("{sum}");
    match skipped {
        0 => Ok(()),
        n if n >= until.rounds => Err("every round was skipped".to_owned()),
        n => {
            println!("{n} rounds were skipped");
            Ok(())
        }
    }
}

/// Checks that each planted bug is found.
fn run_drill(given: Option<u64>) -> Result<(), String> {
    let server = server_with_bugs()?;
    drill(&server, seed(given)?, |line| println!("{line}"))
}

fn run_crowd_plan(options: CrowdOptions) -> Result<(), String> {
    let CrowdOptions { workers, time: Period(time), seed: given, server, keep } = options;
    let (server, seed) = (server.map_or_else(server_binary, Ok)?, seed(given)?);
    let tally = run_crowd(&CrowdPlan { workers, time: time.into(), seed, server, keep });
    println!("{}", tally.map_err(|failed| failed.to_string())?);
    Ok(())
}

/// The limit of rounds or time.
struct RunLimit {
    start: Instant,
    rounds: u64,
    time: Option<Duration>,
}

impl RunLimit {
    #[expect(clippy::disallowed_methods, reason = "a tool that runs for hours needs real time")]
    fn new(options: &FaultOptions) -> Self {
        let time = options.time.map(|Period(span)| Duration::from(span));
        let rounds = options.rounds.unwrap_or(cli::DEFAULT_ROUNDS);
        let rounds = if time.is_some() { u64::MAX } else { u64::from(rounds) };
        Self { start: Instant::now(), rounds, time }
    }

    /// Rounds that are left; 0 once the time is up.
    fn rounds_left(&self, done: u64) -> u32 {
        if self.time.is_some_and(|time| self.start.elapsed() >= time) {
            return 0;
        }
        u32::try_from(self.rounds - done).unwrap_or(u32::MAX)
    }
}

fn check(path: &Path) -> Result<(), String> {
    let history = History::load(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let rules =
        CheckRules { tolerance: crore_core::Span::from_millis(20), ..CheckRules::default() };
    let tally = judge(&history, &rules).map_err(|broken| broken.to_string())?;
    println!("{tally}");
    Ok(())
}
