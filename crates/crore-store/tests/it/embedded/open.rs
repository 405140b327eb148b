//! Refusals of opening, and how the store handles clock jumps and extreme payloads. Other
//! processes, full disks and missing permissions are in `process/tests.rs`.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use crore_conformance::sim_disk::SimDisk;
use crore_core::fair::FairKey;
use crore_core::job::DueTime;
use crore_core::machine::{JobEvent, Outcome, decide};
use crore_core::version::{KindVersions, VersionRequirement};
use crore_core::{Batch, Caps, Clock, Code, Encoding, Job, Name, NewJob, Payload, Span, Spec};
use crore_store::embedded::disk::{Directory, Disk, MemoryDisk, OpenMode};
use crore_store::embedded::{Embedded, Options, StoreHealth};
use crore_store::jobs::{Claim, JobSelector, Pushed, QueueOrder, StoreWrite};
use crore_store::{Error, Jobs, Store, Upkeep};
use crore_testkit::FakeClock;
use tempfile::TempDir;

use super::driven::run;
use super::script::run_keeper_to_end;
use crate::process::wait;

const HOUR: Span = Span::from_secs(3600);
const DAY: Span = Span::from_secs(86_400);

fn dir() -> TempDir {
    tempfile::tempdir().expect("a directory")
}

fn open_at(dir: &Path, clock: &FakeClock) -> Result<Embedded, Error> {
    let options = Options { segment_bytes: 64 << 10, ..Options::default() };
    Embedded::open(dir, Arc::new(clock.clone()), options)
}

fn open(dir: &Path) -> Result<Embedded, Error> {
    open_at(dir, &FakeClock::default())
}

fn name(text: &str) -> Name {
    Name::new("name", text).expect("a valid name")
}

fn job(bytes: impl Into<Arc<[u8]>>) -> NewJob {
    Spec::new(name("q"), name("work"), Payload::new(Encoding::Bytes, bytes)).into()
}

fn finished(job: &Job) -> JobEvent {
    let report = Outcome::Done { result: None }.into();
    JobEvent::Finished { delivery: Some(job.live.delivery), report }
}

fn push(store: &Embedded, job: NewJob) -> JobSelector {
    let pushed = wait(store.push(job.into())).expect("pushed").into_inner();
    JobSelector::Id(pushed.jobs.first().and_then(|pushed| pushed.id()).expect("an id"))
}

/// The payloads of all claimable jobs, in order.
fn claim(store: &Embedded) -> Vec<Vec<u8>> {
    wait(store.promote(100)).expect("promoted");
    let (queues, worker) = (vec![name("q")], name("w"));
    let ask = Claim {
        queues,
        kinds: None,
        versions: KindVersions::default(),
        n: 100,
        order: QueueOrder::Merged,
        worker,
    };
    let claimed = wait(store.claim(ask)).expect("claimed");
    claimed.jobs.iter().map(|job| job.spec.payload.bytes.to_vec()).collect()
}

#[test]
fn a_small_store_is_small() {
    let disk = SimDisk::new(1);
    let clock = Arc::new(FakeClock::default());
    let store = Embedded::open_on(Arc::new(disk.clone()), clock, Options::default());
    let store = store.expect("opened");
    for _ in 0..100 {
        let _ = run(&store, store.push(job(*b"one").into())).expect("pushed");
    }
    run_keeper_to_end(&store);
    let bytes: usize = disk.image().values().map(Vec::len).sum();
    // The current file, the next one, and the reserve.
    assert_eq!(bytes, (1 + 4 + 16) << 20);
}

/// Adds twenty jobs, removes them, and lets the keeper release what it can.
fn push_and_delete(store: &Embedded) {
    let pushed = run(store, store.push(vec![job([7; 200]); 20].into())).expect("pushed");
    let ids = pushed.into_inner().jobs.into_iter().filter_map(Pushed::id);
    let jobs = run(store, store.get(ids.map(JobSelector::Id).collect())).expect("read");
    let delete = |job: &Job| StoreWrite::Job(decide(job, &JobEvent::Delete, 0).expect("deleted"));
    let _ = run(store, store.apply(jobs.iter().flatten().map(delete).collect())).expect("deleted");
    while store.maintain_once().expect("kept") {
        store.commit_once().expect("committed");
    }
}

