//! The rounds of each kind of harm that run in every test run.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

use crore_store::SystemClock;
use crore_store::embedded::{Embedded, Options};
use crore_testkit::{Error, or_skip};

use super::child::ChildTask;
use super::child_handle::ChildHandle;
use super::harm::{HarmFailed, KIB_PER_MIB, SMALL, cut_power_repeatedly};
use super::ledger::EventTally;
use super::message::ChildMessage;
use super::rounds::Rounds;
use super::{Harm, harm, run_child};
use crore_testkit::mount::{FileSystem, Mounts};

/// Not a test: the child that the other tests start and kill.
#[test]
#[ignore = "the child process of other tests, which send its task on standard input"]
fn child() {
    run_child();
}

/// Runs the rounds, and checks that enough happened.
#[track_caller]
fn survives(kind: Harm, rounds: u32, seed: u64) {
    let tally = match harm(kind, rounds, seed) {
        Ok(tally) => Ok(tally),
        Err(HarmFailed::Unsupported(error)) => Err(error),
        Err(HarmFailed::Broken(broken)) => panic!("{broken}"),
    };
    let Some(tally) = or_skip(tally) else { return };
    println!("{tally:?}");
    let EventTally { pushed, granted, applied, .. } = tally;
    let least = u64::from(rounds);
    assert!(pushed > least && granted > least && applied > least, "too few: {tally:?}");
}

#[test]
fn nothing_is_lost_when_the_process_is_killed_100_times() {
    survives(Harm::Kill, 100, 1);
}

#[test]
fn nothing_is_lost_when_the_process_is_killed_100_other_times() {
    survives(Harm::Kill, 100, 2);
}

#[test]
fn nothing_is_lost_when_the_process_is_killed_100_times_more() {
    survives(Harm::Kill, 100, 3);
}

#[test]
fn nothing_is_lost_in_50_power_cuts() {
    survives(Harm::Power, 50, 4);
}

#[test]
fn nothing_is_lost_in_20_power_cuts_on_ext4() {
    survives(Harm::PowerExt4, 20, 5);
}

#[test]
fn nothing_is_lost_when_the_process_is_killed_on_a_full_disk() {
    survives(Harm::FullKill, 40, 6);
}

#[test]
fn a_full_disk_refuses_new_jobs_until_others_end() {
    survives(Harm::Full, 2, 7);
}

#[test]
fn a_disk_that_fails_ends_the_store_and_loses_nothing() {
    survives(Harm::Eio, 1, 8);
}

/// A power cut that loses nothing would prove nothing.
#[test]
fn a_store_that_does_not_sync_is_detected_by_a_power_cut() {
    let mounts = Mounts::with_image(128 * KIB_PER_MIB, FileSystem::Ext4, 64);
    let Some(mounts) = or_skip(mounts) else { return };
    let mut rounds = Rounds::new(mounts.inner().join("store"), SMALL, 9);
    rounds.task.is_durable = false;
    match cut_power_repeatedly(rounds, 20, &mounts) {
        Err(HarmFailed::Broken(why)) => {
            assert!(why.contains("(I1)") || why.contains("(I7)"), "{why}");
        }
        other => panic!("nothing was lost: {other:?}"),
    }
}

fn task(dir: &Path) -> ChildTask {
    Rounds::new(dir.to_owned(), SMALL, 1).task
}

#[test]
fn a_store_open_in_another_process_is_refused_with_path_and_process_id() {
    let dir = tempfile::tempdir().expect("a directory");
    let victim = ChildHandle::start(&task(dir.path()));
    victim.wait_ready();
    let refused = Embedded::open(dir.path(), Arc::new(SystemClock), Options::default());
    let refused = format!("{:?}", refused.expect_err("refused"));
    assert!(refused.contains(&dir.path().display().to_string()), "{refused}");
    assert!(refused.contains(&format!("process {}", victim.id())), "{refused}");
    victim.kill();
    Embedded::open(dir.path(), Arc::new(SystemClock), Options::default()).expect("free again");
}

#[test]
fn a_directory_without_permission_is_refused_with_its_path() {
    let dir = tempfile::tempdir().expect("a directory");
    let locked = dir.path().join("locked");
    fs::create_dir(&locked).expect("created");
    let as_root = fs::metadata(&locked).is_ok_and(|locked| locked.uid() == 0);
    let task = task(&locked);
    let victim = if as_root {
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).expect("set");
        fs::set_permissions(&locked, Permissions::from_mode(0o700)).expect("set");
        ChildHandle::start_as_nobody(&task)
    } else {
        fs::set_permissions(&locked, Permissions::from_mode(0o000)).expect("set");
        ChildHandle::start(&task)
    };
    victim.wait_ready();
    let message = match victim.kill().as_slice() {
        [ChildMessage::GaveUp(why)] => Ok(why.clone()),
        [] => Err(Error::Unable("nobody may run this program".to_owned())),
        other => panic!("it was opened: {other:?}"),
    };
    let Some(why) = or_skip(message) else { return };
    assert!(why.contains("PermissionDenied") && why.contains("locked"), "{why}");
}

#[test]
fn a_store_on_a_full_disk_is_refused_as_full_until_there_is_room() {
    let Some(mounts) = or_skip(Mounts::new(2 * KIB_PER_MIB)) else { return };
    let (dir, other) = (mounts.outer().join("store"), mounts.outer().join("other"));
    // Fills the disk.
    let _ = fs::write(&other, vec![1; 2 << 20]);
    let options = Options { segment_bytes: 256 << 10, ..Options::default() };
    match Embedded::open(&dir, Arc::new(SystemClock), options.clone()) {
        Err(crore_store::Error::Full { .. }) => {}
        Err(crore_store::Error::Unavailable(why)) => {
            assert!(format!("{why:?}").contains("StorageFull"), "{why:?}");
        }
        other => panic!("it was opened: {other:?}"),
    }
    fs::remove_file(&other).expect("removed");
    Embedded::open(&dir, Arc::new(SystemClock), options).expect("opened");
}
