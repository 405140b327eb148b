//! Reading the audit log backwards, from its newest file to the oldest.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crore_core::{Code, Invalid};
use crore_wire::api::audit::{AuditPage, AuditRecord};

use super::file::rotated;

/// Maximum bytes read for one page.
const MAX_BYTES: u64 = 2 << 20;
/// Bytes that identify a file.
const MARK_BYTES: u64 = 256;

/// A position in the audit log: a file, which keeps its beginning when it is renamed, and an offset in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AuditPosition {
    /// Checksum of the first bytes of the file.
    file: u32,
    /// Length of these bytes.
    mark: u16,
    offset: u64,
}

impl fmt::Display for AuditPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}-{:x}-{:x}", self.file, self.mark, self.offset)
    }
}

impl AuditPosition {
    /// Parses `next` of a page.
    pub(crate) fn parse(text: &str) -> Result<Self, Invalid> {
        let wrong = || {
            let why = "not a cursor of the audit log; use `next` of the previous page";
            Invalid::new(Code::CursorInvalid, "before", why)
        };
        let mut parts = text.split('-');
        let mut part = || u64::from_str_radix(parts.next()?, 16).ok();
        let (file, mark, offset) = (part(), part(), part());
        let position = (|| {
            let (file, mark) = (u32::try_from(file?).ok()?, u16::try_from(mark?).ok()?);
            Some(Self { file, mark, offset: offset? })
        })();
        position.filter(|position| position.to_string() == text).ok_or_else(wrong)
    }
}

/// Reads the files of an audit log.
#[derive(Debug)]
pub(crate) struct AuditReader {
    pub(super) path: PathBuf,
    pub(super) keep: u32,
}

impl AuditReader {
    /// Up to `n` entries before a position, newest first, from a bounded number of bytes.
    pub(crate) fn read(&self, before: Option<AuditPosition>, n: usize) -> io::Result<AuditPage> {
        let mut page = AuditPage { entries: Vec::new(), next: None };
        let (mut budget, mut is_found) = (MAX_BYTES, before.is_none());
        for age in 0..=self.keep {
            let path = rotated(&self.path, age);
            let Some(mut file) = open(&path)? else { break };
            let mut end = file.metadata()?.len();
            if let Some(before) = before.filter(|_| !is_found) {
                if checksum(&mut file, u64::from(before.mark))? != before.file {
                    continue;
                }
                (is_found, end) = (true, end.min(before.offset));
            }
            let start = self.read_file(&mut file, (end, n), &mut budget, &mut page)?;
            if start > 0 {
                let mark = start.min(MARK_BYTES);
                let (file, mark) = (checksum(&mut file, mark)?, mark as u16);
                page.next = Some(AuditPosition { file, mark, offset: start }.to_string());
                break;
            }
        }
        Ok(page)
    }

    /// Adds the entries before `end`, and returns where the first of them begins.
    fn read_file(
        &self,
        file: &mut File,
        (end, n): (u64, usize),
        budget: &mut u64,
        page: &mut AuditPage,
    ) -> io::Result<u64> {
        let from = end.saturating_sub(*budget);
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(from))?;
        file.take(end - from).read_to_end(&mut bytes)?;
        *budget -= end - from;
        let mut start = from + bytes.len() as u64;
        // The first line is incomplete unless the file begins with it.
        let whole = match from {
            0 => 0,
            _ => bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1),
        };
        let lines = bytes.get(whole..).unwrap_or_default();
        for line in lines.split_inclusive(|byte| *byte == b'\n').rev() {
            if page.entries.len() >= n {
                return Ok(start);
            }
            start -= line.len() as u64;
            // A line that a crash has truncated is left out.
            page.entries.extend(serde_json::from_slice::<AuditRecord>(line).ok());
        }
        // Without a whole line in reach, the page would not get on.
        let is_stuck = page.entries.is_empty() && start == end && from > 0;
        Ok(if is_stuck { from } else { start })
    }
}

fn open(path: &Path) -> io::Result<Option<File>> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Checksum of the first bytes of a file.
fn checksum(file: &mut File, mark: u64) -> io::Result<u32> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.take(mark.min(MARK_BYTES)).read_to_end(&mut bytes)?;
    Ok(crc32c::crc32c(&bytes))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn line(n: u64) -> String {
        format!(
            "{{\"at\":\"2026-11-18T08:00:00.000Z\",\"who\":\"loopback\",\"from\":\"127.0.0.1:1\",\
             \"call\":\"POST /v1/queues/q{n}/pause\",\"status\":200,\"request\":\"r{n}\"}}\n"
        )
    }

    fn requests(page: &AuditPage) -> Vec<&str> {
        page.entries.iter().map(|entry| entry.request.as_str()).collect()
    }

    #[test]
    fn pages_go_back_through_rotated_files_and_a_rotation_between_them() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("audit.jsonl");
        fs::write(&path, line(5) + &line(6) + "{\"torn\n").expect("written");
        fs::write(rotated(&path, 1), line(3) + &line(4)).expect("written");
        fs::write(rotated(&path, 2), line(1) + &line(2)).expect("written");
        let reader = AuditReader { path: path.clone(), keep: 3 };
        let first = reader.read(None, 3).expect("read");
        assert_eq!(requests(&first), ["r6", "r5", "r4"]);
        // The log is rotated: all files have other names.
        for age in [2, 1, 0] {
            fs::rename(rotated(&path, age), rotated(&path, age + 1)).expect("renamed");
        }
        fs::write(&path, line(7)).expect("written");
        let next = AuditPosition::parse(first.next.as_deref().expect("more")).expect("a cursor");
        let second = reader.read(Some(next), 10).expect("read");
        assert_eq!(requests(&second), ["r3", "r2", "r1"]);
        assert_eq!(second.next, None);
    }

    #[test]
    fn a_page_reads_a_bounded_number_of_bytes() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("audit.jsonl");
        let all: String = (0..30_000).map(line).collect();
        assert!(all.len() as u64 > 2 * MAX_BYTES);
        fs::write(&path, &all).expect("written");
        let reader = AuditReader { path, keep: 0 };
        let (mut before, mut seen) = (None, 0);
        loop {
            let page = reader.read(before, 100_000).expect("read");
            assert!(page.entries.len() < 20_000);
            seen += page.entries.len();
            let Some(next) = page.next else { break };
            before = Some(AuditPosition::parse(&next).expect("a cursor"));
        }
        assert_eq!(seen, 30_000);
        for bad in ["", "1", "1-2", "x-1-1", "00000001-1-1-1", "1-1-1", "ffffffffff-1-1"] {
            assert!(AuditPosition::parse(bad).is_err(), "{bad}");
        }
    }
}
