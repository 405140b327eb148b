//! A plugin's instance: made, run, asked to stop, and freed.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::slice;

use bytes::Bytes;
use crore_plugin::abi::{self, Buffer, Outcome, Surroundings};

use crate::frame::{Answer, Class};
use crate::library::Functions;

unsafe extern "C" {
    /// Where the C library keeps its standard output.
    static stdout: *mut libc::FILE;
}

/// Bytes of an error's text that are passed on.
const MOST_TEXT: u64 = 4 << 10;

/// An instance that the plugin made.
#[derive(Debug)]
pub(crate) struct Instance {
    functions: Functions,
    this: NonNull<c_void>,
}

/// How a run is asked to stop, from another thread.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stop {
    cancel: Option<unsafe extern "C" fn(*mut c_void)>,
    this: NonNull<c_void>,
}

// SAFETY: the interface says that `cancel` is called from another thread than `run`.
unsafe impl Send for Stop {}
// SAFETY: as above; what is shared is two addresses that never change.
unsafe impl Sync for Stop {}

impl Stop {
    /// Tells the plugin. The instance has to be there still, with a run of it under way.
    pub(crate) fn tell(self) {
        if let Some(cancel) = self.cancel {
            // SAFETY: the caller's promise: the instance is freed only after its last run.
            unsafe { cancel(self.this.as_ptr()) }
        }
    }
}

impl Instance {
    /// Makes one, if the plugin can.
    pub(crate) fn create(functions: Functions, context: &Surroundings) -> Option<Self> {
        // SAFETY: as the interface has it; the context outlives the call.
        let this = unsafe { (functions.create)(context) };
        NonNull::new(this).map(|this| Self { functions, this })
    }

    /// How its runs are asked to stop.
    pub(crate) fn stop(&self) -> Stop {
        Stop { cancel: self.functions.cancel, this: self.this }
    }

    /// Runs a job, and says what came out: items of no more than `max_output` bytes together.
    pub(crate) fn run(&self, argument: &[u8], context: &Surroundings, max_output: u64) -> Answer {
        let mut outcome = Outcome::EMPTY;
        let lent = abi::Bytes::of(argument);
        // SAFETY: as the interface has it; everything that is lent outlives the call, and one thread
        // alone runs jobs.
        let word = unsafe { (self.functions.run)(self.this.as_ptr(), lent, context, &mut outcome) };
        // SAFETY: the plugin filled it just now, and has not freed it.
        let answer = unsafe { read(word, &outcome, max_output) };
        // SAFETY: everything was copied out, and it is freed once.
        unsafe { (self.functions.free_result)(&mut outcome) };
        // SAFETY: the C library's own stream, which is there as long as the process. What was printed during a run is
        // heard before its answer. Not all streams: that would wait for a thread that reads from one.
        unsafe { libc::fflush(stdout) };
        answer
    }

    /// Frees it.
    pub(crate) fn destroy(self) {
        // SAFETY: no run is under way, and it is not used any more.
        unsafe { (self.functions.destroy)(self.this.as_ptr()) }
    }
}

/// # Safety
///
/// What it points at is there, or null.
unsafe fn read(word: u32, outcome: &Outcome, max_output: u64) -> Answer {
    let class = match word {
        abi::OK => {
            // SAFETY: the caller's promise.
            let items = unsafe { items(outcome, max_output) };
            return items.map_or_else(|why| Answer::Failed(Class::Other, why), Answer::Done);
        }
        abi::AGAIN => Class::Again,
        abi::FATAL => Class::Fatal,
        _ => Class::Other,
    };
    let error = Buffer { len: outcome.error.len.min(MOST_TEXT), ..outcome.error };
    // SAFETY: the caller's promise.
    let text = match unsafe { bytes(error) } {
        Some(text) if !text.is_empty() => String::from_utf8_lossy(text).into_owned(),
        _ => "the plugin failed and did not say why".to_owned(),
    };
    Answer::Failed(class, text)
}

/// # Safety
///
/// What it points at is there, or null.
unsafe fn items(outcome: &Outcome, max_output: u64) -> Result<Vec<Bytes>, String> {
    let count = outcome.count;
    if !Answer::may_have(count) {
        return Err(format!("the plugin gave {count} items, which are too many"));
    }
    if outcome.items.is_null() || !outcome.items.is_aligned() {
        let said_none = count == 0;
        return if said_none { Ok(Vec::new()) } else { Err(none_of(count, "items")) };
    }
    // SAFETY: the caller's promise, and the count is bounded.
    let buffers = unsafe { slice::from_raw_parts(outcome.items, count as usize) };
    let total = buffers.iter().fold(0_u64, |total, buffer| total.saturating_add(buffer.len));
    if total > max_output {
        return Err(format!("the plugin gave {total} bytes, at most {max_output} are allowed"));
    }
    let copied = buffers.iter().map(|buffer| {
        // SAFETY: the caller's promise.
        let bytes = unsafe { bytes(*buffer) }.ok_or_else(|| none_of(buffer.len, "bytes"))?;
        Ok(Bytes::copy_from_slice(bytes))
    });
    copied.collect()
}

fn none_of(count: u64, what: &str) -> String {
    format!("the plugin says that it gave {count} {what}, and points at none")
}

/// # Safety
///
/// So many bytes are there, or the pointer is null.
unsafe fn bytes<'a>(buffer: Buffer) -> Option<&'a [u8]> {
    match (buffer.data.is_null(), buffer.len) {
        (_, 0) => Some(&[]),
        (true, _) => None,
        // SAFETY: the caller's promise.
        (false, len) => Some(unsafe { slice::from_raw_parts(buffer.data, len as usize) }),
    }
}
