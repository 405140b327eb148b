//! Builds log files with correct checksums from arbitrary bytes.
//!
//! This is a second encoder of format version 1, written from `docs/design/0002-log.md`: a store that
//! opens these files agrees with the document, and not only with its own encoder.

const VERSION: u32 = 1;
const SEED: u64 = 7;
/// Length of the head of a segment.
const HEAD: usize = 64;
/// Length of the header of a frame.
const HEADER: usize = 48;
/// Length of the checksum and the length before the body of a record.
const RECORD: usize = 8;
/// Length of the head of a hint.
const HINT_HEAD: usize = 32;

/// Numbering of the commits of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Commits {
    AsGiven,
    /// Each is one more than the commit before it.
    InOrder,
}

/// A segment with correct checksums and lengths.
pub(super) fn correct_segment(bytes: &[u8], number: u8, commits: Commits) -> Vec<u8> {
    let mut out = segment_head(number);
    let mut rest = bytes.get(HEAD..).unwrap_or_default();
    let mut before: Option<u64> = None;
    while let Some((header, all)) = read_header(rest) {
        let len = (header.len as usize).min(all.len());
        let (records, later) = all.split_at(len);
        let mut header = FuzzFrameHeader { segment: number.into(), ..header };
        if commits == Commits::InOrder {
            let commit = before.map_or(header.commit, |before| before.saturating_add(1));
            header = FuzzFrameHeader { commit, synced: 0, oldest: 1, ..header };
        }
        before = Some(header.commit);
        put_frame(header, records, &mut out);
        rest = later.get((HEADER + len).next_multiple_of(8) - HEADER - len..).unwrap_or_default();
    }
    out
}

fn segment_head(number: u8) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend(u64::from(number).to_le_bytes());
    body.extend(SEED.to_le_bytes());
    body.resize(HEAD - 16, 0);
    with_magic(b"crorelog", &body)
}

/// A hint with a correct checksum.
pub(super) fn correct_hint(bytes: &[u8], number: u8) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend(u64::from(number).to_le_bytes());
    body.extend(SEED.to_le_bytes());
    body.extend(bytes.get(HINT_HEAD..).unwrap_or_default());
    with_magic(b"crorehnt", &body)
}

fn with_magic(magic: &[u8; 8], body: &[u8]) -> Vec<u8> {
    let mut out = magic.to_vec();
    out.extend(VERSION.to_le_bytes());
    out.extend(crc32c::crc32c(body).to_le_bytes());
    out.extend(body);
    out
}

/// The header of a frame without its checksum.
#[derive(Clone, Copy)]
struct FuzzFrameHeader {
    len: u32,
    segment: u64,
    commit: u64,
    synced: u64,
    oldest: u64,
    at: u64,
}

fn read_header(bytes: &[u8]) -> Option<(FuzzFrameHeader, &[u8])> {
    let (header, rest) = bytes.split_first_chunk::<HEADER>()?;
    let number = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("eight"));
    let len = u32::from_le_bytes(header[4..8].try_into().expect("four"));
    let (segment, commit, synced) = (number(8), number(16), number(24));
    Some((
        FuzzFrameHeader { len, segment, commit, synced, oldest: number(32), at: number(40) },
        rest,
    ))
}

fn put_frame(header: FuzzFrameHeader, bytes: &[u8], out: &mut Vec<u8>) {
    let (records, sum) = correct_records(bytes);
    let mut fields = Vec::with_capacity(HEADER);
    fields.extend(u32::try_from(records.len()).expect("it is short").to_le_bytes());
    for number in [header.segment, header.commit, header.synced, header.oldest, header.at] {
        fields.extend(number.to_le_bytes());
    }
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&SEED.to_le_bytes()), &fields);
    let checksum = crc32c::crc32c_append(checksum, &sum.to_le_bytes());
    let start = out.len();
    out.extend(checksum.to_le_bytes());
    out.extend(fields);
    out.extend(records);
    out.resize(start + (out.len() - start).next_multiple_of(8), 0);
}

/// Records with correct lengths and checksums, and the checksum over those checksums.
fn correct_records(mut bytes: &[u8]) -> (Vec<u8>, u32) {
    let (mut out, mut sum) = (Vec::new(), 0);
    while let Some((head, rest)) = bytes.split_first_chunk::<RECORD>() {
        let len = u32::from_le_bytes(head[4..].try_into().expect("four")) as usize;
        let (body, rest) = rest.split_at(len.min(rest.len()));
        bytes = rest;
        let len = u32::try_from(body.len()).expect("it is short").to_le_bytes();
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&len), body).to_le_bytes();
        sum = crc32c::crc32c_append(sum, &checksum);
        out.extend(checksum);
        out.extend(len);
        out.extend(body);
    }
    (out, sum)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crore_core::{Name, NewJob, Payload, Spec};
    use crore_store::embedded::disk::{Disk, MemoryDisk, OpenMode};
    use crore_store::embedded::{Embedded, Options};
    use crore_store::jobs::JobSelector;
    use crore_store::{Error, Jobs};
    use crore_testkit::FakeClock;

    use super::super::run;
    use super::*;
    use crate::sim_disk::SimDisk;

    fn open(disk: Arc<dyn Disk>) -> Result<Embedded, Error> {
        let options = Options { segment_bytes: 16 << 10, ..Options::default() };
        Embedded::open_on(disk, Arc::new(FakeClock::default()), options)
    }

    /// The first segment of a closed store with one job.
    fn segment() -> Vec<u8> {
        let disk = SimDisk::new(1);
        let store = open(Arc::new(disk.clone())).expect("an empty disk");
        let name = |text| Name::new("name", text).expect("a valid name");
        let job = NewJob::from(Spec::new(name("q"), name("k"), Payload::json("{}")));
        let _pushed = run(&store, store.push(vec![job].into())).expect("pushed");
        store.close().expect("closed");
        disk.image()["log-00000001"].clone()
    }

    #[test]
    fn a_store_opens_from_a_segment_of_this_encoder() {
        for commits in [Commits::AsGiven, Commits::InOrder] {
            let disk = Arc::new(MemoryDisk::new());
            let bytes = correct_segment(&segment(), 1, commits);
            let file = disk.open("log-00000001", OpenMode::Create).expect("a file");
            file.write(0, &bytes).expect("written");
            let store = open(disk).expect("valid files");
            let found =
                run(&store, store.get(vec![JobSelector::Id(crore_core::JobId(1))])).expect("read");
            assert!(found[0].is_some(), "{commits:?}: the job is there");
        }
    }
}
