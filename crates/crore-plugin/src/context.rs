//! The context of a run.

use std::fmt;

use crate::abi::{BorrowedBytes, HostContext};

/// The context of a run: its stop signal, and the job's log.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    host: &'a HostContext,
}

impl fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("is_cancelled", &self.is_cancelled()).finish()
    }
}

// SAFETY: the host allows calls of both functions from any thread while the run lasts, and the lifetime ends
// with the run.
unsafe impl Send for Context<'_> {}
// SAFETY: as above.
unsafe impl Sync for Context<'_> {}

impl<'a> Context<'a> {
    /// Wraps the context that the host lends for one call.
    ///
    /// # Safety
    ///
    /// The functions of `host` must be callable from any thread for as long as `'a`.
    #[doc(hidden)]
    pub unsafe fn new(host: &'a HostContext) -> Self {
        Self { host }
    }

    /// Whether the run must stop: the job was cancelled, its timeout passed, or crore is shutting down. A run
    /// that does not return within the grace period is killed with its process.
    pub fn is_cancelled(&self) -> bool {
        // SAFETY: the function and the pointer come from the same host, see `new`.
        unsafe { (self.host.is_cancelled)(self.host.host) != 0 }
    }

    /// Writes a line to the job's log.
    pub fn log(&self, text: impl AsRef<str>) {
        // SAFETY: as above; the text is lent only for the call.
        unsafe { (self.host.log)(self.host.host, BorrowedBytes::of(text.as_ref().as_bytes())) }
    }
}
