//! Inspects processes through `/proc`.

use std::fs;

/// Whether a process runs; a zombie does not.
pub(super) fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| state != 'Z' && state != 'X')
}

/// The processes with this text in their environment.
pub(super) fn marked(text: &str) -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("a list of processes").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let bears = |pid: &u32| {
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ.windows(text.len()).any(|part| part == text.as_bytes())
    };
    pids.filter(|pid| *pid != std::process::id()).filter(bears).collect()
}

/// The number of zombie children of this process.
pub(super) fn zombies() -> usize {
    let own = std::process::id().to_string();
    let entries = fs::read_dir("/proc").expect("a list of processes").flatten();
    let stats = entries.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
    let is_zombie = |stat: &String| {
        let fields = stat.rsplit_once(") ").map(|(_, rest)| rest.split(' ').take(2).collect());
        fields.is_some_and(|fields: Vec<_>| fields == ["Z", &own])
    };
    stats.filter(is_zombie).count()
}

/// A number from this process's status, such as `VmHWM`.
pub(super) fn status(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("a status");
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.expect("a number of that name")
}
