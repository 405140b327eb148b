//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use crore_chaos::{ChaosFault, ChaosPlan};
use crore_testkit::server_binary;
use crore_wire::units::Period;

/// Default number of rounds.
pub(crate) const DEFAULT_ROUNDS: u32 = 100;

/// Inject faults into a crore server under load, and check its history against crore's promises.
///
/// For developers of crore. Power cuts and full disks need root.
#[derive(Debug, Parser)]
#[command(name = "crore-chaos", version, arg_required_else_help = true)]
pub(crate) struct ChaosCli {
    #[command(subcommand)]
    pub(crate) command: ChaosCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ChaosCommand {
    #[command(flatten)]
    Fault(FaultCommand),
    /// Connect and disconnect many streaming workers, without injecting a fault
    Crowd(CrowdOptions),
    /// Build a server with planted bugs, and check that each is found within 100 rounds
    Drill {
        /// Seed of the plans; random by default
        #[arg(long)]
        seed: Option<u64>,
    },
    /// Check a saved history
    Check {
        /// The history file (JSON lines)
        history: PathBuf,
    },
}

/// The faults.
#[derive(Debug, Subcommand)]
pub(crate) enum FaultCommand {
    /// Kill the server (SIGKILL)
    Kill(FaultOptions),
    /// Stop the server (SIGSTOP) for longer than leases last, continue it, and kill it
    Stop(FaultOptions),
    /// Stop the server gracefully (SIGTERM)
    Drain(FaultOptions),
    /// Cut the power of its disk, XFS and ext4 in turn (XFS with `--plan-seed`): unsynced writes are lost
    Power(FaultOptions),
    /// Cut the power of its disk, ext4 only
    PowerExt4(FaultOptions),
    /// Start it on a full disk, free space again, and kill it in both states
    Full(FaultOptions),
    /// Fill its disk from outside while it runs, free space again, and kill it in both states
    Fill(FaultOptions),
    /// Make its clock jump, for this process alone, and kill it
    Clock(FaultOptions),
    /// All of these in turn
    All(FaultOptions),
}

#[derive(Debug, Args)]
pub(crate) struct FaultOptions {
    /// Number of rounds [default: 100]
    #[arg(long, conflicts_with = "time")]
    pub(crate) rounds: Option<u32>,
    /// Run for this long instead, for example 90s or 2h
    #[arg(long = "for", value_name = "SPAN")]
    pub(crate) time: Option<Period>,
    /// Seed from which the seed of each plan is derived; random by default
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Run one plan with this seed, as printed by a failure: one fault, all rounds in one run
    #[arg(long, conflicts_with_all = ["seed", "time"])]
    pub(crate) plan_seed: Option<u64>,
    /// The server binary; by default the one built with this program
    #[arg(long, value_name = "PATH")]
    pub(crate) server: Option<PathBuf>,
    /// A key of the server's configuration; `store.durability=none` must be found to break a promise
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// The planted bug to enable, for example bug-31; the server needs the feature `bug-drill`
    #[arg(long, requires = "server")]
    pub(crate) bug: Option<String>,
    /// Keep the data and the history of a failed run
    #[arg(long)]
    pub(crate) keep: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CrowdOptions {
    /// Number of workers
    #[arg(long, default_value_t = 100)]
    pub(crate) workers: usize,
    /// Duration
    #[arg(long = "for", value_name = "SPAN", default_value = "60s")]
    pub(crate) time: Period,
    /// Seed of the workers' actions; random by default
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// The server binary; by default the one built with this program
    #[arg(long, value_name = "PATH")]
    pub(crate) server: Option<PathBuf>,
    /// Keep the data and the history of a failed run
    #[arg(long)]
    pub(crate) keep: bool,
}

impl FaultCommand {
    /// The faults to inject in turn, and the options.
    pub(crate) fn faults(self) -> (Vec<ChaosFault>, FaultOptions) {
        match self {
            Self::Kill(options) => (vec![ChaosFault::Kill], options),
            Self::Stop(options) => (vec![ChaosFault::Stop], options),
            Self::Drain(options) => (vec![ChaosFault::Drain], options),
            Self::Power(options) if options.plan_seed.is_some() => {
                (vec![ChaosFault::Power], options)
            }
            Self::Power(options) => (vec![ChaosFault::Power, ChaosFault::PowerExt4], options),
            Self::PowerExt4(options) => (vec![ChaosFault::PowerExt4], options),
            Self::Full(options) => (vec![ChaosFault::Full], options),
            Self::Fill(options) => (vec![ChaosFault::Fill], options),
            Self::Clock(options) => (vec![ChaosFault::Clock], options),
            Self::All(options) => (ChaosFault::ALL.map(|(_, fault)| fault).to_vec(), options),
        }
    }
}

impl FaultOptions {
    /// The plan of one run.
    pub(crate) fn plan(
        &self,
        harm: ChaosFault,
        rounds: u32,
        seed: u64,
    ) -> Result<ChaosPlan, String> {
        let server = self.server.clone().map_or_else(server_binary, Ok)?;
        let (set, keep, bug) = (self.set.clone(), self.keep, self.bug.clone());
        Ok(ChaosPlan { fault: harm, rounds, seed, server, set, keep, bug })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_that_a_failure_prints_makes_the_same_plan() {
        for (name, harm) in ChaosFault::ALL {
            let plan = ChaosPlan {
                fault: harm,
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
            let cli = ChaosCli::try_parse_from(words.chain(["--server", "crore"]))
                .expect("the printed command parses");
            let ChaosCommand::Fault(wanted) = cli.command else { panic!("a harm: {command}") };
            let (harms, options) = wanted.faults();
            assert_eq!(harms, [harm]);
            let (rounds, seed) =
                (options.rounds.expect("given"), options.plan_seed.expect("given"));
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
            ChaosCli::try_parse_from(words).expect_err("refused");
        }
    }
}
