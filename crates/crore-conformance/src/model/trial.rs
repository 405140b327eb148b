//! Cases, shrinking, and the message of a failure.

use std::cell::Cell;
use std::fmt::{self, Debug};
use std::hash::{BuildHasher, RandomState};
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Once};
use std::time::Duration;

use crore_store::Memory;
use crore_testkit::FakeClock;
use proptest::test_runner::{
    Config, Reason, RngAlgorithm, RngSeed, TestCaseError, TestError, TestRunner,
};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use super::draw;
use super::op::Op;
use super::print::Listing;
use super::run::{self, Difference};
use super::shrink::{self, Tally};
use super::side::{Parts, whole};
use super::swarm::Reach;
use crate::suite::Subject;

/// How long a failure is shrunk, in milliseconds: a remote store takes its time for every try, and
/// a test that takes too long is ended.
const MAX_SHRINK_FOR: u32 = 20_000;

/// How long the stores may take over all of a case's operations.
const PATIENCE: Duration = Duration::from_secs(60);

/// How much is tried.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    pub(super) cases: u32,
    pub(super) ops: usize,
}

/// How a store under test is opened and looked at.
pub(super) struct Trial<S, M> {
    make: M,
    parts: fn(&S) -> Parts<'_>,
    reach: Reach,
    runtime: Runtime,
}

impl<S, M> Debug for Trial<S, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trial").field("reach", &self.reach).finish_non_exhaustive()
    }
}

/// How a list of operations fails.
enum Failure {
    Differs(Difference),
    Hangs,
    Panics(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Differs(difference) => write!(f, "after the last one, {difference}"),
            Self::Hangs => write!(f, "one of the stores does not answer within {PATIENCE:?}"),
            Self::Panics(message) => write!(f, "one of the stores panics: {message}"),
        }
    }
}

impl<S, M: AsyncFn() -> Subject<S>> Trial<S, M> {
    pub(super) fn new(make: M, parts: fn(&S) -> Parts<'_>, reach: Reach) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build();
        Self { make, parts, reach, runtime: runtime.expect("a thread can have a runtime") }
    }

    /// Tries random lists of operations, and panics with the shortest that fails.
    pub(super) fn check(&self, size: Size) {
        let (seed, config) = configure(size.cases);
        let tried = TestRunner::new(config).run(&draw::ops(self.reach, size.ops), |ops| {
            let failed = self.fails(&ops);
            failed.map_or(Ok(()), |(failure, _)| Err(TestCaseError::fail(failure.to_string())))
        });
        match tried {
            Ok(()) => {}
            Err(TestError::Fail(reason, ops)) => panic!("{}", self.report(ops, seed, &reason)),
            Err(TestError::Abort(why)) => panic!("no operations could be drawn: {why}"),
        }
    }

    /// Runs the operations on two fresh stores. With the failure comes how much had been seen before
    /// each operation that was begun.
    fn fails(&self, ops: &[Op]) -> Option<(Failure, Vec<Tally>)> {
        let mut tallies = Vec::new();
        let run = || {
            self.runtime.block_on(async {
                let Subject { store, clock } = (self.make)().await;
                let model = Memory::new(Arc::<FakeClock>::clone(&clock));
                let run =
                    run::compare(ops, (self.parts)(&store), whole(&model), &clock, &mut tallies);
                timeout(PATIENCE, run).await
            })
        };
        let failure = match quietly(run) {
            Ok(Ok(Ok(()))) => return None,
            Ok(Ok(Err(difference))) => Failure::Differs(difference),
            Ok(Err(_)) => Failure::Hangs,
            Err(text) => Failure::Panics(text),
        };
        Some((failure, tallies))
    }

    /// The message of a failure, of which `reason` is what was seen when it was found.
    fn report(&self, ops: Vec<Op>, seed: u64, reason: &Reason) -> String {
        let (ops, failure) = match self.shortest(&ops) {
            Some(ops) => (ops, None),
            None => (ops, Some(format!("{reason}\n(but not every time: a store rolls dice)"))),
        };
        let failure = failure.or_else(|| Some(self.fails(&ops)?.0.to_string())).unwrap_or_default();
        let (count, listing) = (ops.len(), Listing(&ops));
        format!(
            "the store under test and the memory store differ \
             ({count} operations; PROPTEST_RNG_SEED={seed} replays it):\n{listing}{failure}"
        )
    }

    /// Leaves out what comes after the failure, and everything that is not needed for it. The
    /// shrinking before tried each thing only once, while others were still in the way. `None` if
    /// there is no failure this time.
    fn shortest(&self, ops: &[Op]) -> Option<Vec<Op>> {
        let (ops, tallies) = self.failing(ops.to_vec())?;
        let mut best = (shrink::counted_out(ops, &tallies), tallies);
        loop {
            let mut shrunk = false;
            for place in (0..best.0.len()).rev() {
                while let Some(fewer) = self.fewer(&best, place) {
                    (best, shrunk) = (fewer, true);
                }
            }
            if !shrunk {
                return Some(best.0);
            }
        }
    }

    /// The list with less at `place`, if there is something and it fails without.
    fn fewer(&self, (ops, tallies): &Failing, place: usize) -> Option<Failing> {
        let op = ops.get(place)?;
        let without = self.failing(shrink::without(ops, place, tallies));
        without.or_else(|| {
            shrink::smaller(op).into_iter().find_map(|op| {
                let mut ops = ops.clone();
                *ops.get_mut(place)? = op;
                self.failing(ops)
            })
        })
    }

    /// The list up to where it fails, if it does.
    fn failing(&self, mut ops: Vec<Op>) -> Option<Failing> {
        let (_, tallies) = self.fails(&ops)?;
        ops.truncate(tallies.len());
        Some((ops, tallies))
    }
}

/// A list that fails, and how much had been seen before each of its operations.
type Failing = (Vec<Op>, Vec<Tally>);

/// A seed of its own for every run, so that runs add up; unless the environment gives one.
fn configure(cases: u32) -> (u64, Config) {
    let mut config = Config { cases, max_shrink_iters: 10_000, ..Config::default() };
    config.max_shrink_time = MAX_SHRINK_FOR;
    config.failure_persistence = None;
    // In a debug build, the default costs more than the stores do.
    config.rng_algorithm = RngAlgorithm::XorShift;
    let seed = match config.rng_seed {
        RngSeed::Fixed(seed) => seed,
        RngSeed::Random => RandomState::new().hash_one(cases),
    };
    config.rng_seed = RngSeed::Fixed(seed);
    (seed, config)
}

thread_local! {
    /// Whether a panic of this thread is an answer, which nobody needs to see on the screen.
    static IS_AN_ANSWER: Cell<bool> = const { Cell::new(false) };
}

/// What comes of it, or the text with which it panicked. A panic says nothing on the screen: while a
/// failure is shrunk there are thousands, and each would take its time to print where it was.
fn quietly<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !IS_AN_ANSWER.get() {
                others(info);
            }
        }));
    });
    IS_AN_ANSWER.set(true);
    let ran = catch_unwind(AssertUnwindSafe(run));
    IS_AN_ANSWER.set(false);
    ran.map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default()
    })
}
