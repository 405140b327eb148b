//! Fresh seeds: about a minute per test run, a few rounds of each fault. The fixed seeds pass on every change; these
//! may find a failure that no run has found before.

use crore_chaos::{ChaosError, ChaosFault, fresh_seed, run};
use crore_testkit::or_skip;

use crate::plan;

/// Runs a plan with a fresh seed. A failure prints the command that runs the plan again.
#[track_caller]
fn survives(harm: ChaosFault, rounds: u32) {
    let plan = plan(harm, rounds, fresh_seed().expect("a seed"));
    println!("{}", plan.command());
    let tally = match run(&plan) {
        Ok(tally) => Ok(tally),
        Err(ChaosError::CannotRun(error)) => Err(error),
        Err(ChaosError::Broken(broken)) => panic!("{broken}"),
    };
    if let Some(tally) = or_skip(tally) {
        println!("{tally}");
    }
}

macro_rules! nothing_is_lost {
    ($($name:ident: $harm:ident, $rounds:expr;)+) => {
        mod nothing_is_lost {$(
            #[test]
            fn $name() {
                super::survives(crore_chaos::ChaosFault::$harm, $rounds);
            }
        )+

            #[test]
            fn every_fault_has_a_test() {
                let turns = [$(crore_chaos::ChaosFault::$harm),+];
                for (name, fault) in crore_chaos::ChaosFault::ALL {
                    assert!(turns.contains(&fault), "no test injects {name}");
                }
            }
        }
    };
}

nothing_is_lost! {
    kill: Kill, 30;
    stop: Stop, 16;
    drain: Drain, 16;
    power: Power, 14;
    power_ext4: PowerExt4, 14;
    full: Full, 14;
    fill: Fill, 14;
    clock: Clock, 16;
}
