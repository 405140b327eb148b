//! Chaos finds servers that break a promise.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use crore_chaos::{ChaosError, ChaosFault, ChaosPlan, run};
use crore_testkit::{Error, or_skip};

use crate::{SERVER, plan};

/// Returns the promises that the server broke; panics if none is found broken.
#[track_caller]
fn broken_promises(plan: &ChaosPlan) -> Option<Vec<u8>> {
    for seed in 1..6 {
        match run(&ChaosPlan { seed, keep: false, ..plan.clone() }) {
            Ok(_) => {}
            Err(ChaosError::Broken(broken)) => {
                println!("{broken}");
                let again = ChaosPlan { seed, ..plan.clone() }.command();
                let last = broken.to_string().lines().last().map(str::to_owned);
                assert_eq!(last, Some(format!("repeat with: {again}")));
                return Some(broken.promises);
            }
            Err(ChaosError::CannotRun(error)) => return or_skip(Err::<Vec<u8>, Error>(error)),
        }
    }
    panic!("nothing is detected: {plan:?}");
}

#[test]
fn a_server_that_responds_before_it_syncs_is_detected_by_a_power_cut() {
    let mut plan = plan(ChaosFault::PowerExt4, 15, 0);
    plan.set.push("store.durability=none".to_owned());
    let Some(promises) = broken_promises(&plan) else { return };
    assert!(promises.contains(&1), "{promises:?}");
}

/// Starts the server on an empty directory every time.
const FORGETFUL_SERVER: &str = r#"#!/bin/sh
for word in "$@"; do
    if [ "$before" = --data ]; then rm -rf "$word"; fi
    before=$word
done
exec "#;

#[test]
fn a_server_that_loses_everything_is_detected_by_a_kill() {
    let dir = tempfile::tempdir().expect("a directory");
    let script = dir.path().join("server");
    fs::write(&script, format!("{FORGETFUL_SERVER}{} \"$@\"\n", SERVER.display()))
        .expect("written");
    fs::set_permissions(&script, Permissions::from_mode(0o755)).expect("set");
    let plan = ChaosPlan { server: script, ..plan(ChaosFault::Kill, 10, 0) };
    let promises = broken_promises(&plan).expect("it runs everywhere");
    assert!(promises.contains(&1), "{promises:?}");
}
