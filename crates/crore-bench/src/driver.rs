//! Many callers in flight on few threads: each driver thread polls the callers that were woken, and parks when there
//! are none. A caller has no thread and costs a few hundred nanoseconds per response: the store dominates the figures.

use std::cell::{Cell, RefCell};
use std::mem;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use crate::machine;

/// Number of driver threads, set once. The default leaves one core to the store: with more threads, callers wait for
/// the core that the committer has.
pub static DRIVERS: OnceLock<usize> = OnceLock::new();

/// The number of driver threads.
pub fn drivers() -> usize {
    *DRIVERS.get_or_init(|| thread::available_parallelism().map_or(1, |n| n.get().max(2) - 1))
}

/// When callers stop starting requests; they finish the ones in flight.
#[derive(Debug, Clone, Copy)]
pub enum Until {
    After(Duration),
    /// After this many requests were started.
    Begun(u64),
}

/// State shared by the callers of one driver thread.
#[derive(Debug)]
pub struct DriverState {
    /// Index of the driver thread.
    pub driver: usize,
    ends_at: Option<Instant>,
    left: Cell<u64>,
    jobs: Cell<u64>,
    micros: RefCell<Vec<u32>>,
}

impl DriverState {
    fn new(driver: usize, drivers: usize, until: Until) -> Self {
        let (ends_at, left) = match until {
            Until::After(span) => (Some(Instant::now() + span), u64::MAX),
            Until::Begun(n) => {
                (None, n / drivers as u64 + u64::from((driver as u64) < n % drivers as u64))
            }
        };
        Self { driver, ends_at, left: left.into(), jobs: 0.into(), micros: RefCell::default() }
    }

    /// The start time of the next request; `None` if the run is over.
    pub fn begin(&self) -> Option<Instant> {
        let now = Instant::now();
        if self.left.get() == 0 || self.ends_at.is_some_and(|end| now >= end) {
            return None;
        }
        self.left.set(self.left.get() - 1);
        Some(now)
    }

    /// Requests that are still to be started.
    pub fn requests_left(&self) -> u64 {
        self.left.get()
    }

    /// Records the latency of a commit that was started at `begun_at`.
    pub fn record_latency(&self, begun_at: Instant) {
        self.micros.borrow_mut().push(begun_at.elapsed().as_micros() as u32);
    }

    /// Counts finished jobs.
    pub fn count_jobs(&self, n: usize) {
        self.jobs.set(self.jobs.get() + n as u64);
    }
}

/// The figures of a run.
#[derive(Debug, Default)]
pub struct RunFigures {
    pub jobs: u64,
    pub seconds: f64,
    /// Of the whole process, callers included.
    pub cpu_seconds: f64,
    /// Latency of each commit, ascending.
    micros: Vec<u32>,
}

impl RunFigures {
    /// A run without callers.
    pub fn without_callers(jobs: u64, span: Duration) -> Self {
        Self { jobs, seconds: span.as_secs_f64(), ..Self::default() }
    }

    /// The sum of two runs.
    pub fn merge(mut self, other: Self) -> Self {
        self.jobs += other.jobs;
        self.seconds += other.seconds;
        self.cpu_seconds += other.cpu_seconds;
        self.micros.extend(other.micros);
        // The stable sort merges two ascending lists in linear time.
        self.micros.sort();
        self
    }

    pub fn rate(&self) -> f64 {
        self.jobs as f64 / self.seconds
    }

    pub fn cpu_micros_per_job(&self) -> f64 {
        self.cpu_seconds * 1e6 / self.jobs as f64
    }

    /// The latency quantile `share`, in milliseconds.
    pub fn quantile_millis(&self, share: f64) -> f64 {
        let last = self.micros.len().saturating_sub(1);
        let index = ((self.micros.len() as f64 * share) as usize).min(last);
        self.micros.get(index).map_or(0.0, |micros| f64::from(*micros) / 1e3)
    }
}

/// The woken callers of one driver.
struct WokenCallers {
    list: Mutex<Vec<usize>>,
    driver: Thread,
}

struct DrivenCaller {
    index: usize,
    ready: Arc<WokenCallers>,
}

impl Wake for DrivenCaller {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let first = {
            let mut list = self.ready.list.lock().unwrap();
            list.push(self.index);
            list.len() == 1
        };
        // The driver takes the whole list, so only the first of it has to wake the thread.
        if first {
            self.ready.driver.unpark();
        }
    }
}

/// Runs `in_flight` callers at once until all of them have returned.
pub fn drive<F, C>(until: Until, in_flight: usize, caller: F) -> RunFigures
where
    F: Fn(Rc<DriverState>) -> C + Sync,
    C: Future<Output = ()>,
{
    let drivers = drivers().min(in_flight);
    let (cpu, start) = (machine::cpu_seconds(), Instant::now());
    let results = thread::scope(|scope| {
        let spawn = |driver: usize| {
            let callers = in_flight / drivers + usize::from(driver < in_flight % drivers);
            let caller = &caller;
            scope.spawn(move || {
                let state = Rc::new(DriverState::new(driver, drivers, until));
                poll_all((0..callers).map(|_| Box::pin(caller(Rc::clone(&state)))).collect());
                (state.jobs.get(), state.micros.take())
            })
        };
        let threads: Vec<_> = (0..drivers).map(spawn).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    let seconds = start.elapsed().as_secs_f64();
    let cpu_seconds = machine::cpu_seconds() - cpu;
    let jobs = results.iter().map(|(jobs, _)| jobs).sum();
    let mut micros: Vec<u32> = results.into_iter().flat_map(|(_, micros)| micros).collect();
    micros.sort_unstable();
    RunFigures { jobs, seconds, cpu_seconds, micros }
}

fn poll_all<C: Future<Output = ()>>(callers: Vec<Pin<Box<C>>>) {
    let list = Mutex::new((0..callers.len()).collect());
    let ready = Arc::new(WokenCallers { list, driver: thread::current() });
    let waker = |index| Waker::from(Arc::new(DrivenCaller { index, ready: Arc::clone(&ready) }));
    let mut alive = callers.len();
    let with_waker = |(index, caller)| (Some(caller), waker(index));
    let mut callers: Vec<_> = callers.into_iter().enumerate().map(with_waker).collect();
    let mut woken = Vec::new();
    while alive > 0 {
        mem::swap(&mut woken, &mut ready.list.lock().unwrap());
        if woken.is_empty() {
            thread::park();
        }
        for index in woken.drain(..) {
            let (slot, waker) = &mut callers[index];
            let Some(caller) = slot else { continue };
            if caller.as_mut().poll(&mut Context::from_waker(waker)).is_ready() {
                *slot = None;
                alive -= 1;
            }
        }
    }
}

/// Runs one future to its end on this thread.
pub fn wait<T>(future: impl Future<Output = T>) -> T {
    let slot = Cell::new(None);
    poll_all(vec![Box::pin(async { slot.set(Some(future.await)) })]);
    slot.into_inner().unwrap()
}

/// Processor time of a caller itself, in nanoseconds per answer: the caller is woken and polled once for each job,
/// without a store.
pub fn caller_nanos(span: Duration) -> f64 {
    let ran = drive(Until::After(span), 64, |state| async move {
        while let Some(begun_at) = state.begin() {
            let mut woken = false;
            std::future::poll_fn(|context| {
                if mem::replace(&mut woken, true) {
                    return Poll::Ready(());
                }
                context.waker().wake_by_ref();
                Poll::Pending
            })
            .await;
            state.record_latency(begun_at);
            state.count_jobs(1);
        }
    });
    ran.cpu_micros_per_job() * 1e3
}
