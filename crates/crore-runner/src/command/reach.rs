//! Which processes can be of a run, so that not all that there are have to be looked at.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, getpid};

/// The most process ids that are tried one by one, instead of looking at all processes there are.
const MAX_TRIED: i32 = 2048;

/// More processes and threads than a system starts in a second.
const MOST_PER_SECOND: u32 = 50_000;

/// How far to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// Only at process ids that were given out after this one, if they are few. The system counts
    /// upwards, so for a run that is young those after its leader's are all that it can have started.
    After(Pid),
    /// At all processes.
    All,
}

/// Until when a run is young: so long the system cannot have given out all its process ids and begun
/// anew, even if it starts as many processes as it can.
pub(super) fn youth() -> Duration {
    static YOUTH: OnceLock<Duration> = OnceLock::new();
    *YOUTH.get_or_init(|| {
        let max = fs::read_to_string("/proc/sys/kernel/pid_max").unwrap_or_default();
        let max: u32 = max.trim().parse().unwrap_or_default();
        Duration::from_secs(1) * max / MOST_PER_SECOND
    })
}

impl Reach {
    /// The process ids to look at, and where those begin that are given out from now on.
    pub(super) fn candidates(self) -> (Vec<i32>, Self) {
        let (mut pids, next) = self.given_out().unwrap_or_else(|| (all(), Self::All));
        let leaders = leaders();
        pids.retain(|pid| !leaders.contains(pid));
        (pids, next)
    }

    fn given_out(self) -> Option<(Vec<i32>, Self)> {
        let Self::After(pid) = self else { return None };
        let (from, last) = (pid.as_raw_pid(), last_pid()?);
        let are_few = (0..=MAX_TRIED).contains(&(last - from));
        are_few
            .then(|| ((from + 1..=last).collect(), Pid::from_raw(last).map_or(self, Self::After)))
    }
}

/// The leaders of all runs under way: in a short while hardly anything else is started, and of them
/// it is known that they belong to nobody but themselves.
static LEADERS: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

fn leaders() -> MutexGuard<'static, BTreeSet<i32>> {
    LEADERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An entry among the leaders, while it lives.
#[derive(Debug)]
pub(super) struct Listed(i32);

impl Listed {
    pub(super) fn new(leader: Pid) -> Self {
        leaders().insert(leader.as_raw_pid());
        Self(leader.as_raw_pid())
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        leaders().remove(&self.0);
    }
}

/// The process id that was given out last. It is asked several times for each run, of a file that
/// stays open.
fn last_pid() -> Option<i32> {
    static LOAD: OnceLock<Option<File>> = OnceLock::new();
    let load = LOAD.get_or_init(|| File::open("/proc/loadavg").ok()).as_ref()?;
    let mut text = [0; 128];
    let n = load.read_at(&mut text, 0).ok()?;
    let text = std::str::from_utf8(text.get(..n)?).ok()?;
    text.split_whitespace().next_back()?.parse().ok()
}

fn all() -> Vec<i32> {
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
    fn what_is_started_later_is_within_reach_unless_it_is_a_leader() {
        let (mut first, pid) = start();
        let (mut second, later) = start();
        let later = later.as_raw_pid();
        for reach in [Reach::After(pid), Reach::All] {
            assert!(reach.candidates().0.contains(&later), "{reach:?}");
        }
        let (_, next) = Reach::After(pid).candidates();
        assert!(next == Reach::All || !next.candidates().0.contains(&later), "{next:?}");
        let listed = Listed::new(Pid::from_child(&second));
        assert!(!Reach::All.candidates().0.contains(&later));
        drop(listed);
        assert!(Reach::All.candidates().0.contains(&later));
        for child in [&mut first, &mut second] {
            drop(child.stdin.take());
            child.wait().expect("it ends with its input");
        }
    }
}
