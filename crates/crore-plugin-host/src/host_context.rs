//! The context that a plugin sees, and the state shared by runs and cancellations.

use std::ffi::c_void;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crore_plugin::abi::{BorrowedBytes, HostContext};

use crate::frame::HostReply;

/// Maximum length of a log line in bytes.
const MAX_LINE: u64 = 16 << 10;

/// Shared by the thread that runs the plugin and the thread that reads cancellations. Lives as long as the process.
#[derive(Debug)]
pub(crate) struct RunState {
    replies: Mutex<UnixStream>,
    is_cancelled: AtomicBool,
    runs: Mutex<RunNumbers>,
}

/// The current run, and the last run that was cancelled.
#[derive(Debug, Default)]
struct RunNumbers {
    current: Option<u64>,
    cancelled: Option<u64>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RunState {
    pub(crate) fn new(replies: UnixStream) -> Self {
        let replies = Mutex::new(replies);
        Self { replies, is_cancelled: AtomicBool::new(false), runs: Mutex::default() }
    }

    /// Sends a reply. An error means that the parent process is gone, and this process is about to exit.
    pub(crate) fn send(&self, reply: &HostReply) {
        _ = lock(&self.replies).write_all(&reply.encode());
    }

    /// Starts a run; false if it has been cancelled already.
    pub(crate) fn begin(&self, run: u64) -> bool {
        let mut runs = lock(&self.runs);
        self.is_cancelled.store(false, Ordering::Relaxed);
        runs.current = Some(run);
        runs.cancelled != Some(run)
    }

    /// Ends the run. Waits for a cancel of it that is being delivered.
    pub(crate) fn end(&self) {
        lock(&self.runs).current = None;
    }

    /// Cancels a run. Calls `notify` if it is the current run. A cancel of a later run is remembered, one of an
    /// earlier run has no effect.
    pub(crate) fn cancel(&self, run: u64, notify: impl FnOnce()) {
        let mut runs = lock(&self.runs);
        runs.cancelled = Some(run);
        if runs.current == Some(run) {
            self.is_cancelled.store(true, Ordering::Relaxed);
            notify();
        }
    }

    /// The context for the plugin; valid for the life of the process.
    pub(crate) fn host_context(&'static self) -> HostContext {
        let host: *const Self = self;
        HostContext { host: host.cast_mut().cast(), is_cancelled, log }
    }
}

unsafe extern "C" fn is_cancelled(host: *mut c_void) -> u32 {
    // SAFETY: the pointer is from `host_context`, and its target lives as long as the process.
    let shared = unsafe { &*host.cast::<RunState>() };
    shared.is_cancelled.load(Ordering::Relaxed).into()
}

unsafe extern "C" fn log(host: *mut c_void, text: BorrowedBytes) {
    // SAFETY: as above.
    let shared = unsafe { &*host.cast::<RunState>() };
    if text.data.is_null() {
        return;
    }
    let len = text.len.min(MAX_LINE) as usize;
    // SAFETY: the plugin lends this many bytes for the call.
    let text = unsafe { std::slice::from_raw_parts(text.data, len) };
    for line in String::from_utf8_lossy(text).lines() {
        shared.send(&HostReply::Line(line.to_owned()));
    }
}
