//! `cargo xtask bench peers --json FILE`: compares crore with Redis, beanstalkd, NATS, RabbitMQ and BullMQ on the same
//! work, alternating between crore and each of them. Missing packages are installed first: from Debian, as root, and
//! from npm.
//!
//! Each row names its durability; crore syncs before it answers. `FILE` contains the figures; a text file next to it
//! has a table, the machine, the date and the commit. `--help` lists the options.
#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]

mod amqp;
mod beanstalkd;
mod bullmq;
mod connection;
mod crore;
mod drive;
mod job;
mod ledger;
mod measure;
mod nats;
mod peer;
mod produce;
mod rabbitmq;
mod redis;
mod run;
mod scale;
mod server;

#[cfg(test)]
mod tests;

use std::process::{Command, ExitCode};

use crore_bench::args::BenchArgs;
use crore_bench::machine;
use crore_bench::report::BenchReport;
use crore_bench::work_dir::WorkDir;
use crore_testkit::{DebianPackage, install_missing};
use peer::{PeerFault, QueuePeer};
use scale::PeersScale;

/// The server's allocator, used in the client as well.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [first, rest @ ..] = &*words
        && first == drive::CLIENT_COMMAND
    {
        return exit_code(drive::main(rest));
    }
    match BenchArgs::read("crore-peers", |_| false) {
        Ok(args) => exit_code(run_bench(&args)),
        Err(code) => code,
    }
}

fn exit_code(result: Result<(), PeerFault>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("{fault}");
            ExitCode::FAILURE
        }
    }
}

fn run_bench(args: &BenchArgs) -> Result<(), PeerFault> {
    let peers: Vec<_> = peer::ALL.into_iter().filter(|peer| args.selects(peer.name())).collect();
    if peers.is_empty() {
        let names = peer::ALL.map(QueuePeer::name).join(", ");
        return Err(format!("unknown peer; expected one of: {names}").into());
    }
    let packages: Vec<DebianPackage> = peers.iter().flat_map(|peer| peer.packages()).collect();
    install_missing(&packages)?;
    peers.iter().try_for_each(|peer| peer.prepare())?;

    let work_dir = WorkDir::new(&args.dir(), "peers");
    let mut report =
        BenchReport { facts: machine::facts(work_dir.path()), ..BenchReport::default() };
    if report.facts.iter().any(|fact| fact.starts_with("file system: tmpfs")) {
        return Err(
            "the directory is on a tmpfs, where nothing is durable; choose another with --dir"
                .into(),
        );
    }
    let others = peers.iter().flat_map(|peer| peer.versions());
    report.facts.push(format!(
        "peers: {}",
        versions(packages).chain(others).collect::<Vec<_>>().join(", ")
    ));
    let scale = if args.quick { PeersScale::QUICK } else { PeersScale::FULL };
    measure::measure(&peers, scale, &work_dir, &mut report)?;
    report.notes.push(format!("took {:.0} s in all", work_dir.seconds()));
    args.publish(&mut report);
    Ok(())
}

/// The versions of the Debian packages.
fn versions(mut packages: Vec<DebianPackage>) -> impl Iterator<Item = String> {
    packages.sort_unstable();
    packages.dedup();
    packages.into_iter().filter_map(|package| {
        let mut query = Command::new("dpkg-query");
        let output = query.args(["-W", "-f", "${Version}", package.name()]).output();
        let version = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        let version = version.unwrap_or_default();
        (!version.is_empty()).then(|| format!("{package} {version}"))
    })
}
