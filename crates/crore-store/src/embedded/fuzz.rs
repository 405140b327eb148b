//! Opening a store from arbitrary bytes: the body of the fuzz target, which tests run on a corpus.
//!
//! ```text
//! input = mode u8, then files: kind u8 (even: log, odd: hint), number u8, length u16, bytes
//! ```
//!
//! Without bit 0 of the mode the bytes are files as they are, and few get past the first checksum. With
//! it checksums and lengths are mended first, so that what lies behind them is reached.

#![expect(clippy::expect_used, reason = "a test panics, and says why")]

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crore_core::{JobId, Name, NewJob, Payload, Spec, State};
use crore_testkit::FakeClock;

use super::codec::{Put, Reader};
use super::disk::{Disk, InMemory, Open};
use super::frame::{self, HEADER, Header, RECORD};
use super::recover::hint_name;
use super::segment::{self, HEAD, Head, VERSION};
use super::{Embedded, Options};
use crate::jobs::{Claim, Order, Which};
use crate::registry::Table;
use crate::views::Query;
use crate::{Answer, Error, Jobs, Registry, Upkeep, Views};

const MEND: u8 = 1;
/// Commits follow each other, and say nothing of others.
const IN_ORDER: u8 = 2;
const SEED: u64 = 7;
const SIZE: u64 = 16 << 10;

/// Opens a store from this input. It is refused, or it works and can be opened again; nothing of it may
/// panic, hang, or take more memory than the input is worth.
pub fn recover(input: &[u8]) {
    let Some((mode, rest)) = input.split_first() else { return };
    let disk: Arc<dyn Disk> = Arc::new(InMemory::new());
    let mut reader = Reader::new(rest);
    while put_file(&*disk, *mode, &mut reader).is_some() {}
    let names = disk.list().unwrap_or_default();
    let has_hint = mode & MEND != 0 && names.iter().any(|name| segment::number(name).is_none());
    let Ok(store) = open(&disk) else { return };
    use_all(&store);
    if store.close().is_err() {
        return;
    }
    match open(&disk) {
        Ok(store) => store.close().expect("nothing has changed"),
        // A hint whose checksum is right is believed, and one that lies contradicts the log.
        Err(_) if has_hint => {}
        Err(error) => panic!("what was closed can be opened: {error}"),
    }
}

fn open(disk: &Arc<dyn Disk>) -> Result<Embedded, Error> {
    let options = Options { segment_bytes: SIZE, ..Options::DEFAULT };
    Embedded::open_on(Arc::clone(disk), Arc::new(FakeClock::default()), options)
}

fn put_file(disk: &dyn Disk, mode: u8, reader: &mut Reader<'_>) -> Option<()> {
    let (kind, number) = (reader.u8().ok()?, reader.u8().ok()?);
    let len = u16::from_le_bytes([reader.u8().ok()?, reader.u8().ok()?]);
    let rest = reader.rest();
    let bytes = reader.bytes(usize::from(len).min(rest.len())).ok()?;
    let is_log = kind % 2 == 0;
    let bytes = match (mode & MEND != 0, is_log) {
        (false, _) => bytes.to_vec(),
        (true, true) => mend_log(bytes, mode, number),
        (true, false) => mend_hint(bytes, number),
    };
    let name = if is_log { segment::name(number.into()) } else { hint_name(number.into()) };
    let file = disk.open(&name, Open::Create).expect("a good name");
    file.write(0, &bytes).expect("it is short");
    Some(())
}

/// A segment whose checksums are right.
fn mend_log(bytes: &[u8], mode: u8, number: u8) -> Vec<u8> {
    let head = Head { segment: number.into(), seed: SEED, size: 0 };
    let mut out = head.bytes();
    let mut rest = bytes.get(HEAD..).unwrap_or_default();
    let mut before = None;
    while let Ok((_, header)) = Header::read(rest) {
        let all = rest.get(HEADER..).unwrap_or_default();
        let len = (header.len as usize).min(all.len());
        let (records, later) = all.split_at(len);
        let header = mend_header(header, mode, (number, before));
        before = Some(header.commit);
        put_frame(header, records, &mut out);
        rest = later.get((HEADER + len).next_multiple_of(8) - HEADER - len..).unwrap_or_default();
    }
    out
}

