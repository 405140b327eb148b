//! New files of the log: zero-filled and synced, so that a commit into them changes no metadata of the file system.
//!
//! They are written in small parts, with pauses between them: every sync of a part delays the commits that come at the
//! same time.

use std::io;
use std::time::{Duration, Instant};

use super::disk::{Disk, OpenMode};
use super::inner::EmbeddedInner;
use super::log_files::Segment;
use super::segment::{self, SegmentHead};

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

/// Progress of a new file after a part.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PartWritten {
    /// How long the part took.
    took: Duration,
    /// Bytes written so far.
    at: u64,
    parts_left: u32,
}

/// Whether to go on after a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterPart {
    Continue,
    /// The file is large enough as it is.
    Finish,
}

/// Purpose of a new file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NewFileUse {
    Next,
    Reserve,
}

/// Creates and syncs a zero-filled segment with its head. `after_part` is called after each part but the last.
pub(crate) fn make_segment(
    disk: &dyn Disk,
    (name, head): (u64, SegmentHead),
    mut after_part: impl FnMut(PartWritten) -> AfterPart,
) -> io::Result<Segment> {
    let file = disk.open(&segment::name(name), OpenMode::Create)?;
    let mut at = 0;
    while at < head.size {
        let n = (head.size - at).min(PART.len() as u64);
        let begun = now_for_pauses();
        file.write(at, PART.get(..n as usize).unwrap_or_default())?;
        file.sync()?;
        at += n;
        let parts_left = (head.size - at).div_ceil(PART.len() as u64);
        let parts_left = u32::try_from(parts_left).unwrap_or(u32::MAX);
        let part = PartWritten { took: begun.elapsed(), at, parts_left };
        if parts_left > 0 && after_part(part) == AfterPart::Finish {
            break;
        }
    }
    file.write(0, &SegmentHead { size: at, ..head }.bytes())?;
    file.sync()?;
    Ok(Segment::empty(name, file, at))
}

impl EmbeddedInner {
    /// Creates a file at a pace that leaves the disk to commits.
    pub(crate) fn make_segment(
        &self,
        name: u64,
        head: SegmentHead,
        purpose: NewFileUse,
    ) -> io::Result<Segment> {
        let (begun, written) = (now_for_pauses(), self.counters.bytes_written());
        make_segment(&*self.disk, (name, head), |part| {
            let Ok(state) = self.lock() else { return AfterPart::Continue };
            let log = state.local.records();
            let next_size =
                segment::size(u64::from(log.pending.segment) + 1, self.options.segment_bytes);
            if purpose == NewFileUse::Reserve && log.next.is_none() && part.at >= next_size {
                return AfterPart::Finish;
            }
            // Callers wait for the file when the current one is nearly full, so the rate at which they fill it
            // means nothing then.
            let is_urgent = state.stopping || log.bytes_left() < log.current_size() / 4;
            let bytes_left = log.bytes_left();
            drop(state);
            if !is_urgent {
                let filled = self.counters.bytes_written() - written;
                pause_for(part.pause(time_left(begun.elapsed(), filled, bytes_left)));
            }
            AfterPart::Continue
        })
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "it leaves the disk to commits, and waits for nothing"
)]
fn pause_for(span: Duration) {
    std::thread::sleep(span);
}

/// Time until the current file is full, if commits go on to fill it as in the last `elapsed`.
fn time_left(elapsed: Duration, filled: u64, bytes_left: u64) -> Duration {
    let times = bytes_left as f64 / filled.max(1) as f64;
    Duration::try_from_secs_f64(elapsed.as_secs_f64() * times).unwrap_or(Duration::MAX)
}

impl PartWritten {
    /// The pause after a part: long enough that commits mostly have the disk to themselves, and short enough that the
    /// file is ready in time.
    fn pause(self, time_left: Duration) -> Duration {
        let work_left = self.took.saturating_mul(self.parts_left);
        let spare = time_left.mul_f64(READY_AFTER).saturating_sub(work_left);
        (spare / self.parts_left.max(1)).min(self.took * MAX_PAUSE_FACTOR).min(MAX_PAUSE)
    }
}

#[cfg(test)]
#[expect(clippy::expect_used, reason = "a test may panic")]
mod tests {
    use super::super::disk::MemoryDisk;
    use super::super::segment::HEAD_BYTES;
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn pause(took: Duration, parts_left: u32, time_left: Duration) -> Duration {
        PartWritten { took, at: 0, parts_left }.pause(time_left)
    }

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

    #[test]
    fn a_file_that_is_finished_early_has_the_length_in_its_head() {
        let disk = MemoryDisk::default();
        let head = SegmentHead { segment: 7, seed: 1, size: 4 << 20 };
        let finish_at_one_mib = |part: PartWritten| {
            if part.at < 1 << 20 { AfterPart::Continue } else { AfterPart::Finish }
        };
        let made = make_segment(&disk, (3, head), finish_at_one_mib).expect("made");
        assert_eq!(made.size, 1 << 20);
        let mut bytes = vec![0; 2 << 20];
        assert_eq!(made.file.read(0, &mut bytes).expect("read"), 1 << 20);
        let found = segment::FileKind::of(bytes.get(..HEAD_BYTES).expect("a head"));
        assert_eq!(found, segment::FileKind::Segment(SegmentHead { size: 1 << 20, ..head }));
    }
}
