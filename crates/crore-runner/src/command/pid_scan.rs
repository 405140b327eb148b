//! Selects the process ids that can belong to a run, to avoid reading all of `/proc`.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, getpid};

/// Maximum number of process ids to probe one by one; above it, all processes are listed.
const MAX_PROBED_PIDS: i32 = 2048;

/// Upper bound for processes and threads that a system starts per second.
const MAX_FORKS_PER_SECOND: u32 = 50_000;

/// The process ids to scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PidScan {
    /// Ids allocated after this one, if they are few. The kernel allocates ids in ascending order, so until
    /// they wrap all descendants of a leader have greater ids.
    After(Pid),
    /// All processes.
    All,
}

/// Minimum time before the kernel has used all process ids and starts over, even at the highest rate.
pub(super) fn pid_wrap_time() -> Duration {
    static YOUTH: OnceLock<Duration> = OnceLock::new();
    *YOUTH.get_or_init(|| {
        let max = fs::read_to_string("/proc/sys/kernel/pid_max").unwrap_or_default();
        let max: u32 = max.trim().parse().unwrap_or_default();
        Duration::from_secs(1) * max / MAX_FORKS_PER_SECOND
    })
}

impl PidScan {
    /// The process ids to scan, and the scan for processes that start from now on.
    pub(super) fn candidates(self) -> (Vec<i32>, Self) {
        let (mut pids, next) = self.recent_pids().unwrap_or_else(|| (all_pids(), Self::All));
        let leaders = leaders();
        pids.retain(|pid| !leaders.contains(pid));
        (pids, next)
    }

    fn recent_pids(self) -> Option<(Vec<i32>, Self)> {
        let Self::After(pid) = self else { return None };
        let (from, last) = (pid.as_raw_pid(), last_pid()?);
        let are_few = (0..=MAX_PROBED_PIDS).contains(&(last - from));
        are_few
            .then(|| ((from + 1..=last).collect(), Pid::from_raw(last).map_or(self, Self::After)))
    }
}

/// The leaders of all current runs. They are most of the recent processes, and none belongs to another run.
static LEADERS: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

fn leaders() -> MutexGuard<'static, BTreeSet<i32>> {
    LEADERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Registers a leader until it is dropped.
#[derive(Debug)]
pub(super) struct LeaderEntry(i32);

impl LeaderEntry {
    pub(super) fn new(leader: Pid) -> Self {
        leaders().insert(leader.as_raw_pid());
        Self(leader.as_raw_pid())
    }
}

impl Drop for LeaderEntry {
    fn drop(&mut self) {
        leaders().remove(&self.0);
    }
}

/// The process id that was allocated last. It is read several times per run, so the file stays open.
fn last_pid() -> Option<i32> {
    static LOAD: OnceLock<Option<File>> = OnceLock::new();
    let load = LOAD.get_or_init(|| File::open("/proc/loadavg").ok()).as_ref()?;
    let mut text = [0; 128];
    let n = load.read_at(&mut text, 0).ok()?;
    let text = std::str::from_utf8(text.get(..n)?).ok()?;
    text.split_whitespace().next_back()?.parse().ok()
}

fn all_pids() -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let own = getpid().as_raw_pid();
    let names = entries.flatten().map(|entry| entry.file_name());
    names.filter_map(|name| name.to_str()?.parse().ok()).filter(|pid| *pid != own).collect()
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    fn start() -> (Child, Pid) {
        let child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        let child = child.expect("it starts");
        let pid = Pid::from_child(&child);
        (child, pid)
    }

    #[test]
    fn later_processes_are_scanned_unless_they_are_leaders() {
        let (mut first, pid) = start();
        let (mut second, later) = start();
        let later = later.as_raw_pid();
        for scan in [PidScan::After(pid), PidScan::All] {
            assert!(scan.candidates().0.contains(&later), "{scan:?}");
        }
        let (_, next) = PidScan::After(pid).candidates();
        assert!(next == PidScan::All || !next.candidates().0.contains(&later), "{next:?}");
        let listed = LeaderEntry::new(Pid::from_child(&second));
        assert!(!PidScan::All.candidates().0.contains(&later));
        drop(listed);
        assert!(PidScan::All.candidates().0.contains(&later));
        for child in [&mut first, &mut second] {
            drop(child.stdin.take());
            child.wait().expect("it ends with its input");
        }
    }
}