fn mend_header(header: Header, mode: u8, (number, before): (u8, Option<u64>)) -> Header {
    let header = Header { segment: number.into(), ..header };
    if mode & IN_ORDER == 0 {
        return header;
    }
    let commit = before.map_or(header.commit, |before| before.saturating_add(1));
    Header { commit, synced: 0, oldest: 1, ..header }
}

fn put_frame(header: Header, records: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER]);
    let (mut sum, mut reader) = (0, Reader::new(records));
    while reader.rest().len() >= RECORD {
        let (Ok(_), Ok(len)) = (reader.u32(), reader.u32()) else { return };
        let len = (len as usize).min(reader.rest().len());
        let Ok(body) = reader.bytes(len) else { return };
        frame::append(out, &mut sum, |out| out.extend_from_slice(body));
    }
    let len = u32::try_from(out.len() - start - HEADER).expect("it is short");
    let bytes = Header { len, ..header }.bytes(SEED, sum);
    out.splice(start..start + HEADER, bytes);
    out.resize(start + (out.len() - start).next_multiple_of(8), 0);
}

/// A hint whose checksum is right.
fn mend_hint(bytes: &[u8], number: u8) -> Vec<u8> {
    let mut body = Vec::new();
    body.put_u64(number.into());
    body.put_u64(SEED);
    body.extend_from_slice(bytes.get(32..).unwrap_or_default());
    let mut out = b"crorehnt".to_vec();
    out.put_u32(VERSION);
    out.put_u32(crc32c::crc32c(&body));
    out.extend_from_slice(&body);
    out
}

/// Asks for everything once; damage is an answer.
fn use_all(store: &Embedded) {
    let name = |text| Name::new("name", text).expect("a good name");
    let mut ids = vec![JobId(1)];
    for state in State::ALL {
        let page =
            run(store, store.list(Query { state, queue: None, kind: None, after: None, n: 50 }));
        ids.extend(page.into_iter().flat_map(|page| page.jobs).map(|job| job.id));
    }
    for id in &ids {
        let _ = run(store, store.get(vec![Which::Id(*id)]));
        let _ = run(store, store.notes(*id));
    }
    for table in [Table::Limits, Table::Queues, Table::Schedules, Table::Handlers, Table::Workers] {
        let _ = run(store, store.entries(table, None, 50));
    }
    let counts = run(store, store.counts(None)).unwrap_or_default();
    let mut queues: Vec<Name> = counts.into_iter().map(|count| count.queue).collect();
    queues.push(name("q"));
    queues.dedup();
    let job = NewJob::from(Spec::new(name("q"), name("k"), Payload::json("{}")));
    let pushed = run(store, store.push(vec![job.clone(), job].into()));
    let ask = Claim { queues, kinds: None, n: 20, order: Order::Merged, worker: name("w") };
    let claimed = run(store, store.claim(ask));
    let _ = (pushed, claimed);
    let _ = run(store, store.promote(50));
    let _ = run(store, store.lapsed(50));
    let _ = run(store, store.prune(50));
    for _ in 0..40 {
        if !matches!((store.keep_once(), store.commit_once()), (Ok(true), Ok(_))) {
            return;
        }
    }
}

fn run<T>(store: &Embedded, mut answer: Answer<'_, T>) -> Result<T, Error> {
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..100 {
        if let Poll::Ready(answer) = answer.as_mut().poll(&mut context) {
            return answer;
        }
        store.commit_once()?;
    }
    panic!("an answer does not come, however much is committed");
}
