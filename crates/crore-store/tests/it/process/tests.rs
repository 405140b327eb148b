//! So many rounds of each harm as a change must pass.

use crore_testkit::or_skip;

use super::harm::Failed;
use super::ledger::Tally;
use super::{Harm, harm, run_child};

/// Not a test: what the others start, kill and start again.
#[test]
#[ignore = "the child of other tests, which say on its standard input what it is to do"]
fn child() {
    run_child();
}

/// Runs it, and makes sure that it saw something.
#[track_caller]
fn survives(kind: Harm, rounds: u32, seed: u64) {
    let tally = match harm(kind, rounds, seed) {
        Ok(tally) => Ok(tally),
        Err(Failed::Here(error)) => Err(error),
        Err(Failed::Broken(broken)) => panic!("{broken}"),
    };
    let Some(tally) = or_skip(tally) else { return };
    println!("{tally:?}");
    let Tally { pushed, granted, applied, .. } = tally;
    let least = u64::from(rounds);
    assert!(pushed > least && granted > least && applied > least, "too little: {tally:?}");
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
fn nothing_is_lost_when_the_power_goes_50_times() {
    survives(Harm::Power, 50, 4);
}

#[test]
fn nothing_is_lost_when_the_power_goes_20_times_on_ext4() {
    survives(Harm::PowerExt4, 20, 5);
}

#[test]
fn nothing_is_lost_when_the_process_is_killed_on_a_full_disk() {
    survives(Harm::FullKill, 40, 6);
}

#[test]
fn a_full_disk_refuses_what_is_new_and_has_room_again_when_jobs_end() {
    survives(Harm::Full, 2, 7);
}

#[test]
fn a_disk_that_fails_ends_the_store_and_loses_nothing() {
    survives(Harm::Eio, 1, 8);
}
