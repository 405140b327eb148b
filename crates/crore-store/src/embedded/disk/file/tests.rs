#![expect(clippy::expect_used, reason = "a test may panic")]

use std::error::Error;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::super::{Disk, OpenMode};
use super::Directory;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it exists").permissions().mode() & 0o777
}

#[test]
fn second_opening_is_refused_and_names_the_holder() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let first = Directory::open(folder.path()).expect("free");
    let error = Directory::open(folder.path()).expect_err("held");
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    let message = error.to_string();
    assert!(message.contains(&format!("process {}", std::process::id())), "{message}");
    assert!(message.contains(&*folder.path().to_string_lossy()), "{message}");
    drop(first);
    Directory::open(folder.path()).expect("free again");
}

#[test]
fn locked_directory_without_a_process_id_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let other = fs::File::create(folder.path().join("lock")).expect("a lock");
    other.lock().expect("locked");
    let error = Directory::open(folder.path()).expect_err("held");
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    assert!(error.to_string().starts_with("another process has"), "{error}");
}

#[test]
fn stale_lock_file_does_not_block_opening() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("lock"), "4294967294 and more").expect("left over");
    let held = Directory::open(folder.path()).expect("free");
    let left = fs::read_to_string(folder.path().join("lock")).expect("a lock");
    assert_eq!(left, format!("{}\n", std::process::id()));
    drop(held);
}

#[test]
fn an_open_file_keeps_the_lock() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let directory = Directory::open(folder.path()).expect("free");
    let file = directory.open("f", OpenMode::Create).expect("a file");
    drop(directory);
    assert!(Directory::open(folder.path()).is_err());
    drop(file);
    Directory::open(folder.path()).expect("free");
}

#[test]
fn created_files_are_accessible_to_the_owner_only() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("above").join("store");
    let directory = Directory::open(&path).expect("created");
    directory.open("f", OpenMode::Create).expect("a file");
    assert_eq!(mode(&path), 0o700);
    assert_eq!(mode(&path.join("f")), 0o600);
    assert_eq!(mode(&path.join("lock")), 0o600);
}

#[test]
fn foreign_entries_are_not_listed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let directory = Directory::open(folder.path()).expect("free");
    fs::write(folder.path().join("some notes"), "").expect("written");
    fs::create_dir(folder.path().join("inner")).expect("created");
    directory.open("f", OpenMode::Create).expect("a file");
    assert_eq!(directory.list().expect("names"), ["f"]);
}

#[test]
fn content_survives_reopening() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let directory = Directory::open(folder.path()).expect("free");
    let file = directory.open("f", OpenMode::Create).expect("a file");
    file.write(1, b"kept").expect("written");
    file.sync().expect("synced");
    drop((directory, file));
    let directory = Directory::open(folder.path()).expect("free");
    let file = directory.open("f", OpenMode::Existing).expect("a file");
    let mut buffer = [9; 8];
    assert_eq!(file.read(0, &mut buffer).expect("bytes"), 5);
    assert_eq!(&buffer, b"\0kept\x09\x09\x09");
}

#[test]
fn error_names_the_file_and_keeps_its_source() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let directory = Directory::open(folder.path()).expect("free");
    fs::create_dir(folder.path().join("inner")).expect("created");
    let error = directory.open("inner", OpenMode::Existing).expect_err("no file");
    assert_eq!(error.kind(), ErrorKind::IsADirectory);
    assert_eq!(error.to_string(), "cannot open `inner`");
    let source = error.source().expect("the machine's own");
    let own = source.downcast_ref::<std::io::Error>().expect("a system error");
    assert!(own.raw_os_error().is_some());
}

#[test]
fn a_file_in_the_place_of_the_directory_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("store");
    fs::write(&path, "").expect("written");
    let error = Directory::open(&path).expect_err("no directory");
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    assert!(Directory::open(&path.join("below")).is_err());
}

#[test]
fn empty_path_is_refused() {
    let error = Directory::open(Path::new("")).expect_err("no directory");
    assert_eq!(error.kind(), ErrorKind::NotFound);
}
