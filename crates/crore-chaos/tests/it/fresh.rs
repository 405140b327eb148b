//! Seeds that nobody has seen: about a minute of each run of the tests, every harm for a short turn. The seeds above are
//! passed by every change; these may find what no run has found before.

use crore_chaos::{Failed, Harm, fresh_seed, run};
use crore_testkit::or_skip;

use crate::plan;

/// Runs a plan with a fresh seed. A failure says which command runs the plan again.
#[track_caller]
fn survives(harm: Harm, rounds: u32) {
    let plan = plan(harm, rounds, fresh_seed().expect("a seed"));
    println!("{}", plan.command());
    let tally = match run(&plan) {
        Ok(tally) => Ok(tally),
        Err(Failed::Here(error)) => Err(error),
        Err(Failed::Broken(broken)) => panic!("{broken}"),
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
                super::survives(crore_chaos::Harm::$harm, $rounds);
            }
        )+

            #[test]
            fn to_any_harm() {
                let turns = [$(crore_chaos::Harm::$harm),+];
                for (name, harm) in crore_chaos::Harm::ALL {
                    assert!(turns.contains(&harm), "{name} has no turn");
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
