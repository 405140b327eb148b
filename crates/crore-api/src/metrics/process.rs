//! Resource usage of this process, from Linux's `/proc`.

use std::fs;

/// Clock ticks per second of CPU times in `/proc`: 100 on every Linux machine (`USER_HZ`).
const TICKS: f64 = 100.0;

/// Resource usage of a process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProcessUsage {
    /// CPU time in user and kernel mode, in seconds, with a resolution of 10 ms.
    pub cpu_seconds: f64,
    /// Resident memory in bytes.
    pub resident_bytes: u64,
}

impl ProcessUsage {
    /// Usage of this process; `None` if the system has no `/proc`.
    pub fn own() -> Option<Self> {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        let status = fs::read_to_string("/proc/self/status").ok()?;
        Some(Self { cpu_seconds: cpu_seconds(&stat)?, resident_bytes: resident_bytes(&status)? })
    }
}

/// Parses `/proc/PID/stat`: fields 14 and 15. The second field is the program name in brackets, which may contain
/// anything.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<f64>().ok();
    Some((ticks()? + ticks()?) / TICKS)
}

/// Parses `/proc/PID/status`: `VmRSS:  1234 kB`, in KiB.
fn resident_bytes(status: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    value.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_user_plus_system_whatever_the_name_of_the_process() {
        let stat = "12 (a) b (c) S 1 12 12 0 -1 4194304 100 0 0 0 250 50 9 9 20 0 4 0 100 1 2";
        assert_eq!(cpu_seconds(stat), Some(3.0));
        assert_eq!(cpu_seconds("12 (a) S 1"), None);
        assert_eq!(cpu_seconds(""), None);
    }

    #[test]
    fn memory_is_reported_in_bytes() {
        assert_eq!(
            resident_bytes("Name:\tcrore\nVmRSS:\t    1024 kB\nThreads:\t3\n"),
            Some(1 << 20)
        );
        assert_eq!(resident_bytes("Name:\tkthreadd\n"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_uses_memory() {
        let own = ProcessUsage::own().expect("Linux has /proc");
        assert!(own.resident_bytes > 1 << 20 && own.cpu_seconds >= 0.0, "{own:?}");
    }
}