#[test]
fn the_identity_of_a_store_survives_reopening_compaction_and_backup() {
    let (first, other, copy) = (dir(), dir(), dir());
    let store = open(first.path()).expect("opened");
    let id = store.store_id();
    assert_ne!(open(other.path()).expect("opened").store_id(), id);
    drop(store);
    let disk = Arc::new(Directory::open(first.path()).expect("a directory"));
    let options = Options { segment_bytes: 64 << 10, ..Options::default() };
    let store = Embedded::open_on(disk, Arc::new(FakeClock::default()), options).expect("opened");
    for _ in 0..60 {
        push_and_delete(&store);
    }
    let oldest = fs::read(first.path().join("log-00000001")).unwrap_or_default();
    let first_segment = 1_u64.to_le_bytes();
    assert_ne!(oldest.get(16..24), Some(&first_segment[..]), "the first segment is released");
    store.backup(copy.path()).expect("copied");
    drop(store);
    for dir in [&first, &copy] {
        assert_eq!(open(dir.path()).expect("opened").store_id(), id);
    }
}

#[test]
fn a_directory_with_other_files_is_refused_with_their_names_and_unchanged() {
    let dir = dir();
    fs::write(dir.path().join("letter.txt"), "dear").expect("written");
    let refused = open(dir.path()).expect_err("refused");
    assert_eq!(refused.code(), Code::Foreign);
    assert!(refused.to_string().contains("letter.txt"), "{refused}");
    assert_eq!(fs::read(dir.path().join("letter.txt")).expect("read"), b"dear");
}

#[test]
fn a_store_of_a_newer_version_is_refused_and_unchanged() {
    let dir = dir();
    open(dir.path()).expect("created").close().expect("closed");
    let logs = || fs::read_dir(dir.path()).expect("listed").map(|entry| entry.expect("one").path());
    let first = logs().filter(|path| path.to_string_lossy().contains("log-")).min().expect("a log");
    let file = OpenOptions::new().write(true).open(&first).expect("opened");
    file.write_all_at(&7_u32.to_le_bytes(), 8).expect("written");
    let before = fs::read(&first).expect("read");
    let refused = open(dir.path()).expect_err("refused");
    assert_eq!(refused.code(), Code::Foreign);
    assert!(refused.to_string().contains("version 7"), "{refused}");
    assert_eq!(fs::read(&first).expect("read"), before);
    file.write_all_at(&1_u32.to_le_bytes(), 8).expect("written");
    open(dir.path()).expect("as it was");
}

#[test]
fn a_path_that_is_a_file_is_refused_with_its_path() {
    let dir = dir();
    let path = dir.path().join("file");
    fs::write(&path, "x").expect("written");
    let refused = format!("{:?}", open(&path).expect_err("refused"));
    assert!(refused.contains(&path.display().to_string()), "{refused}");
}

#[test]
fn a_store_open_in_the_same_process_is_refused_until_dropped() {
    let dir = dir();
    let store = open(dir.path()).expect("opened");
    let refused = format!("{:?}", open(dir.path()).expect_err("refused"));
    assert!(refused.contains(&dir.path().display().to_string()), "{refused}");
    assert!(refused.contains(&format!("process {}", std::process::id())), "{refused}");
    store.close().expect("closed");
    drop(store);
    drop(open(dir.path()).expect("opened again"));
    open(dir.path()).expect("and after a drop");
}

#[test]
fn a_clock_jump_back_reverts_nothing_and_keeps_the_order() {
    let (dir, clock) = (dir(), FakeClock::default());
    let store = open_at(dir.path(), &clock).expect("opened");
    push(&store, job(*b"first"));
    clock.set(FakeClock::START.before(HOUR));
    push(&store, job(*b"second"));
    drop(store);
    let store = open_at(dir.path(), &clock).expect("opened an hour before it was closed");
    push(&store, job(*b"third"));
    assert_eq!(claim(&store), [&b"first"[..], b"second", b"third"]);
}

