//! Faults injected into the built server: the rounds that every change must pass, and faulty servers to be found.

mod broken;
mod faulty_servers;
mod fresh;

use std::path::PathBuf;
use std::sync::LazyLock;

use crore_chaos::{ChaosError, ChaosFault, ChaosPlan, ChaosTally, CrowdPlan, run, run_crowd};
use crore_testkit::or_skip;
use crore_testkit::server_binary;

/// The server binary, built once.
static SERVER: LazyLock<PathBuf> = LazyLock::new(|| server_binary().expect("a server"));

fn plan(harm: ChaosFault, rounds: u32, seed: u64) -> ChaosPlan {
    ChaosPlan {
        fault: harm,
        rounds,
        seed,
        server: SERVER.clone(),
        set: Vec::new(),
        keep: true,
        bug: None,
    }
}

/// Runs a plan, and asserts that it did enough to mean something.
#[track_caller]
fn survives(harm: ChaosFault, rounds: u32, seed: u64) -> Option<ChaosTally> {
    let plan = plan(harm, rounds, seed);
    let command = plan.command();
    let tally = match run(&plan) {
        Ok(tally) => Ok(tally),
        Err(ChaosError::CannotRun(error)) => Err(error),
        Err(ChaosError::Broken(broken)) => panic!("{broken}"),
    };
    let tally = or_skip(tally)?;
    println!("{tally}");
    let least = u64::from(rounds);
    let ChaosTally { acknowledged, deliveries, posted, streamed, accepted, unknown, .. } = tally;
    assert!(acknowledged > 2 * least && deliveries > 2 * least, "too few: {tally:?}\n{command}");
    assert!(accepted > 2 * least && unknown > 0, "too few: {tally:?}\n{command}");
    assert!(posted > least / 4, "too few posts: {tally:?}\n{command}");
    assert!(streamed > least / 4, "too few streamed jobs: {tally:?}\n{command}");
    assert_eq!((tally.lost, tally.doubled), (0, 0), "{command}");
    Some(tally)
}

/// A disk filled from outside does not make the server poison its store.
#[test]
fn reports_are_accepted_when_other_programs_fill_the_disk() {
    for seed in 40..43 {
        let Some(tally) = survives(ChaosFault::Fill, 20, seed) else { return };
        assert_eq!(tally.poisoned, 0, "seed {seed}");
    }
}

/// The full minute is `crore-chaos crowd`.
#[test]
fn every_job_ends_once_although_100_workers_reconnect() {
    let time = std::time::Duration::from_secs(6);
    let tally =
        run_crowd(&CrowdPlan { workers: 100, time, seed: 1, server: SERVER.clone(), keep: true });
    let tally = tally.unwrap_or_else(|failed| panic!("{failed}"));
    println!("{tally}");
    assert!(tally.acknowledged > 200 && tally.streamed >= tally.done, "too few: {tally:?}");
    assert!(tally.streamed > tally.acknowledged, "nothing was left behind: {tally:?}");
}

/// A thousand kills and a hundred power cuts, in parts that run in parallel.
macro_rules! nothing_is_lost {
    ($($harm:ident { $($part:ident: $rounds:expr, $seed:expr;)+ })+) => {
        mod nothing_is_lost {$(
            #[expect(non_snake_case, reason = "named after the fault")]
            mod $harm {$(
                #[test]
                fn $part() {
                    crate::survives(crore_chaos::ChaosFault::$harm, $rounds, $seed);
                }
            )+}
        )+}
    };
}

nothing_is_lost! {
    Kill {
        part_1: 100, 1;
        part_2: 100, 2;
        part_3: 100, 3;
        part_4: 100, 4;
        part_5: 100, 5;
        part_6: 100, 6;
        part_7: 100, 7;
        part_8: 100, 8;
        part_9: 100, 9;
        part_10: 100, 10;
    }
    Power {
        part_1: 35, 21;
        part_2: 35, 22;
    }
    PowerExt4 {
        part_1: 30, 23;
    }
    Stop {
        part_1: 20, 31;
    }
    Drain {
        part_1: 20, 32;
    }
    Full {
        part_1: 20, 33;
    }
    Clock {
        part_1: 30, 34;
    }
}
