//! New files of the log: zero-filled and synced, so that a commit into them changes no metadata of the file system.

use std::io;
use std::time::{Duration, Instant};

use super::disk::{Disk, OpenMode};
use super::inner::EmbeddedInner;
use super::log_files::Segment;
use super::segment::{self, HEAD_BYTES, SegmentHead};

/// Bytes written and synced at once. A commit that begins meanwhile waits for all of them.
const PART: &[u8] = &[0; 256 << 10];
/// Maximum pause after a part, as a multiple of the time that the part took.
const MAX_PAUSE_FACTOR: u32 = 12;
/// Maximum pause after a part, for slow disks.
const MAX_PAUSE: Duration = Duration::from_millis(50);
/// A new file is ready before this fraction of the time has passed in which the current one fills up.
const READY_AFTER: f64 = 0.25;

/// Time for pauses only; no other decision depends on it.
#[expect(clippy::disallowed_methods, reason = "how long a pause is changes no result")]
fn now_for_pauses() -> Instant {
    Instant::now()
}

/// Creates and syncs a zero-filled segment with its head. `after_part` is called after each part, with the time that it
/// took and the number of parts left.
pub(crate) fn make_segment(
    disk: &dyn Disk,
    (name, head): (u64, SegmentHead),
    mut after_part: impl FnMut(Duration, u32),
) -> io::Result<Segment> {
    let size = head.size;
    let file = disk.open(&segment::name(name), OpenMode::Create)?;
    let mut at = 0;
    while at < size {
        let n = (size - at).min(PART.len() as u64);
        let begun = now_for_pauses();
        file.write(at, PART.get(..n as usize).unwrap_or_default())?;
        file.sync()?;
        at += n;
        let parts_left = (size - at).div_ceil(PART.len() as u64);
        after_part(begun.elapsed(), u32::try_from(parts_left).unwrap_or(u32::MAX));
    }
    file.write(0, &head.bytes())?;
    file.sync()?;
    Ok(Segment {
        name,
        file,
        size,
        end: HEAD_BYTES as u64,
        live: 0,
        sides: 0,
        last: 0,
        hinted: false,
    })
}

impl EmbeddedInner {
    /// Creates a segment at a pace that leaves the disk to commits.
    pub(crate) fn make_segment(&self, name: u64, head: SegmentHead) -> io::Result<Segment> {
        let (begun, written) = (now_for_pauses(), self.counters.bytes_written());
        make_segment(&*self.disk, (name, head), |took, parts_left| {
            let Some(bytes_left) = self.bytes_left_if_unhurried() else { return };
            let filled = self.counters.bytes_written() - written;
            self.pause_for(pause(took, parts_left, time_left(begun.elapsed(), filled, bytes_left)));
        })
    }

    /// Bytes left in the current file; `None` if it is nearly full or the store is stopping. Callers wait for the new file
    /// then, so the rate at which they fill the current one means nothing.
    fn bytes_left_if_unhurried(&self) -> Option<u64> {
        let state = self.lock().ok().filter(|state| !state.stopping)?;
        let log = state.local.records();
        Some(log.bytes_left()).filter(|left| *left > log.current_size() / 4)
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "it leaves the disk to commits, and waits for nothing"
    )]
    fn pause_for(&self, span: Duration) {
        std::thread::sleep(span);
    }
}

/// Time until the current file is full, if commits go on to fill it as in the last `elapsed`.
fn time_left(elapsed: Duration, filled: u64, bytes_left: u64) -> Duration {
    let times = bytes_left as f64 / filled.max(1) as f64;
    Duration::try_from_secs_f64(elapsed.as_secs_f64() * times).unwrap_or(Duration::MAX)
}

/// The pause after a part of a new file: long enough that commits mostly have the disk to themselves, and short enough
/// that the file is ready in time.
fn pause(took: Duration, parts_left: u32, time_left: Duration) -> Duration {
    let spare = time_left.mul_f64(READY_AFTER).saturating_sub(took * parts_left);
    (spare / parts_left.max(1)).min(took * MAX_PAUSE_FACTOR).min(MAX_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_slow_store_leaves_the_disk_to_commits() {
        // One MiB a second and 64 MiB left: a minute.
        let left = time_left(MS * 1000, 1 << 20, 64 << 20);
        assert_eq!(left, MS * 64_000);
        assert_eq!(pause(MS, 256, left), MS * MAX_PAUSE_FACTOR);
        assert_eq!(pause(MS * 20, 256, left), (left / 4 - MS * 20 * 256) / 256);
        assert_eq!(pause(MS * 20, 1, left), MAX_PAUSE);
    }

    #[test]
    fn an_idle_store_pauses_as_well() {
        assert_eq!(pause(MS, 256, time_left(MS, 0, 64 << 20)), MS * MAX_PAUSE_FACTOR);
    }

    #[test]
    fn a_file_that_fills_up_soon_is_followed_without_pauses() {
        // 64 MiB a second and 8 MiB left, with 32 ms of work to do: half of a quarter of the time.
        let left = time_left(MS * 100, (64 << 20) / 10, 8 << 20);
        assert_eq!(pause(MS, 32, left), Duration::ZERO);
        assert_eq!(pause(MS, 0, Duration::ZERO), Duration::ZERO);
    }
}
