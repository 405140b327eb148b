//! An instance of a plugin.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::slice;

use bytes::Bytes;
use crore_plugin::abi::{self, AbiResult, Buffer, HostContext};

use crate::frame::{HostReply, PluginFailureClass};
use crate::library::Functions;

unsafe extern "C" {
    /// The C library's `stdout`.
    static stdout: *mut libc::FILE;
}

/// Maximum length of an error message that is passed on.
const MAX_ERROR_TEXT: u64 = 4 << 10;

/// An instance that the plugin created.
#[derive(Debug)]
pub(crate) struct Instance {
    functions: Functions,
    this: NonNull<c_void>,
}

/// Asks a run to stop, from another thread.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CancelHandle {
    cancel: Option<unsafe extern "C" fn(*mut c_void)>,
    this: NonNull<c_void>,
}

// SAFETY: the interface requires that `cancel` may be called from another thread than `run`.
unsafe impl Send for CancelHandle {}
// SAFETY: as above; only two constant addresses are shared.
unsafe impl Sync for CancelHandle {}

impl CancelHandle {
    /// Notifies the plugin. The instance must still exist and a run must be in progress.
    pub(crate) fn cancel(self) {
        if let Some(cancel) = self.cancel {
            // SAFETY: the caller's promise; the instance is freed only after its last run.
            unsafe { cancel(self.this.as_ptr()) }
        }
    }
}

impl Instance {
    /// Creates an instance; `None` if the plugin cannot create one.
    pub(crate) fn create(functions: Functions, context: &HostContext) -> Option<Self> {
        // SAFETY: as the interface requires; the context outlives the call.
        let this = unsafe { (functions.create)(context) };
        NonNull::new(this).map(|this| Self { functions, this })
    }

    /// The handle that asks its runs to stop.
    pub(crate) fn cancel_handle(&self) -> CancelHandle {
        CancelHandle { cancel: self.functions.cancel, this: self.this }
    }

    /// Runs a job. The items may have at most `max_output` bytes in total.
    pub(crate) fn run(&self, argument: &[u8], context: &HostContext, max_output: u64) -> HostReply {
        let mut outcome = AbiResult::EMPTY;
        let borrowed = abi::BorrowedBytes::of(argument);
        // SAFETY: as the interface requires; everything lent outlives the call, and only one thread runs
        // jobs.
        let status =
            unsafe { (self.functions.run)(self.this.as_ptr(), borrowed, context, &mut outcome) };
        // SAFETY: the plugin has just filled it and has not freed it.
        let reply = unsafe { read(status, &outcome, max_output) };
        // SAFETY: everything has been copied, and it is freed once.
        unsafe { (self.functions.free_result)(&mut outcome) };
        // SAFETY: the C library's own stream lives as long as the process. Flushing makes printed lines
        // arrive before the reply. Flushing all streams would block on a thread that reads from one.
        unsafe { libc::fflush(stdout) };
        reply
    }

    /// Frees the instance.
    pub(crate) fn destroy(self) {
        // SAFETY: no run is in progress, and the instance is not used afterwards.
        unsafe { (self.functions.destroy)(self.this.as_ptr()) }
    }
}

/// # Safety
///
/// The pointers must be valid or null.
unsafe fn read(status: u32, outcome: &AbiResult, max_output: u64) -> HostReply {
    let class = match status {
        abi::OK => {
            // SAFETY: the caller's promise.
            let items = unsafe { items(outcome, max_output) };
            return items.map_or_else(
                |why| HostReply::Failed(PluginFailureClass::Other, why),
                HostReply::Done,
            );
        }
        abi::AGAIN => PluginFailureClass::Again,
        abi::FATAL => PluginFailureClass::Fatal,
        _ => PluginFailureClass::Other,
    };
    let error = Buffer { len: outcome.error.len.min(MAX_ERROR_TEXT), ..outcome.error };
    // SAFETY: the caller's promise.
    let text = match unsafe { bytes(error) } {
        Some(text) if !text.is_empty() => String::from_utf8_lossy(text).into_owned(),
        _ => "the plugin failed without an error message".to_owned(),
    };
    HostReply::Failed(class, text)
}

/// # Safety
///
/// The pointers must be valid or null.
unsafe fn items(outcome: &AbiResult, max_output: u64) -> Result<Vec<Bytes>, String> {
    let count = outcome.count;
    if !HostReply::allows_items(count) {
        return Err(format!("the plugin returned {count} items, which is too many"));
    }
    if outcome.items.is_null() || !outcome.items.is_aligned() {
        let is_empty = count == 0;
        return if is_empty { Ok(Vec::new()) } else { Err(invalid_pointer(count, "items")) };
    }
    // SAFETY: the caller's promise, and the count is bounded.
    let buffers = unsafe { slice::from_raw_parts(outcome.items, count as usize) };
    let total = buffers.iter().fold(0_u64, |total, buffer| total.saturating_add(buffer.len));
    if total > max_output {
        return Err(format!("the plugin returned {total} bytes, at most {max_output} are allowed"));
    }
    let copied = buffers.iter().map(|buffer| {
        // SAFETY: the caller's promise.
        let bytes =
            unsafe { bytes(*buffer) }.ok_or_else(|| invalid_pointer(buffer.len, "bytes"))?;
        Ok(Bytes::copy_from_slice(bytes))
    });
    copied.collect()
}

fn invalid_pointer(count: u64, what: &str) -> String {
    format!("the plugin returned an invalid pointer for {count} {what}")
}

/// # Safety
///
/// `len` bytes must be readable, or the pointer null.
unsafe fn bytes<'a>(buffer: Buffer) -> Option<&'a [u8]> {
    match (buffer.data.is_null(), buffer.len) {
        (_, 0) => Some(&[]),
        (true, _) => None,
        // SAFETY: the caller's promise.
        (false, len) => Some(unsafe { slice::from_raw_parts(buffer.data, len as usize) }),
    }
}