#[test]
fn a_clock_jump_back_delivers_nothing_early_and_one_ahead_loses_nothing() {
    let (dir, clock) = (dir(), FakeClock::default());
    let later = |text: &[u8], span| NewJob { due: DueTime::After(span), ..job(text) };
    let store = open_at(dir.path(), &clock).expect("opened");
    push(&store, later(b"soon", Span::from_secs(60)));
    push(&store, later(b"late", DAY));
    clock.set(FakeClock::START.before(HOUR));
    assert_eq!(claim(&store), [b""; 0]);
    drop(store);
    let store = open_at(dir.path(), &clock).expect("opened");
    assert_eq!(claim(&store), [b""; 0]);
    clock.set(FakeClock::START.after(Span::from_millis(59_999)));
    assert_eq!(claim(&store), [b""; 0]);
    clock.set(FakeClock::START.after(DAY).after(HOUR));
    assert_eq!(claim(&store), [&b"soon"[..], b"late"]);
    clock.set(FakeClock::START);
    drop(store);
    let store = open_at(dir.path(), &clock).expect("opened a day before it was closed");
    let id = push(&store, job(*b"new"));
    let pushed = wait(store.get(vec![id])).expect("got").into_iter().flatten().next();
    let pushed_at = pushed.expect("it exists").live.pushed_at;
    assert!(pushed_at > clock.now(), "the time of the store never decreases: {pushed_at:?}");
    assert_eq!(claim(&store), [b"new"]);
}

#[test]
fn empty_maximum_and_larger_payloads_read_back_unchanged() {
    let (dir, caps) = (dir(), Caps::default());
    let sizes = [0, 1, caps.payload_bytes, caps.payload_bytes + 1];
    let payload = |n: usize| (0..n).map(|i| (i * 7) as u8).collect::<Vec<u8>>();
    let check = |n| job(payload(n)).check(&caps, FakeClock::START).map_err(|error| error.code);
    assert_eq!(sizes.map(check), [Ok(()), Ok(()), Ok(()), Err(Code::PayloadTooLarge)]);
    let many = vec![job(payload(caps.payload_bytes)); caps.batch_bytes / caps.payload_bytes + 1];
    let refused = Batch::from(many).check(&caps).map_err(|error| error.code);
    assert_eq!(refused, Err(Code::BatchTooLarge));
    // The store itself does not limit payloads.
    let store = open(dir.path()).expect("opened");
    let ids = sizes.map(|n| push(&store, job(payload(n))));
    drop(store);
    let store = open(dir.path()).expect("opened again");
    let jobs = wait(store.get(ids.to_vec())).expect("got");
    for (job, n) in jobs.iter().zip(sizes) {
        let job = job.as_ref().expect("it exists");
        assert!(*job.spec.payload.bytes == *payload(n), "{n} bytes have changed");
    }
}

#[test]
fn a_store_that_cannot_release_its_oldest_segment_reports_it() {
    let dir = dir();
    let options = Options { segment_bytes: 64 << 10, ..Options::default() };
    let disk = Arc::new(Directory::open(dir.path()).expect("a directory"));
    let store = Embedded::open_on(disk.clone(), Arc::new(FakeClock::default()), options);
    let store = store.expect("opened");
    assert_eq!(store.health(), StoreHealth::default());
    for _ in 0..60 {
        let _ = run(&store, store.push(vec![job([7; 200]); 20].into())).expect("pushed");
    }
    let ask = |n| Claim {
        queues: vec![name("q")],
        kinds: None,
        versions: KindVersions::default(),
        n,
        order: QueueOrder::Merged,
        worker: name("w"),
    };
    let kept = run(&store, store.claim(ask(1))).expect("claimed").jobs;
    let ended = run(&store, store.claim(ask(1199))).expect("claimed").jobs;
    let delete = |job: &Job| StoreWrite::Job(decide(job, &JobEvent::Delete, 0).expect("deleted"));
    let finish = |job: &Job| StoreWrite::Job(decide(job, &finished(job), 0).expect("finished"));
    let _ = run(&store, store.apply(ended.iter().map(finish).collect())).expect("finished");
    let ids: Vec<JobSelector> = ended.iter().map(|job| job.id.into()).collect();
    let ended = run(&store, store.get(ids)).expect("found");
    let _ =
        run(&store, store.apply(ended.iter().flatten().map(delete).collect())).expect("deleted");
    assert_eq!(kept.len(), 1);
    let oldest = disk.list().expect("listed").into_iter().filter(|name| name.starts_with("log-"));
    let oldest = disk.open(&oldest.min().expect("a file"), OpenMode::Existing).expect("opened");
    oldest.write(64, &[0xff; 64]).expect("written");
    while store.maintain_once().expect("kept") {
        store.commit_once().expect("committed");
    }
    let stuck = store.health().stuck.expect("it says so");
    assert!(stuck.contains("`log-") && stuck.contains("offset 64"), "{stuck}");
}

