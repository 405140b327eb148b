//! Servers that lie, and must be found out.

use crore_chaos::{Failed, Harm, run};
use crore_testkit::{Error, or_skip};

use crate::plan;

/// Which promises are broken by a server that was told to be careless.
#[track_caller]
fn found_out(harm: Harm, set: &str) -> Option<Vec<u8>> {
    for seed in 1..6 {
        let mut plan = plan(harm, 15, seed);
        (plan.set, plan.keep) = (vec![set.to_owned()], false);
        match run(&plan) {
            Ok(_) => {}
            Err(Failed::Broken(broken)) => {
                println!("{broken}");
                return Some(broken.promises);
            }
            Err(Failed::Here(error)) => return or_skip(Err::<Vec<u8>, Error>(error)),
        }
    }
    panic!("nothing is found out: {harm} {set}");
}

#[test]
fn a_server_that_answers_before_it_syncs_is_found_out_when_the_power_goes() {
    let Some(promises) = found_out(Harm::PowerExt4, "store.durability=none") else { return };
    assert!(promises.contains(&1), "{promises:?}");
}

#[test]
fn a_server_that_keeps_jobs_in_memory_alone_is_found_out_when_it_is_killed() {
    let promises = found_out(Harm::Kill, "store.memory=true").expect("it can be tried anywhere");
    assert!(promises.contains(&1), "{promises:?}");
}
