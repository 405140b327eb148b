//! A disk that was cut off is writable again after a remount, even if another process had copied all mounts.

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};

use crore_testkit::mount::{FileSystem, Mounts};
use crore_testkit::{DockerServer, or_skip};

fn disk() -> Option<Mounts> {
    or_skip(Mounts::with_image(96 << 10, FileSystem::Ext4, 64))
}

fn is_whole_after_a_power_cut(disk: &Mounts) {
    disk.cut_power().expect("cut");
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
