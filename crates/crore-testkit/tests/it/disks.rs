//! Power cuts: what was acknowledged before is still there, and the disk is writable again after a remount, even if
//! another process had copied all mounts.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use crore_testkit::mount::{FileSystem, Mounts};
use crore_testkit::{DockerServer, or_skip};

fn disk() -> Option<Mounts> {
    or_skip(Mounts::with_image(96 << 10, FileSystem::Ext4, 64))
}

fn is_whole_after_a_power_cut(disk: &Mounts) {
    disk.cut_power(None).expect("cut");
    disk.unmount().expect("nobody has a file open");
    disk.mount().expect("mounted");
    fs::write(disk.inner().join("a"), "b").expect("it is writable again");
}

#[test]
fn a_disk_is_released_when_the_last_copy_of_its_mount_is_gone() {
    let Some(disk) = disk() else { return };
    let holder = Command::new("unshare")
        .args(["--mount", "/bin/sh", "-c", "echo; exec sleep 0.5"])
        .stdout(Stdio::piped())
        .spawn();
    let mut holder = holder.expect("a mount namespace");
    let mut byte = [0];
    holder.stdout.take().expect("a pipe").read_exact(&mut byte).expect("it is copied");
    is_whole_after_a_power_cut(&disk);
    holder.wait().expect("it ends");
}

#[test]
fn a_container_engine_does_not_hold_disks_of_other_tests() {
    let Some(disk) = disk() else { return };
    let Some(_docker) = or_skip(DockerServer::start()) else { return };
    is_whole_after_a_power_cut(&disk);
}

/// The environment variable that contains the directory of [`writer`].
const WRITER_DIR: &str = "CRORE_TESTKIT_WRITER_DIR";
const BLOCK: usize = 4096;

/// Not a test: a process that appends blocks to a file and prints the number of each after its sync. Other threads
/// create files, so that the journal of the file system is always busy.
#[test]
#[ignore = "the process whose power other tests cut; they pass its directory in the environment"]
fn writer() {
    let Some(dir) = std::env::var_os(WRITER_DIR).map(PathBuf::from) else { return };
    thread::scope(|scope| {
        for n in 0..2 {
            let dir = &dir;
            scope.spawn(move || while create_and_sync(&dir.join(format!("other-{n}"))).is_ok() {});
        }
        println!();
        let file = fs::File::create(dir.join("blocks")).expect("created");
        for n in 0_u64.. {
            let mut block = [0; BLOCK];
            block[..8].copy_from_slice(&n.to_le_bytes());
            let written = file.write_all_at(&block, n * BLOCK as u64);
            if written.and_then(|()| file.sync_data()).is_err() {
                break;
            }
            println!("synced {n}");
        }
    });
}

fn create_and_sync(path: &Path) -> std::io::Result<()> {
    // The file does not exist the first time.
    let _ = fs::remove_file(path);
    let file = fs::File::create(path)?;
    for part in 0..4 {
        file.write_all_at(&[0; 1 << 16], part << 16)?;
        file.sync_data()?;
    }
    Ok(())
}

/// Fails in every second round if the writer runs on while its file system is shut down.
#[test]
fn a_power_cut_loses_nothing_that_was_acknowledged() {
    let Some(disk) = disk() else { return };
    for _ in 0..10 {
        let writer = Command::new(std::env::current_exe().expect("this program"))
            .args(["disks::writer", "--exact", "--ignored", "--nocapture"])
            .env(WRITER_DIR, disk.inner())
            .stdout(Stdio::piped())
            .spawn();
        let mut writer = writer.expect("started");
        let mut lines =
            BufReader::new(writer.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
        let number = |line: String| line.strip_prefix("synced ")?.parse::<u64>().ok();
        assert_eq!(lines.by_ref().find_map(|line| number(line).filter(|n| *n >= 20)), Some(20));
        disk.cut_power(Some(writer.id())).expect("cut");
        writer.kill().expect("it is stopped");
        writer.wait().expect("it ends");
        let last = lines.filter_map(number).last().unwrap_or(20);
        disk.unmount().expect("nobody has a file open");
        disk.mount().expect("mounted");
        let blocks = fs::read(disk.inner().join("blocks")).expect("it is there");
        let found = blocks
            .as_chunks::<BLOCK>()
            .0
            .iter()
            .zip(0_u64..)
            .filter(|(block, n)| block.starts_with(&n.to_le_bytes()));
        assert!(found.count() as u64 > last, "block {last} was acknowledged");
    }
}
