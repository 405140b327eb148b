//! Servers that lie, and must be found out.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use crore_chaos::{Failed, Harm, Plan, run};
use crore_testkit::{Error, or_skip};

use crate::{SERVER, plan};

/// Which promises a server breaks, of which that is expected.
#[track_caller]
fn found_out(plan: &Plan) -> Option<Vec<u8>> {
    for seed in 1..6 {
        match run(&Plan { seed, keep: false, ..plan.clone() }) {
            Ok(_) => {}
            Err(Failed::Broken(broken)) => {
                println!("{broken}");
                let again = Plan { seed, ..plan.clone() }.command();
                let last = broken.to_string().lines().last().map(str::to_owned);
                assert_eq!(last, Some(format!("repeat with: {again}")));
                return Some(broken.promises);
            }
            Err(Failed::Here(error)) => return or_skip(Err::<Vec<u8>, Error>(error)),
        }
    }
    panic!("nothing is found out: {plan:?}");
}

#[test]
fn a_server_that_answers_before_it_syncs_is_found_out_when_the_power_goes() {
    let mut plan = plan(Harm::PowerExt4, 15, 0);
    plan.set.push("store.durability=none".to_owned());
    let Some(promises) = found_out(&plan) else { return };
    assert!(promises.contains(&1), "{promises:?}");
}

/// It begins with an empty directory whenever it is started.
const FORGETFUL: &str = r#"#!/bin/sh
for word in "$@"; do
    if [ "$before" = --data ]; then rm -rf "$word"; fi
    before=$word
done
exec "#;

#[test]
fn a_server_that_forgets_everything_is_found_out_when_it_is_killed() {
    let dir = tempfile::tempdir().expect("a directory");
    let script = dir.path().join("server");
    fs::write(&script, format!("{FORGETFUL}{} \"$@\"\n", SERVER.display())).expect("written");
    fs::set_permissions(&script, Permissions::from_mode(0o755)).expect("set");
    let plan = Plan { server: script, ..plan(Harm::Kill, 10, 0) };
    let promises = found_out(&plan).expect("it can be tried anywhere");
    assert!(promises.contains(&1), "{promises:?}");
}
