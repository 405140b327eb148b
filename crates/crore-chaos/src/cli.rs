//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use crore_chaos::{Harm, Plan};
use crore_testkit::server_binary;
use crore_wire::words::Period;

/// How many rounds there are, unless told otherwise.
pub(crate) const ROUNDS: u32 = 100;

/// Harms a real crore server while many use it, and holds what they were told to the promises.
///
/// For developers of crore. Power cuts and full disks need root.
#[derive(Debug, Parser)]
#[command(name = "crore-chaos", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) what: What,
}

#[derive(Debug, Subcommand)]
pub(crate) enum What {
    #[command(flatten)]
    Harm(Wanted),
    /// Let many workers with streams come and go, and do nothing to the server
    Crowd(Coming),
    /// Build a server with planted mistakes, and show that each is caught within 100 rounds
    Drill {
        /// Seed of the plans; drawn from the randomness of the system by default
        #[arg(long)]
        seed: Option<u64>,
    },
    /// Judge a history that was kept
    Check {
        /// The file: JSON lines
        history: PathBuf,
    },
}

/// The harms.
#[derive(Debug, Subcommand)]
pub(crate) enum Wanted {
    /// Kill the server with -9
    Kill(Options),
    /// Stop the server for longer than leases last, let it go on, and kill it
    Stop(Options),
    /// Tell the server to stop, and let it drain
    Drain(Options),
    /// Cut the power of its disk, XFS or ext4 by turns (XFS with `--plan-seed`): what was not synced is gone
    Power(Options),
    /// Cut the power of its disk, ext4
    PowerExt4(Options),
    /// Start it on a full disk, make room again, and kill it in both states
    Full(Options),
    /// Fill its disk while it runs, as others do, make room again, and kill it in both states
    Fill(Options),
    /// Make its clock jump, for it alone, and kill it
    Clock(Options),
    /// All of these, by turns
    All(Options),
}

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// How many servers are started and harmed [default: 100]
    #[arg(long, conflicts_with = "time")]
    pub(crate) rounds: Option<u32>,
    /// For how long instead, as 90s or 2h
    #[arg(long = "for", value_name = "SPAN")]
    pub(crate) time: Option<Period>,
    /// Seed from which the seed of each plan is drawn; drawn from the randomness of the system by default
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Run one plan with this seed, as a failure prints it: one harm, all rounds together
    #[arg(long, conflicts_with_all = ["seed", "time"])]
    pub(crate) plan_seed: Option<u64>,
    /// The server's binary; the one that was built with this program, unless told otherwise
    #[arg(long, value_name = "PATH")]
    pub(crate) server: Option<PathBuf>,
    /// A key of the server's configuration; `store.durability=none` has to be found out
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// The planted mistake that a server with the feature `bug-drill` makes, as bug-31
    #[arg(long, requires = "server")]
    pub(crate) bug: Option<String>,
    /// Keep the data of a run that fails, with its history
    #[arg(long)]
    pub(crate) keep: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Coming {
    /// How many workers
    #[arg(long, default_value_t = 100)]
    pub(crate) workers: usize,
    /// For how long
    #[arg(long = "for", value_name = "SPAN", default_value = "60s")]
    pub(crate) time: Period,
    /// Seed of what workers do; drawn from the randomness of the system by default
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// The server's binary; the one that was built with this program, unless told otherwise
    #[arg(long, value_name = "PATH")]
    pub(crate) server: Option<PathBuf>,
    /// Keep the data of a run that fails, with its history
    #[arg(long)]
    pub(crate) keep: bool,
}

impl Wanted {
    /// The harms, by turns, and the options.
    pub(crate) fn harms(self) -> (Vec<Harm>, Options) {
        match self {
            Self::Kill(options) => (vec![Harm::Kill], options),
            Self::Stop(options) => (vec![Harm::Stop], options),
            Self::Drain(options) => (vec![Harm::Drain], options),
            Self::Power(options) if options.plan_seed.is_some() => (vec![Harm::Power], options),
            Self::Power(options) => (vec![Harm::Power, Harm::PowerExt4], options),
            Self::PowerExt4(options) => (vec![Harm::PowerExt4], options),
            Self::Full(options) => (vec![Harm::Full], options),
            Self::Fill(options) => (vec![Harm::Fill], options),
            Self::Clock(options) => (vec![Harm::Clock], options),
            Self::All(options) => (Harm::ALL.map(|(_, harm)| harm).to_vec(), options),
        }
    }
}

impl Options {
    /// A plan of one run.
    pub(crate) fn plan(&self, harm: Harm, rounds: u32, seed: u64) -> Result<Plan, String> {
        let server = self.server.clone().map_or_else(server_binary, Ok)?;
        let (set, keep, bug) = (self.set.clone(), self.keep, self.bug.clone());
        Ok(Plan { harm, rounds, seed, server, set, keep, bug })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_that_a_failure_prints_makes_the_same_plan() {
        for (name, harm) in Harm::ALL {
            let plan = Plan {
                harm,
                rounds: 12,
                seed: 11_021_164_757_797_825_698,
                server: PathBuf::from("crore"),
                set: vec!["store.durability=none".to_owned()],
                keep: false,
                bug: None,
            };
            let command = plan.command();
            assert!(command.starts_with(&format!("cargo xtask chaos {name} ")), "{command}");
            let words = command.split(' ').skip(2);
            let cli = Cli::try_parse_from(words.chain(["--server", "crore"])).expect("understood");
            let What::Harm(wanted) = cli.what else { panic!("a harm: {command}") };
            let (harms, options) = wanted.harms();
            assert_eq!(harms, [harm]);
            let (rounds, seed) = (options.rounds.expect("said"), options.plan_seed.expect("said"));
            let again = options.plan(harm, rounds, seed).expect("a server is named");
            assert_eq!(format!("{again:?}"), format!("{plan:?}"));
        }
    }

    #[test]
    fn a_plan_has_one_seed() {
        for words in [
            ["chaos", "stop", "--plan-seed", "1", "--seed", "1"],
            ["chaos", "stop", "--plan-seed", "1", "--for", "1s"],
        ] {
            Cli::try_parse_from(words).expect_err("refused");
        }
    }
}
