//! The conformance suite that every store passes: one test for each promise of the store traits, named after
//! it.
//!
//! A store's tests include it with one line, and need only this crate as a dev-dependency:
//!
//! ```
//! # use std::sync::Arc;
//! # use crore_conformance::suite::Subject;
//! # use crore_store::Memory;
//! # use crore_testkit::FakeClock;
//! async fn make() -> Subject<Memory> {
//!     let clock = Arc::new(FakeClock::default());
//!     Subject { store: Arc::new(Memory::new(clock.clone())), clock }
//! }
//! crore_conformance::conformance!(crate::make);
//! # fn main() {}
//! ```
//!
//! A store that implements only [`Jobs`] and [`Registry`] starts with
//! [`conformance_jobs!`](crate::conformance_jobs), which uses limits, queue settings and groups of the
//! registry.
//!
//! To add a case, write a function under `cases/` and add its name to `list.rs`. A case fails by a panic and
//! never waits for a clock: time moves only when the case moves it.
mod cases;
mod job_builder;
mod list;
mod subject;

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use crore_store::{Jobs, Registry, Store};

pub use list::{jobs_cases, whole_cases};
pub use subject::Subject;

/// A running case. It panics if the promise does not hold.
pub type RunningCase = Pin<Box<dyn Future<Output = ()> + Send>>;

/// One case of the suite, for a store of type `S`.
pub struct ConformanceCase<S> {
    /// The promise that must hold.
    pub name: &'static str,
    /// Checks it on a fresh store.
    pub run: fn(Subject<S>) -> RunningCase,
}

impl<S> fmt::Debug for ConformanceCase<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Case").field(&self.name).finish()
    }
}

/// Timeout of one case, long enough for a slow remote server.
const CASE_TIMEOUT: Duration = Duration::from_secs(60);

/// Runs one of [`jobs_cases`] on a store from `make`.
pub fn check_jobs<S, M>(make: M, name: &str)
where
    S: Jobs + Registry + 'static,
    M: AsyncFnOnce() -> Subject<S>,
{
    check(make, jobs_cases(), name);
}

/// Runs one of [`whole_cases`] on a store from `make`.
pub fn check_whole<S, M>(make: M, name: &str)
where
    S: Store + 'static,
    M: AsyncFnOnce() -> Subject<S>,
{
    check(make, whole_cases(), name);
}

fn check<S, M>(make: M, cases: Vec<ConformanceCase<S>>, name: &str)
where
    M: AsyncFnOnce() -> Subject<S>,
{
    let case = cases.into_iter().find(|case| case.name == name).expect("the case is in the list");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let subject = make().await;
        let run = tokio::time::timeout(CASE_TIMEOUT, (case.run)(subject));
        run.await.expect("the store responds in time");
    });
}

/// The suite for a whole [`Store`]: a module `conformance` with one test for each case.
///
/// Takes the `async fn() -> Subject<S>` that creates a fresh store: its bare name if it is in scope here, or
/// a path from `crate`.
#[macro_export]
macro_rules! conformance {
    ($make:ident) => {
        $crate::conformance!(super::$make);
    };
    ($($make:tt)+) => {
        #[cfg(test)]
        mod conformance {
            use $($make)+ as make_store;
            $crate::conformance_jobs_list!($crate::conformance_jobs_tests);
            $crate::conformance_whole_list!($crate::conformance_whole_tests);
        }
    };
}

/// The part of the suite that needs only [`Jobs`] and [`Registry`]; otherwise like
/// [`conformance!`](macro@crate::conformance).
#[macro_export]
macro_rules! conformance_jobs {
    ($make:ident) => {
        $crate::conformance_jobs!(super::$make);
    };
    ($($make:tt)+) => {
        #[cfg(test)]
        mod conformance {
            use $($make)+ as make_store;
            $crate::conformance_jobs_list!($crate::conformance_jobs_tests);
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! conformance_jobs_tests {
    ($($topic:ident: $($case:ident)+;)+) => {$($(
        #[test]
        fn $case() {
            $crate::suite::check_jobs(make_store, stringify!($case));
        }
    )+)+};
}

#[doc(hidden)]
#[macro_export]
macro_rules! conformance_whole_tests {
    ($($topic:ident: $($case:ident)+;)+) => {$($(
        #[test]
        fn $case() {
            $crate::suite::check_whole(make_store, stringify!($case));
        }
    )+)+};
}
