//! A private server: a directory of its own, a free port of 127.0.0.1; it ends when it is dropped and when this program
//! ends.

use std::fs;
use std::path::Path;

use crore_testkit::{ServerSpec, SupervisedServer};

use crate::peer::PeerFault;

/// Starts a server, and waits until it listens.
pub(crate) fn start(
    name: &str,
    script: &str,
    args: &[&str],
    below: &Path,
) -> Result<SupervisedServer, PeerFault> {
    let launch = ServerSpec::new(name, script).args(args.iter().copied()).below(below);
    Ok(SupervisedServer::start(&launch, listens)?)
}

/// Checks that this process listens on its port.
fn listens(process: &SupervisedServer) -> Result<(), String> {
    const LISTENS: &str = "0A";
    let port = format!(":{:04X}", process.port());
    let sockets = fs::read_to_string("/proc/net/tcp").map_err(|error| error.to_string())?;
    let inode = sockets.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let ours = words.get(1)?.ends_with(&port) && *words.get(3)? == LISTENS;
        words.get(9).filter(|_| ours).map(|inode| format!("socket:[{inode}]"))
    });
    let files = fs::read_dir(format!("/proc/{}/fd", process.pid()));
    let mut files = files.map_err(|error| error.to_string())?.flatten();
    let is_it = |file: fs::DirEntry| {
        let to = fs::read_link(file.path()).ok();
        to.is_some_and(|to| to.to_str() == inode.as_deref() && inode.is_some())
    };
    if files.any(is_it) { Ok(()) } else { Err("another process has its port".to_owned()) }
}

/// Processor time of a server so far, in seconds: of all processes of its session, including those that have ended.
pub(crate) fn cpu_seconds(process: &SupervisedServer) -> f64 {
    const TICKS: f64 = 100.0;
    let session = process.pid().to_string();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let stats = entries.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
    let ticks: u64 = stats.filter_map(|stat| ticks_in(&stat, &session)).sum();
    ticks as f64 / TICKS
}

/// User and system time, including that of ended children, if the process belongs to this session.
fn ticks_in(stat: &str, session: &str) -> Option<u64> {
    // After the name, which may contain spaces: state, parent, group, session; times are the 12th to the 15th field.
    let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
    let ours = fields.get(3).is_some_and(|field| *field == session);
    ours.then(|| fields.get(11..15))?
        .map(|times| times.iter().flat_map(|time| time.parse::<u64>()).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_session_alone() {
        let stat = "42 (a) name) S 1 40 40 0 -1 0 0 0 0 0 1 20 300 4000 20 0 1 0";
        assert_eq!(ticks_in(stat, "40"), Some(4321));
        assert_eq!(ticks_in(stat, "41"), None);
        assert_eq!(ticks_in("", "40"), None);
    }
}
