//! Opens a store from arbitrary bytes: the body of the fuzz target, which tests run on a corpus.
//!
//! ```text
//! input = mode u8, then files: kind u8 (even: log, odd: hint), number u8, length u16, bytes
//! ```
//!
//! Without bit 0 of the mode the bytes are used as they are, and few inputs pass the first checksum. With it,
//! checksums and lengths are corrected first (`format`), which reaches the code behind them.

mod format;

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crore_core::version::KindVersions;
use crore_core::{JobId, Name, NewJob, Payload, Spec, State};
use crore_store::embedded::disk::{Disk, MemoryDisk, OpenMode};
use crore_store::embedded::{Embedded, Options};
use crore_store::jobs::{Claim, JobSelector, QueueOrder};
use crore_store::registry::RegistryTable;
use crore_store::views::ListQuery;
use crore_store::{Error, Jobs, Registry, StoreFuture, Upkeep, Views};
use crore_testkit::FakeClock;

use format::Commits;

/// Checksums and lengths are corrected.
const CORRECT: u8 = 1;
/// Commits are renumbered, and refer to no others.
const IN_ORDER: u8 = 2;
const SEGMENT_BYTES: u64 = 16 << 10;

/// Opens a store from this input. The store refuses it, or works and can be reopened. It must not panic,
/// hang, or use much more memory than the size of the input.
pub fn recover(input: &[u8]) {
    let Some((mode, rest)) = input.split_first() else { return };
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let mut rest = rest;
    while put_file(&*disk, *mode, &mut rest).is_some() {}
    let names = disk.list().unwrap_or_default();
    let has_hint = mode & CORRECT != 0 && names.iter().any(|name| name.starts_with("hint-"));
    let Ok(store) = open(&disk) else { return };
    exercise(&store);
    if store.close().is_err() {
        return;
    }
    match open(&disk) {
        Ok(store) => store.close().expect("nothing has changed"),
        // A hint with a correct checksum is trusted; a wrong one contradicts the log.
        Err(_) if has_hint => {}
        Err(error) => panic!("a closed store does not reopen: {error}"),
    }
}

fn open(disk: &Arc<dyn Disk>) -> Result<Embedded, Error> {
    let options = Options { segment_bytes: SEGMENT_BYTES, ..Options::default() };
    Embedded::open_on(Arc::clone(disk), Arc::new(FakeClock::default()), options)
}

fn put_file(disk: &dyn Disk, mode: u8, input: &mut &[u8]) -> Option<()> {
    let (&[kind, number, low, high], rest) = input.split_first_chunk()?;
    let len = usize::from(u16::from_le_bytes([low, high])).min(rest.len());
    let (bytes, rest) = rest.split_at(len);
    *input = rest;
    let is_log = kind % 2 == 0;
    let commits = if mode & IN_ORDER == 0 { Commits::AsGiven } else { Commits::InOrder };
    let bytes = match (mode & CORRECT != 0, is_log) {
        (false, _) => bytes.to_vec(),
        (true, true) => format::correct_segment(bytes, number, commits),
        (true, false) => format::correct_hint(bytes, number),
    };
    let name = if is_log { format!("log-{number:08}") } else { format!("hint-{number:08}") };
    let file = disk.open(&name, OpenMode::Create).expect("a valid name");
    file.write(0, &bytes).expect("it is short");
    Some(())
}

/// Calls every method once; a damage error is acceptable.
fn exercise(store: &Embedded) {
    let name = |text| Name::new("name", text).expect("a valid name");
    let mut ids = vec![JobId(1)];
    for state in State::ALL {
        let page = run(
            store,
            store.list(ListQuery { state, queue: None, kind: None, key: None, after: None, n: 50 }),
        );
        ids.extend(page.into_iter().flat_map(|page| page.jobs).map(|job| job.id));
    }
    for id in &ids {
        let _ = run(store, store.get(vec![JobSelector::Id(*id)]));
        let _ = run(store, store.notes(*id));
    }
    for table in [
        RegistryTable::Limits,
        RegistryTable::Queues,
        RegistryTable::Schedules,
        RegistryTable::Handlers,
        RegistryTable::Workers,
    ] {
        let _ = run(store, store.entries(table, None, 50));
    }
    let counts = run(store, store.counts(None)).unwrap_or_default();
    let mut queues: Vec<Name> = counts.into_iter().map(|count| count.queue).collect();
    queues.push(name("q"));
    queues.dedup();
    let job = NewJob::from(Spec::new(name("q"), name("k"), Payload::json("{}")));
    let pushed = run(store, store.push(vec![job.clone(), job].into()));
    let ask = Claim {
        queues,
        kinds: None,
        versions: KindVersions::default(),
        n: 20,
        order: QueueOrder::Merged,
        worker: name("w"),
    };
    let claimed = run(store, store.claim(ask));
    let _ = (pushed, claimed);
    let _ = run(store, store.promote(50));
    let _ = run(store, store.lapsed(50));
    let _ = run(store, store.prune(50));
    for _ in 0..40 {
        if !matches!((store.maintain_once(), store.commit_once()), (Ok(true), Ok(_))) {
            return;
        }
    }
}

fn run<T>(store: &Embedded, mut answer: StoreFuture<'_, T>) -> Result<T, Error> {
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..100 {
        if let Poll::Ready(answer) = answer.as_mut().poll(&mut context) {
            return answer;
        }
        store.commit_once()?;
    }
    panic!("no response after 100 commits");
}
