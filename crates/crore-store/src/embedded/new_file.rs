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
const MIN_PART: usize = 256 << 10;
/// The same for a store that fills its files fast: every sync takes time from the commits.
const MAX_PART: usize = 2 << 20;
/// A part has as many bytes as commits write in this time, within these bounds.
const PART_TIME: Duration = Duration::from_millis(10);
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
    /// Parts of this size that are left.
    parts_left: u32,
}

/// Whether to go on after a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterPart {
    /// With a part of so many bytes; fewer than the minimum stand for it, and so do more for the maximum.
    Continue(usize),
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
    let zeros = vec![0; MAX_PART];
    let (mut at, mut part_bytes) = (0, MIN_PART);
    while at < head.size {
        let part = zeros.get(..part_bytes.clamp(MIN_PART, MAX_PART)).unwrap_or_default();
        let n = (head.size - at).min(part.len() as u64);
        let begun = now_for_pauses();
        file.write(at, part.get(..n as usize).unwrap_or_default())?;
        file.sync()?;
        at += n;
        let parts_left = (head.size - at).div_ceil(part.len() as u64);
        if parts_left == 0 {
            break;
        }
        let parts_left = u32::try_from(parts_left).unwrap_or(u32::MAX);
        match after_part(PartWritten { took: begun.elapsed(), at, parts_left }) {
            AfterPart::Continue(bytes) => part_bytes = bytes,
            AfterPart::Finish => break,
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
            let Ok(state) = self.lock() else { return AfterPart::Continue(MIN_PART) };
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
            let (elapsed, filled) = (begun.elapsed(), self.counters.bytes_written() - written);
            if !is_urgent {
                pause_for(part.pause(time_left(elapsed, filled, bytes_left)));
            }
            AfterPart::Continue(part_bytes(elapsed, filled))
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

/// Bytes of a part for a store whose commits wrote `filled` bytes in the last `elapsed`.
fn part_bytes(elapsed: Duration, filled: u64) -> usize {
    let parts = elapsed.as_secs_f64() / PART_TIME.as_secs_f64();
    (filled as f64 / parts.max(1.0)) as usize
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
    fn a_store_that_fills_its_files_fast_writes_larger_parts() {
        assert_eq!(part_bytes(MS * 500, 50 << 20), 1 << 20);
        assert_eq!(part_bytes(MS * 500, 0), 0);
        // The first part takes no time to speak of; its bytes are no rate.
        assert_eq!(part_bytes(MS / 10, 4 << 10), 4 << 10);
    }

    #[test]
    fn a_part_keeps_to_its_bounds() {
        for (asked, expected) in [(0, MIN_PART), (1 << 20, 1 << 20), (1 << 30, MAX_PART)] {
            let disk = MemoryDisk::default();
            let head = SegmentHead { segment: 7, seed: 1, size: 8 << 20 };
            let mut written = Vec::new();
            let after_part = |part: PartWritten| {
                written.push(part.at);
                AfterPart::Continue(asked)
            };
            make_segment(&disk, (3, head), after_part).expect("made");
            assert_eq!(written.first(), Some(&(MIN_PART as u64)));
            let parts = written.iter().zip(written.iter().skip(1));
            assert!(
                parts.into_iter().all(|(from, to)| to - from == expected as u64),
                "{written:?}"
            );
        }
    }

    #[test]
    fn a_file_that_is_finished_early_has_the_length_in_its_head() {
        let disk = MemoryDisk::default();
        let head = SegmentHead { segment: 7, seed: 1, size: 4 << 20 };
        let finish_at_one_mib = |part: PartWritten| {
            if part.at < 1 << 20 { AfterPart::Continue(0) } else { AfterPart::Finish }
        };
        let made = make_segment(&disk, (3, head), finish_at_one_mib).expect("made");
        assert_eq!(made.size, 1 << 20);
        let mut bytes = vec![0; 2 << 20];
        assert_eq!(made.file.read(0, &mut bytes).expect("read"), 1 << 20);
        let found = segment::FileKind::of(bytes.get(..HEAD_BYTES).expect("a head"));
        assert_eq!(found, segment::FileKind::Segment(SegmentHead { size: 1 << 20, ..head }));
    }
}
