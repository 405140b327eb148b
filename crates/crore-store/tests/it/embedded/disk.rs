//! The contract of a disk, checked on every implementation.

use std::io::ErrorKind;
use std::sync::Arc;

use crore_conformance::sim_disk::SimDisk;
use crore_store::embedded::disk::{Directory, Disk, DiskFile, MemoryDisk, OpenMode};

type Promise = fn(&dyn Disk);

fn on_every_disk(promise: Promise) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    promise(&Directory::open(&folder.path().join("store")).expect("a directory"));
    promise(&MemoryDisk::new());
    promise(&SimDisk::new(7));
}

fn create(disk: &dyn Disk, name: &str) -> Arc<dyn DiskFile> {
    disk.open(name, OpenMode::Create).expect("a file")
}

/// Reads a whole file at once.
fn content(file: &dyn DiskFile) -> Vec<u8> {
    let mut buffer = vec![0xEE; 10_000];
    let n = file.read(0, &mut buffer).expect("bytes");
    buffer.truncate(n);
    buffer
}

#[test]
fn a_file_exists_from_creation_to_removal() {
    on_every_disk(|disk| {
        assert_eq!(disk.list().expect("names"), Vec::<String>::new());
        create(disk, "b.log");
        create(disk, "a-1");
        create(disk, "b.log");
        let mut names = disk.list().expect("names");
        names.sort();
        assert_eq!(names, ["a-1", "b.log"]);
        disk.remove("a-1").expect("removed");
        assert_eq!(disk.list().expect("names"), ["b.log"]);
    });
}

#[test]
fn a_missing_file_is_not_found_and_its_removal_does_nothing() {
    on_every_disk(|disk| {
        let error = disk.open("gone", OpenMode::Existing).expect_err("nothing to open");
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert_eq!(error.to_string(), "cannot open `gone`");
        assert_eq!(disk.list().expect("names"), Vec::<String>::new());
        disk.remove("gone").expect("nothing to do");
    });
}

#[test]
fn a_write_is_visible_through_every_handle() {
    on_every_disk(|disk| {
        let file = create(disk, "f");
        file.write(0, b"abcdef").expect("written");
        file.write(2, b"XY").expect("written");
        let other = disk.open("f", OpenMode::Existing).expect("it exists");
        assert_eq!(content(&*other), b"abXYef");
        other.write(6, b"g").expect("written");
        file.sync().expect("synced");
        assert_eq!(content(&*file), b"abXYefg");
        assert_eq!(content(&*create(disk, "f")), b"abXYefg", "creating it again truncates nothing");
    });
}

#[test]
fn a_gap_reads_as_zeros_and_an_empty_write_changes_nothing() {
    on_every_disk(|disk| {
        let file = create(disk, "f");
        file.write(9, b"").expect("written");
        assert_eq!(content(&*file), b"");
        file.write(3, b"x").expect("written");
        assert_eq!(content(&*file), b"\0\0\0x");
    });
}

#[test]
fn a_read_is_short_only_at_the_end() {
    on_every_disk(|disk| {
        let file = create(disk, "f");
        file.write(0, &[7; 5000]).expect("written");
        for (at, wanted, there) in
            [(0, 5000, 5000), (4999, 10, 1), (5000, 10, 0), (1 << 40, 10, 0), (10, 0, 0)]
        {
            let mut buffer = vec![0; wanted];
            let n = file.read(at, &mut buffer).expect("bytes");
            assert_eq!(n, there, "{wanted} bytes at {at}");
            assert!(buffer.iter().take(n).all(|byte| *byte == 7));
        }
    });
}

#[test]
fn a_removed_file_stays_readable_through_open_handles() {
    on_every_disk(|disk| {
        let old = create(disk, "f");
        old.write(0, b"old").expect("written");
        disk.remove("f").expect("removed");
        let new = create(disk, "f");
        assert_eq!(content(&*new), b"");
        old.write(3, b"er").expect("written");
        assert_eq!(content(&*old), b"older");
        assert_eq!(content(&*new), b"");
    });
}

#[test]
fn only_plain_file_names_are_accepted() {
    on_every_disk(|disk| {
        for name in ["", ".", "..", "a/b", "../f", "/f", "a..b", "a b", "ä", "a\0", "a_b", "lock"]
        {
            let opened = disk.open(name, OpenMode::Create).expect_err(name);
            assert_eq!(opened.kind(), ErrorKind::InvalidInput, "{name}");
            let removed = disk.remove(name).expect_err(name);
            assert_eq!(removed.kind(), ErrorKind::InvalidInput, "{name}");
        }
        assert!(disk.open(&"n".repeat(256), OpenMode::Create).is_err());
        assert_eq!(disk.list().expect("names"), Vec::<String>::new());
    });
}
