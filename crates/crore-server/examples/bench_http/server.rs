//! A server in a process of its own.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use crate::args::build_dir;
use crate::bare;
use crate::place::Place;

/// A server that runs until it is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// The server that was built, on a fresh store.
    pub(crate) fn crore(place: &Place) -> Self {
        Self::crore_with(place, &[])
    }

    /// The same, told more.
    pub(crate) fn crore_with(place: &Place, more: &[&str]) -> Self {
        let mut command = Command::new(build_dir().join("crore"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(place.fresh("data"));
        command.args(more).current_dir(place.dir());
        Self::start(command)
    }

    /// One that answers 200 to everything.
    pub(crate) fn bare() -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg(bare::FLAG);
        Self::start(command)
    }

    fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let address = loop {
            let line = lines.next().expect("it says where it listens").unwrap();
            if let Some((_, address)) = line.split_once("listens on http://") {
                break address.trim().parse().unwrap();
            }
        };
        // Whatever else it says is read, so that it never waits for a reader.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Self { child, address }
    }

    /// Resident memory, in bytes.
    pub(crate) fn resident(&self) -> u64 {
        let statm = fs::read_to_string(format!("/proc/{}/statm", self.child.id())).unwrap();
        statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
    }

    /// Processor time so far, in seconds.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        let ticks: u64 = fields.skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum();
        ticks as f64 / 100.0
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It is ours, and whether it is gone already does not matter.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