/// The first files are small: a claim of many jobs that finds none continues in the second file, in which a large batch
/// has no space either.
#[test]
fn a_batch_larger_than_an_empty_file_does_not_leave_it_empty() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let open = || {
        let clock = Arc::new(FakeClock::default());
        Embedded::open_on(Arc::clone(&disk), clock, Options::default())
    };
    let store = open().expect("a new store");
    run_keeper_to_end(&store);
    let queues = vec![name("q")];
    let many = Claim {
        queues,
        kinds: None,
        versions: KindVersions::default(),
        n: 10_000,
        order: QueueOrder::Merged,
        worker: name("w"),
    };
    assert!(run(&store, store.claim(many)).expect("claimed").jobs.is_empty());
    run_keeper_to_end(&store);
    let batch: Vec<NewJob> = (0..6).map(|_| job(vec![7; 1 << 20])).collect();
    let pushed = run(&store, store.push(batch.into())).expect("pushed").into_inner();
    assert_eq!(pushed.jobs.len(), 6);
    store.close().expect("closed");
    drop(store);
    let store = open().expect("the store reopens");
    let id = pushed.jobs.first().and_then(|pushed| pushed.id()).expect("an id");
    let found = run(&store, store.get(vec![JobSelector::Id(id)])).expect("read");
    assert!(found[0].is_some());
}

/// Jobs whose segment has a hint are opened from the hint, without reading their specs.
#[test]
fn a_store_opened_from_hints_knows_required_versions() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let open = || {
        let options = Options { segment_bytes: 64 << 10, ..Options::default() };
        Embedded::open_on(Arc::clone(&disk), Arc::new(FakeClock::default()), options)
    };
    let store = open().expect("a new store");
    let versioned = |text: &str| {
        let mut job = job([7; 200]);
        let required = VersionRequirement::parse("worker_version", text).expect("a requirement");
        job.spec.worker_version = Some(Box::new(required));
        job
    };
    for _ in 0..30 {
        let mut batch = vec![job([7; 200]), versioned(">=2"), versioned("=2.3")];
        batch[2].spec.fair = Some(FairKey::new(Some("acme".into())));
        let _ = run(&store, store.push(vec![batch; 10].concat().into())).expect("pushed");
        run_keeper_to_end(&store);
    }
    store.close().expect("closed");
    drop(store);
    let hints = disk.list().expect("listed").into_iter().filter(|name| name.starts_with("hint-"));
    let magic = |name: String| {
        let file = disk.open(&name, OpenMode::Existing).expect("opened");
        let mut magic = [0; 8];
        file.read(0, &mut magic).expect("read");
        magic
    };
    let magics: Vec<[u8; 8]> = hints.map(magic).collect();
    assert!(magics.contains(b"crorehni"), "{magics:?}");
    let store = open().expect("the store reopens");
    let ask = |versions: &[(&str, &str)]| Claim {
        queues: vec![name("q")],
        kinds: None,
        versions: KindVersions::parse(versions.iter().copied()).expect("versions"),
        n: 1000,
        order: QueueOrder::Merged,
        worker: name("w"),
    };
    let counts = [ask(&[]), ask(&[("work", "2")]), ask(&[("work", "2.3.9")])]
        .map(|ask| run(&store, store.claim(ask)).expect("claimed").jobs.len());
    assert_eq!(counts, [300, 300, 300]);
}
