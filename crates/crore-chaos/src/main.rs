//! `crore-chaos`: harms a real server for as long as one likes.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, Parser, Subcommand};
use crore_chaos::{Crowd, Failed, Harm, Plan, Tally, binary, crowd, judge, run};
use crore_testkit::Dice;
use crore_testkit::history::{History, Rules};
use crore_wire::words::Period;

/// So many rounds are judged together: enough for jobs to live through many, few enough to be held in
/// memory.
const TOGETHER: u32 = 50;
/// The same where harms take turns.
const EACH: u32 = 12;

/// Harms a real crore server while many use it, and holds what they were told to the promises.
///
/// For developers of crore. Power cuts and full disks need root.
#[derive(Debug, Parser)]
#[command(name = "crore-chaos", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Kill the server with -9
    Kill(Options),
    /// Stop the server for longer than leases last, let it go on, and kill it
    Stop(Options),
    /// Tell the server to stop, and let it drain
    Drain(Options),
    /// Cut the power of its disk, XFS or ext4 by turns: what was not synced is gone
    Power(Options),
    /// Start it on a full disk, make room again, and kill it in both states
    Full(Options),
    /// Fill its disk while it runs, as others do, make room again, and kill it in both states
    Fill(Options),
    /// Make its clock jump, for it alone, and kill it
    Clock(Options),
    /// All of these, by turns
    All(Options),
    /// Let many workers with streams come and go, and do nothing to the server
    Crowd(Coming),
    /// Judge a history that was kept
    Check {
        /// The file: JSON lines
        history: PathBuf,
    },
}

#[derive(Debug, Args)]
struct Options {
    /// How many servers are started and harmed [default: 100]
    #[arg(long, conflicts_with = "time")]
    rounds: Option<u32>,
    /// For how long instead, as 90s or 2h
    #[arg(long = "for", value_name = "SPAN")]
    time: Option<Period>,
    /// Where chance comes from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The server's binary; the one that was built with this program, unless told otherwise
    #[arg(long, value_name = "PATH")]
    server: Option<PathBuf>,
    /// A key of the server's configuration; `store.durability=none` has to be found out
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Keep the data of a run that fails, with its history
    #[arg(long)]
    keep: bool,
}

#[derive(Debug, Args)]
struct Coming {
    /// How many workers
    #[arg(long, default_value_t = 100)]
    workers: usize,
    /// For how long
    #[arg(long = "for", value_name = "SPAN", default_value = "60s")]
    time: Period,
    /// Where chance comes from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The server's binary; the one that was built with this program, unless told otherwise
    #[arg(long, value_name = "PATH")]
    server: Option<PathBuf>,
    /// Keep the data of a run that fails, with its history
    #[arg(long)]
    keep: bool,
}

fn main() -> ExitCode {
    let done = match Cli::parse().what {
        What::Kill(options) => harm(&[Harm::Kill], &options),
        What::Stop(options) => harm(&[Harm::Stop], &options),
        What::Drain(options) => harm(&[Harm::Drain], &options),
        What::Power(options) => harm(&[Harm::Power, Harm::PowerExt4], &options),
        What::Full(options) => harm(&[Harm::Full], &options),
        What::Fill(options) => harm(&[Harm::Fill], &options),
        What::Clock(options) => harm(&[Harm::Clock], &options),
        What::All(options) => harm(&Harm::ALL.map(|(_, harm)| harm), &options),
        What::Crowd(coming) => come_and_go(coming),
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

/// Runs by turns until it is enough.
fn harm(harms: &[Harm], options: &Options) -> Result<(), String> {
    let server = match &options.server {
        Some(server) => server.clone(),
        None => binary::built()?,
    };
    let until = Until::new(options);
    let together = if harms.len() > 1 { EACH } else { TOGETHER };
    let (mut sum, mut dice, mut skipped) = (Tally::default(), Dice(options.seed), 0_u64);
    for harm in harms.iter().cycle() {
        let rounds = until.more(sum.rounds + skipped).min(together);
        if rounds == 0 {
            break;
        }
        let (seed, set) = (dice.roll(), options.set.clone());
        let (server, keep) = (server.clone(), options.keep);
        match run(&Plan { harm: *harm, rounds, seed, server, set, keep }) {
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

/// Lets a crowd come and go.
fn come_and_go(coming: Coming) -> Result<(), String> {
    let Coming { workers, time: Period(time), seed, server, keep } = coming;
    let server = server.map_or_else(binary::built, Ok)?;
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
        let rounds = options.rounds.unwrap_or(100);
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

fn check(path: &std::path::Path) -> Result<(), String> {
    let history = History::load(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let rules = Rules { tolerance: crore_core::Span::from_millis(20), ..Rules::default() };
    let tally = judge(&history, &rules).map_err(|broken| broken.to_string())?;
    println!("{tally}");
    Ok(())
}
