//! `cargo xtask bench peers --json FILE`: crore beside Redis, beanstalkd, NATS, RabbitMQ and BullMQ, at the same
//! work in the same run, with crore in between. What is missing is installed first: from Debian, as root, and
//! from npm.
//!
//! How durable each is stands in its row; crore syncs before it answers. `--only PEER` measures the peers whose
//! name has the word, `--dir DIR` puts the files of all servers on another file system, and `--quick` tries it
//! out. Beside `FILE` lies a text with a table, the machine, the day and the commit.
#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]

mod amqp;
mod beanstalkd;
mod bullmq;
mod crore;
mod drive;
mod job;
mod ledger;
mod line;
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

use crore_bench::args::Args;
use crore_bench::machine;
use crore_bench::report::Report;
use crore_bench::work_dir::WorkDir;
use crore_testkit::{Package, install_missing};
use peer::{Fault, Peer};
use scale::Scale;

/// The allocator of the server, for its client too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [first, rest @ ..] = &*words
        && first == drive::WORD
    {
        return ended(drive::main(rest));
    }
    match Args::read("crore-peers", |_| false) {
        Ok(args) => ended(bench(&args)),
        Err(code) => code,
    }
}

fn ended(result: Result<(), Fault>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("{fault}");
            ExitCode::FAILURE
        }
    }
}

fn bench(args: &Args) -> Result<(), Fault> {
    let peers: Vec<_> = peer::ALL.into_iter().filter(|peer| args.wants(peer.name())).collect();
    if peers.is_empty() {
        let names = peer::ALL.map(Peer::name).join(", ");
        return Err(format!("no such peer; there are: {names}").into());
    }
    let packages: Vec<Package> = peers.iter().flat_map(|peer| peer.packages()).collect();
    install_missing(&packages)?;
    peers.iter().try_for_each(|peer| peer.prepare())?;

    let work_dir = WorkDir::new(&args.dir(), "peers");
    let mut report = Report { facts: machine::facts(work_dir.path()), ..Report::default() };
    if report.facts.iter().any(|fact| fact.starts_with("file system: tmpfs")) {
        return Err(
            "files are in memory here, where nothing is durable: name a place by --dir".into()
        );
    }
    let others = peers.iter().flat_map(|peer| peer.versions());
    report.facts.push(format!(
        "peers: {}",
        versions(packages).chain(others).collect::<Vec<_>>().join(", ")
    ));
    let scale = if args.quick { Scale::QUICK } else { Scale::FULL };
    measure::measure(&peers, scale, &work_dir, &mut report)?;
    report.notes.push(format!("took {:.0} s in all", work_dir.seconds()));
    args.publish(&mut report);
    Ok(())
}

/// What was installed of Debian.
fn versions(mut packages: Vec<Package>) -> impl Iterator<Item = String> {
    packages.sort_unstable();
    packages.dedup();
    packages.into_iter().filter_map(|package| {
        let mut ask = Command::new("dpkg-query");
        let said = ask.args(["-W", "-f", "${Version}", package.name()]).output();
        let said = said.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        let version = said.unwrap_or_default();
        (!version.is_empty()).then(|| format!("{package} {version}"))
    })
}
