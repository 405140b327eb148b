//! Runs cases, shrinks failures and formats the failure message.

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

use super::compared_store::{StoreTraits, whole};
use super::draw;
use super::op::ModelOp;
use super::print::Listing;
use super::run::{self, Difference};
use super::shrink::{self, SeenCounts};
use super::swarm::ModelReach;
use crate::suite::Subject;

/// Maximum shrinking time in milliseconds: a remote store takes long for every try, and a slow test is
/// killed.
const MAX_SHRINK_FOR: u32 = 20_000;

/// Timeout for all operations of a case.
const CASE_TIMEOUT: Duration = Duration::from_secs(60);

/// Number and length of the cases.
#[derive(Debug, Clone, Copy)]
pub(super) struct TrialSize {
    pub(super) cases: u32,
    pub(super) ops: usize,
}

/// How a store under test is created and accessed.
pub(super) struct Trial<S, M> {
    make: M,
    parts: fn(&S) -> StoreTraits<'_>,
    reach: ModelReach,
    runtime: Runtime,
}

impl<S, M> Debug for Trial<S, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trial").field("reach", &self.reach).finish_non_exhaustive()
    }
}

/// How a list of operations fails.
enum TrialFailure {
    Differs(Difference),
    Hangs,
    Panics(String),
}

impl fmt::Display for TrialFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Differs(difference) => write!(f, "after the last one, {difference}"),
            Self::Hangs => write!(f, "one of the stores does not respond within {CASE_TIMEOUT:?}"),
            Self::Panics(message) => write!(f, "one of the stores panics: {message}"),
        }
    }
}

impl<S, M: AsyncFn() -> Subject<S>> Trial<S, M> {
    pub(super) fn new(make: M, parts: fn(&S) -> StoreTraits<'_>, reach: ModelReach) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build();
        Self { make, parts, reach, runtime: runtime.expect("a thread can have a runtime") }
    }

    /// Runs random lists of operations, and panics with the shortest that fails.
    pub(super) fn check(&self, size: TrialSize) {
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

    /// Runs the operations on two fresh stores. Returns the failure and the counts before each operation that
    /// was begun.
    fn fails(&self, ops: &[ModelOp]) -> Option<(TrialFailure, Vec<SeenCounts>)> {
        let mut tallies = Vec::new();
        let run = || {
            self.runtime.block_on(async {
                let Subject { store, clock } = (self.make)().await;
                let model = Memory::new(Arc::<FakeClock>::clone(&clock));
                let run =
                    run::compare(ops, (self.parts)(&store), whole(&model), &clock, &mut tallies);
                timeout(CASE_TIMEOUT, run).await
            })
        };
        let failure = match catch_quietly(run) {
            Ok(Ok(Ok(()))) => return None,
            Ok(Ok(Err(difference))) => TrialFailure::Differs(difference),
            Ok(Err(_)) => TrialFailure::Hangs,
            Err(text) => TrialFailure::Panics(text),
        };
        Some((failure, tallies))
    }

    /// The failure message. `reason` is the failure as first observed.
    fn report(&self, ops: Vec<ModelOp>, seed: u64, reason: &Reason) -> String {
        let (ops, failure) = match self.shortest(&ops) {
            Some(ops) => (ops, None),
            None => (ops, Some(format!("{reason}\n(not reproducible on a second run)"))),
        };
        let failure = failure.or_else(|| Some(self.fails(&ops)?.0.to_string())).unwrap_or_default();
        let (count, listing) = (ops.len(), Listing(&ops));
        format!(
            "the store under test and the memory store differ \
             ({count} operations; PROPTEST_RNG_SEED={seed} replays it):\n{listing}{failure}"
        )
    }

    /// Removes operations after the failure, and every operation that is not needed for it. Proptest's own
    /// shrinking tried each removal only once, while others still prevented it. `None` if the list does not
    /// fail this time.
    fn shortest(&self, ops: &[ModelOp]) -> Option<Vec<ModelOp>> {
        let (ops, tallies) = self.failing(ops.to_vec())?;
        let mut best = (shrink::resolve_refs(ops, &tallies), tallies);
        loop {
            let mut shrunk = false;
            for index in (0..best.0.len()).rev() {
                while let Some(fewer) = self.shrink_at(&best, index) {
                    (best, shrunk) = (fewer, true);
                }
            }
            if !shrunk {
                return Some(best.0);
            }
        }
    }

    /// The list with less at `index`, if it still fails.
    fn shrink_at(&self, (ops, tallies): &FailingOps, index: usize) -> Option<FailingOps> {
        let op = ops.get(index)?;
        let without = self.failing(shrink::without(ops, index, tallies));
        without.or_else(|| {
            shrink::smaller(op).into_iter().find_map(|op| {
                let mut ops = ops.clone();
                *ops.get_mut(index)? = op;
                self.failing(ops)
            })
        })
    }

    /// The list up to its failure, if it fails.
    fn failing(&self, mut ops: Vec<ModelOp>) -> Option<FailingOps> {
        let (_, tallies) = self.fails(&ops)?;
        ops.truncate(tallies.len());
        Some((ops, tallies))
    }
}

/// A failing list, and the counts before each of its operations.
type FailingOps = (Vec<ModelOp>, Vec<SeenCounts>);

/// A new seed for every run, so that runs add up, unless the environment sets one.
fn configure(cases: u32) -> (u64, Config) {
    let mut config = Config { cases, max_shrink_iters: 10_000, ..Config::default() };
    config.max_shrink_time = MAX_SHRINK_FOR;
    config.failure_persistence = None;
    // In a debug build, the default generator costs more than the stores.
    config.rng_algorithm = RngAlgorithm::XorShift;
    let seed = match config.rng_seed {
        RngSeed::Fixed(seed) => seed,
        RngSeed::Random => RandomState::new().hash_one(cases),
    };
    config.rng_seed = RngSeed::Fixed(seed);
    (seed, config)
}

thread_local! {
    /// Whether a panic of this thread is an expected result that is not printed.
    static IS_EXPECTED_PANIC: Cell<bool> = const { Cell::new(false) };
}

/// The result of `run`, or its panic message. The panic is not printed: shrinking causes thousands, and each
/// would print a backtrace.
fn catch_quietly<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !IS_EXPECTED_PANIC.get() {
                others(info);
            }
        }));
    });
    IS_EXPECTED_PANIC.set(true);
    let ran = catch_unwind(AssertUnwindSafe(run));
    IS_EXPECTED_PANIC.set(false);
    ran.map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default()
    })
}
