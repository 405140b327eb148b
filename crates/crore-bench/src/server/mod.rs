//! Servers as child processes: the built one, and the bare one that each benchmark contains.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use crate::args::build_dir;
use crate::work_dir::WorkDir;

pub mod bare_http;
pub mod bare_worker;
pub mod fsync;
pub mod measurement;
pub mod pickup;

/// The first argument that makes a benchmark its own bare server.
pub const BARE_SERVER_FLAG: &str = "--bare";

/// A server process; dropping it kills it.
#[derive(Debug)]
pub struct BenchServer {
    child: Child,
    pub address: SocketAddr,
}

impl BenchServer {
    /// The built server on a fresh store.
    pub fn crore(work_dir: &WorkDir) -> Self {
        Self::crore_with(work_dir, &[])
    }

    /// The same with further arguments.
    pub fn crore_with(work_dir: &WorkDir, more: &[&str]) -> Self {
        let mut command = Command::new(build_dir().join("crore"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(work_dir.fresh("data"));
        command.args(more).current_dir(work_dir.path());
        Self::start(command)
    }

    /// The bare server of this benchmark.
    pub fn bare() -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg(BARE_SERVER_FLAG);
        Self::start(command)
    }

    fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let address = loop {
            let line = lines.next().expect("the server prints its address").unwrap();
            if let Some((_, address)) = line.split_once("listens on http://") {
                break address.trim().parse().unwrap();
            }
        };
        // The rest of its output is drained, so that it never blocks on a full pipe.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Self { child, address }
    }

    /// Resident memory, in bytes.
    pub fn resident(&self) -> u64 {
        let statm = fs::read_to_string(format!("/proc/{}/statm", self.child.id())).unwrap();
        statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
    }

    /// Processor time so far, in seconds.
    pub fn cpu_seconds(&self) -> f64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        let ticks: u64 = fields.skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum();
        ticks as f64 / 100.0
    }
}

impl Drop for BenchServer {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
