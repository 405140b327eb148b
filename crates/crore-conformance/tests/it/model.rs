//! The model test passes for the memory store, and fails for a store that falsifies responses.

mod falsifying_store;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crore_conformance::model::{check_jobs, check_store};
use crore_conformance::suite::Subject;
use crore_core::{Span, State};
use crore_store::Memory;
use crore_store::jobs::{Applied, Claimed, Renewed};
use crore_store::views::JobCount;
use crore_testkit::FakeClock;

use falsifying_store::{Falsification, FalsifyingStore};

async fn memory() -> Subject<Memory> {
    let clock = Arc::new(FakeClock::default());
    Subject { store: Arc::new(Memory::new(Arc::<FakeClock>::clone(&clock))), clock }
}

async fn falsifying_default<L: Falsification + Default>() -> Subject<FalsifyingStore<L>> {
    falsifying(L::default())
}

fn falsifying<L: Falsification>(lie: L) -> Subject<FalsifyingStore<L>> {
    let clock = Arc::new(FakeClock::default());
    let memory = Memory::new(Arc::<FakeClock>::clone(&clock));
    Subject { store: Arc::new(FalsifyingStore { memory, lie }), clock }
}

/// The failure message of a check.
fn failure(check: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(check)).expect_err("the bug is found");
    panic.downcast_ref::<String>().expect("the message is a text").clone()
}

/// Number of operations that the message lists.
fn listed(message: &str) -> usize {
    let number = |line: &str| line.trim_start().split_once(". ").map(|(n, _)| n.parse::<usize>());
    message.lines().filter_map(number).flatten().count()
}

/// Checks that the message names the difference, after a list of at most `most` operations.
#[track_caller]
fn assert_short(message: &str, most: usize, what: &str) {
    let count = listed(message);
    assert!((1..=most).contains(&count), "{count} operations:\n{message}");
    assert!(message.contains(what), "`{what}` is in\n{message}");
    assert!(message.contains("PROPTEST_RNG_SEED="), "a seed is in\n{message}");
}

#[test]
fn memory_equals_itself() {
    check_store(1000, 40, memory);
}

#[test]
fn the_path_of_a_job_in_memory_equals_itself() {
    check_jobs(300, 40, memory);
}

#[test]
fn long_runs_in_memory_are_equal() {
    check_store(20, 400, memory);
}

#[test]
fn numbers_with_gaps_are_equal() {
    #[derive(Debug, Default)]
    struct Gaps;
    impl Falsification for Gaps {
        fn leaves_gaps(&self) -> bool {
            true
        }
    }
    check_store(200, 40, falsifying_default::<Gaps>);
}

#[test]
fn a_lost_claimed_job_is_detected() {
    #[derive(Debug, Default)]
    struct Loses(AtomicUsize);
    impl Falsification for Loses {
        fn claimed(&self, claimed: &mut Claimed) {
            claimed
                .jobs
                .retain(|_| !(self.0.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(3));
        }
    }
    let message = failure(|| check_jobs(300, 40, falsifying_default::<Loses>));
    assert_short(&message, 6, "claim ");
}

#[test]
fn a_stale_write_reported_as_applied_is_found() {
    #[derive(Debug, Default)]
    struct Flatters;
    impl Falsification for Flatters {
        fn applied(&self, applied: &mut Applied) {
            if *applied == Applied::Stale {
                *applied = Applied::Yes(Vec::new());
            }
        }
    }
    let message = failure(|| check_jobs(300, 40, falsifying_default::<Flatters>));
    assert_short(&message, 4, "Stale");
}

#[test]
fn a_lease_that_is_one_millisecond_longer_is_detected() {
    #[derive(Debug, Default)]
    struct Stretches;
    impl Falsification for Stretches {
        fn renewed(&self, renewed: &mut Renewed) {
            if let Renewed::Until { until, .. } = renewed {
                *until = until.after(Span::from_millis(1));
            }
        }
    }
    let message = failure(|| check_jobs(300, 40, falsifying_default::<Stretches>));
    assert_short(&message, 3, "renew delivery");
}

#[test]
fn a_wrong_count_is_found_by_the_full_comparison() {
    #[derive(Debug, Default)]
    struct Miscounts;
    impl Falsification for Miscounts {
        fn counts(&self, counts: &mut Vec<JobCount>) {
            counts.retain(|count| count.state != State::Dead);
        }
    }
    let message = failure(|| check_store(300, 40, falsifying_default::<Miscounts>));
    // A dead job takes a push, a claim and a failure; shrinking may end with some more.
    assert_short(&message, 10, "counts");
}

#[test]
fn a_panic_is_a_failure_with_its_operations() {
    #[derive(Debug, Default)]
    struct Panics;
    impl Falsification for Panics {
        fn renewed(&self, renewed: &mut Renewed) {
            assert_ne!(*renewed, Renewed::Stale, "planted panic");
        }
    }
    let message = failure(|| check_jobs(300, 40, falsifying_default::<Panics>));
    assert_short(&message, 5, "planted panic");
}

/// Each planted bug of the local stores is found when only one side has it.
#[cfg(feature = "bug-drill")]
mod planted {
    use super::*;

    #[derive(Debug)]
    struct Planted(&'static str);

    impl Falsification for Planted {
        fn before(&self) {
            crore_store::bug::arm(self.0);
        }
        fn after(&self) {
            crore_store::bug::arm("");
        }
    }

    macro_rules! found_out {
        ($($test:ident: $bug:literal;)+) => {$(
            #[test]
            fn $test() {
                let check = || check_store(3000, 40, async || falsifying(Planted($bug)));
                assert_short(&failure(check), 12, "differ");
            }
        )+};
    }

    found_out! {
        a_write_without_its_guard_is_found_out: "bug-1";
        a_lease_that_lapses_late_is_found_out: "bug-2";
        half_a_batch_is_found_out: "bug-3";
        a_permit_that_is_not_returned_is_found_out: "bug-4";
        a_key_that_is_free_too_early_is_found_out: "bug-5";
        follow_ups_that_are_pushed_twice_are_found_out: "bug-6";
        a_promotion_that_is_early_is_found_out: "bug-7";
        a_place_that_is_lost_is_found_out: "bug-8";
        a_success_that_was_none_is_found_out: "bug-9";
        a_result_that_is_taken_twice_is_found_out: "bug-10";
    }
}
