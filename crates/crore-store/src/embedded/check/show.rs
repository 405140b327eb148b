//! `show`: lists the segments and frames of a closed store.

use super::contents::records;
use super::files::{Frame, SegmentFile, StoreFiles};
use crate::Error;
use crate::embedded::disk::Disk;
use crate::embedded::recover::unavailable;
use crate::embedded::scan;
use crate::embedded::segment;

/// Names of records by their first byte.
const KINDS: [(u8, &str); 7] =
    [(1, "put"), (2, "live"), (3, "gone"), (4, "side"), (5, "meta"), (6, "hole"), (7, "closed")];

/// Calls `line` for every segment and frame of a closed store, in order; returns whether the
/// sequence of frames has no gap. Changes nothing.
pub fn show(disk: &dyn Disk, mut line: impl FnMut(&str)) -> Result<bool, Error> {
    let files = StoreFiles::read(disk)?;
    let chain = files.commit_chain();
    for (number, segment_file) in &files.segments {
        line(&heading(*number, segment_file, files.oldest));
        let bytes = scan::read_all(&*segment_file.file).map_err(unavailable)?;
        let counted = chain.counted.get(number).copied().unwrap_or_default();
        let mut end = segment::HEAD_BYTES as u64;
        for (nth, frame) in segment_file.frames.iter().enumerate() {
            if frame.at != end {
                line(&gap(segment_file, end, Some(frame.at)));
            }
            end = frame.end;
            let counts = nth < counted || *number < files.oldest;
            line(&describe(&bytes, *number, *frame, counts));
        }
        if segment_file.is_torn {
            line(&gap(segment_file, end, None));
        }
    }
    for one in &files.foreign {
        line(&format!("{}: {}", segment::name(one.name), one.what));
    }
    for name in &files.unused {
        line(&format!("{}: unused", segment::name(*name)));
    }
    Ok(chain.gaps.is_empty() && files.foreign.is_empty())
}

fn heading(number: u32, segment_file: &SegmentFile, oldest: u32) -> String {
    let head = if segment_file.has_head { "" } else { ", its head is damaged" };
    let over = if number < oldest { ", released" } else { "" };
    let (name, size, n) = (segment_file.file_name(), segment_file.size, segment_file.frames.len());
    format!(
        "{name}: segment {number}, {size} bytes, {n} frames up to {}{head}{over}",
        segment_file.end()
    )
}

fn gap(segment_file: &SegmentFile, from: u64, to: Option<u64>) -> String {
    let what = segment_file.stops.get(&from).copied().unwrap_or("no frame");
    match to {
        Some(to) => format!("  {from:>10}  DAMAGED up to {to}: {what}"),
        None => format!("  {from:>10}  no good frame from here on: {what}"),
    }
}

fn describe(bytes: &[u8], segment: u32, frame: Frame, counts: bool) -> String {
    let Frame { at, header, .. } = frame;
    let mut by_kind = [0_usize; KINDS.len()];
    for (_, body) in records(bytes, segment, frame) {
        let nth = KINDS.iter().position(|(kind, _)| body.first() == Some(kind));
        if let Some(n) = nth.and_then(|nth| by_kind.get_mut(nth)) {
            *n += 1;
        }
    }
    let named = KINDS.iter().zip(by_kind).filter(|(_, n)| *n > 0);
    let named: Vec<_> = named.map(|((_, name), n)| format!("{n} {name}")).collect();
    let not = if counts { "" } else { " (ignored)" };
    let (commit, time) = (header.commit, clock_time(header.at));
    format!("  {at:>10}  commit {commit}  {time}  {}{not}", named.join(", "))
}

/// Formats milliseconds since 1970 in RFC 3339.
fn clock_time(millis: i64) -> String {
    let (days, rest) = (millis.div_euclid(86_400_000), millis.rem_euclid(86_400_000));
    // Years start in March, in eras of 400, so that the leap day is the last day of a year.
    let shifted = days + 719_468;
    let (era, day) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, late) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = year + era * 400 + late;
    let (seconds, millis) = (rest / 1000, rest % 1000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_printed_in_rfc_3339() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_767_225_600_123, "2026-01-01T00:00:00.123Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(clock_time(millis), text);
        }
    }
}
