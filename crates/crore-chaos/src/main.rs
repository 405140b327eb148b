//! `crore-chaos`: harms a real server for as long as one likes.
#![forbid(unsafe_code)]

mod cli;

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use crore_chaos::{
    Crowd, Failed, Harm, Tally, crowd, drill, fresh_seed, judge, run, server_with_bugs,
};
use crore_testkit::history::{History, Rules};
use crore_testkit::{Dice, server_binary};
use crore_wire::words::Period;

use crate::cli::{Cli, Coming, Options, What};

/// So many rounds are judged together: enough for jobs to live through many, few enough to be held in
/// memory.
const TOGETHER: u32 = 50;
/// The same where harms take turns.
const EACH: u32 = 12;

fn main() -> ExitCode {
    let done = match Cli::parse().what {
        What::Harm(wanted) => {
            let (harms, options) = wanted.harms();
            match options.plan_seed {
                Some(seed) => repeat(&harms, seed, &options),
                None => harm(&harms, &options),
            }
        }
        What::Crowd(coming) => come_and_go(coming),
        What::Drill { seed } => find_bugs(seed),
        What::Check { history } => check(&history),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// The seed that was given, or a fresh one; it is printed, as nobody else knows it.
fn seed(given: Option<u64>) -> Result<u64, String> {
    let seed = given.map_or_else(fresh_seed, Ok)?;
    println!("seed {seed}");
    Ok(seed)
}

/// Runs one plan.
fn repeat(harms: &[Harm], seed: u64, options: &Options) -> Result<(), String> {
    let [harm] = harms else {
        return Err("`--plan-seed` runs one plan: name one harm".to_owned());
    };
    let rounds = options.rounds.unwrap_or(cli::ROUNDS);
    let tally = run(&options.plan(*harm, rounds, seed)?).map_err(|failed| failed.to_string())?;
    println!("{tally}");
    Ok(())
}

/// Runs by turns until it is enough.
fn harm(harms: &[Harm], options: &Options) -> Result<(), String> {
    let until = Until::new(options);
    let together = if harms.len() > 1 { EACH } else { TOGETHER };
    let (mut sum, mut dice, mut skipped) = (Tally::default(), Dice(seed(options.seed)?), 0_u64);
    for harm in harms.iter().cycle() {
        let rounds = until.more(sum.rounds + skipped).min(together);
        if rounds == 0 {
            break;
        }
        match run(&options.plan(*harm, rounds, dice.roll())?) {
            Ok(tally) => {
                sum += tally;
                println!(
                    "{harm:<10} {:>6} rounds in {:>4} s: {} jobs, {} deliveries, nothing lost",
                    sum.rounds,
                    until.start.elapsed().as_secs(),
                    tally.acknowledged,
                    tally.deliveries,
                );
            }
            Err(Failed::Here(error)) => {
                skipped += u64::from(rounds);
                println!("{harm:<10} SKIPPED, {rounds} rounds: {error}");
            }
            Err(Failed::Broken(broken)) => return Err(broken.to_string()),
        }
    }
    println!("{sum}");
    match skipped {
        0 => Ok(()),
        n if n >= until.rounds => Err("nothing could be tried here".to_owned()),
        n => {
            println!("{n} rounds were skipped");
            Ok(())
        }
    }
}

/// Shows that each planted mistake is caught.
fn find_bugs(given: Option<u64>) -> Result<(), String> {
    let server = server_with_bugs()?;
    drill(&server, seed(given)?, |line| println!("{line}"))
}

/// Lets a crowd come and go.
fn come_and_go(coming: Coming) -> Result<(), String> {
    let Coming { workers, time: Period(time), seed: given, server, keep } = coming;
    let (server, seed) = (server.map_or_else(server_binary, Ok)?, seed(given)?);
    let tally = crowd(&Crowd { workers, time: time.into(), seed, server, keep });
    println!("{}", tally.map_err(|failed| failed.to_string())?);
    Ok(())
}

/// When it is enough.
struct Until {
    start: Instant,
    rounds: u64,
    time: Option<Duration>,
}

impl Until {
    #[expect(clippy::disallowed_methods, reason = "a tool that runs for hours needs real time")]
    fn new(options: &Options) -> Self {
        let time = options.time.map(|Period(span)| Duration::from(span));
        let rounds = options.rounds.unwrap_or(cli::ROUNDS);
        let rounds = if time.is_some() { u64::MAX } else { u64::from(rounds) };
        Self { start: Instant::now(), rounds, time }
    }

    /// How many rounds are next.
    fn more(&self, done: u64) -> u32 {
        if self.time.is_some_and(|time| self.start.elapsed() >= time) {
            return 0;
        }
        u32::try_from(self.rounds - done).unwrap_or(u32::MAX)
    }
}

fn check(path: &Path) -> Result<(), String> {
    let history = History::load(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let rules = Rules { tolerance: crore_core::Span::from_millis(20), ..Rules::default() };
    let tally = judge(&history, &rules).map_err(|broken| broken.to_string())?;
    println!("{tally}");
    Ok(())
}
