//! Files written by released versions open forever, with their content.
//!
//! `tests/fixtures/v1` was written by format version 1 (`VERSION` in `segment.rs`), with `cargo run
//! -p crore-store --example log -- make-fixture DIR`, and is never rewritten. `expected.txt` has
//! the content of the store.
//!
//! A new format version needs a new fixture, `tests/fixtures/v2`, made in the same way and added to
//! `ALL`; the older ones stay. A new field of a job under the same version makes `expected.txt`
//! differ here: add the field with its default to the older texts by hand.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crore_conformance::sim_disk::SimDisk;
use crore_core::{IndexKey, State};
use crore_store::views::ListQuery;
use crore_store::{Store, Views};

use super::image::{Image, look, segments};
use super::rich::{SteppedStore, describe, make};

/// Every released format.
const ALL: [&str; 1] = ["v1"];

fn fixture(version: &str) -> (Image, String) {
    let dir: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(version);
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(&dir).expect("the fixture is there") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        files.insert(name, fs::read(&path).expect("bytes"));
    }
    let expected = files.remove("expected.txt").expect("what it holds");
    (files, String::from_utf8(expected).expect("text"))
}

#[test]
fn files_of_every_released_version_open() {
    for version in ALL {
        let (image, expected) = fixture(version);
        let disk = SimDisk::from_image(image.clone(), 1);
        let hand = SteppedStore::open(Arc::new(disk.clone())).expect("it opens");
        assert_eq!(describe(&hand), expected, "{version}");
        let keys = found_by_key(&hand);
        assert!(keys >= 2, "{version}: it has labels and errors");
        assert_eq!(hand.store.open_report().unfinished, None);
        hand.settle();
        drop(hand);
        let again = SteppedStore::open(Arc::new(disk)).expect("it opens again");
        assert_eq!(describe(&again), expected, "{version}, opened twice");
        assert_eq!(found_by_key(&again), keys, "{version}, opened twice");
    }
}

/// Checks that each job with labels or an error is found by its keys, and returns the number of these keys.
fn found_by_key(hand: &SteppedStore) -> usize {
    let list = |state, key| {
        let query = ListQuery { state, queue: None, kind: None, key, after: None, n: 10_000 };
        hand.get(|store| store.list(query)).jobs
    };
    let mut count = 0;
    for state in State::ALL {
        for job in list(state, None) {
            for key in IndexKey::of_job(&job) {
                assert!(list(state, Some(key)).contains(&job), "{job:?}");
                count += 1;
            }
        }
    }
    count
}

#[test]
fn a_store_without_an_identity_gets_one_when_it_is_opened() {
    let (image, _) = fixture(ALL[0]);
    let open = |disk: SimDisk| SteppedStore::open(Arc::new(disk)).expect("it opens").store;
    let disk = SimDisk::from_image(image.clone(), 1);
    let id = open(disk.clone()).store_id();
    assert_eq!(open(disk.crash(7)).store_id(), id, "after a power failure");
    let copy = SimDisk::from_image(image, 1);
    assert_ne!(open(copy).store_id(), id, "it is drawn, and not computed from the files");
}

#[test]
fn a_fixture_has_something_of_everything() {
    for version in ALL {
        let (image, expected) = fixture(version);
        let report = look(&image);
        assert!(report.is_good(), "{report}");
        assert_eq!(report.jobs.len(), 7, "a job in every state: {report}");
        assert!(report.segments >= 3 && image.keys().any(|name| name.starts_with("hint-")));
        assert!(segments(&image)[0].0 > 1, "the first segment was freed and its records moved");
        let bytes: usize = image.values().map(Vec::len).sum();
        assert!(bytes <= 64 << 10, "{version} has {bytes} bytes");
        for word in ["notes ", "leader No", "group ", "entry Schedules", "\"history\":[{", "👗"] {
            assert!(expected.contains(word), "{word}");
        }
    }
}

#[test]
fn this_version_holds_what_the_newest_fixture_holds() {
    let disk = SimDisk::new(1);
    make(Arc::new(disk.clone()));
    let hand = SteppedStore::open(Arc::new(disk)).expect("opened");
    let newest = ALL.last().expect("a version");
    assert_eq!(
        describe(&hand),
        fixture(newest).1,
        "the generator has changed: create a new fixture"
    );
}
