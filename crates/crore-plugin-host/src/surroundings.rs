//! What a plugin may ask while it runs, and what its runs and their cancels share.

use std::ffi::c_void;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crore_plugin::abi::{Bytes, Surroundings};

use crate::frame::Answer;

/// Bytes of one line of the log.
const MOST_LINE: u64 = 16 << 10;

/// What the thread that runs the plugin and the one that hears cancels share. It lives as long as the
/// process.
#[derive(Debug)]
pub(crate) struct Shared {
    answers: Mutex<UnixStream>,
    is_cancelled: AtomicBool,
    runs: Mutex<Runs>,
}

/// Which run is under way, and which was asked to stop.
#[derive(Debug, Default)]
struct Runs {
    current: Option<u64>,
    cancelled: Option<u64>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(crate) fn new(answers: UnixStream) -> Self {
        let answers = Mutex::new(answers);
        Self { answers, is_cancelled: AtomicBool::new(false), runs: Mutex::default() }
    }

    /// Says something. Nobody hears it if the server is gone; then this process is about to end.
    pub(crate) fn say(&self, answer: &Answer) {
        _ = lock(&self.answers).write_all(&answer.encode());
    }

    /// A run begins; false if it was asked to stop before it could.
    pub(crate) fn begin(&self, run: u64) -> bool {
        let mut runs = lock(&self.runs);
        self.is_cancelled.store(false, Ordering::Relaxed);
        runs.current = Some(run);
        runs.cancelled != Some(run)
    }

    /// The run is over; waits for a cancel of it that is being told.
    pub(crate) fn end(&self) {
        lock(&self.runs).current = None;
    }

    /// Asks a run to stop, and tells it with `tell` if it is under way; one that is not yet is
    /// remembered, and one that is over is left alone.
    pub(crate) fn cancel(&self, run: u64, tell: impl FnOnce()) {
        let mut runs = lock(&self.runs);
        runs.cancelled = Some(run);
        if runs.current == Some(run) {
            self.is_cancelled.store(true, Ordering::Relaxed);
            tell();
        }
    }

    /// As a plugin sees it. Its pointer is good as long as this is.
    pub(crate) fn surroundings(&'static self) -> Surroundings {
        let host: *const Self = self;
        Surroundings { host: host.cast_mut().cast(), is_cancelled, log }
    }
}

unsafe extern "C" fn is_cancelled(host: *mut c_void) -> u32 {
    // SAFETY: it is what `surroundings` gave, which lives as long as the process.
    let shared = unsafe { &*host.cast::<Shared>() };
    shared.is_cancelled.load(Ordering::Relaxed).into()
}

unsafe extern "C" fn log(host: *mut c_void, text: Bytes) {
    // SAFETY: as above.
    let shared = unsafe { &*host.cast::<Shared>() };
    if text.data.is_null() {
        return;
    }
    let len = text.len.min(MOST_LINE) as usize;
    // SAFETY: the plugin lends so many bytes for this call.
    let text = unsafe { std::slice::from_raw_parts(text.data, len) };
    for line in String::from_utf8_lossy(text).lines() {
        shared.say(&Answer::Line(line.to_owned()));
    }
}
