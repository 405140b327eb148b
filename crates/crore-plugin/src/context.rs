//! What surrounds a run, as a plugin sees it.

use std::fmt;

use crate::abi::{Bytes, Surroundings};

/// What surrounds a run: whether it is to stop, and who hears what it says meanwhile.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    host: &'a Surroundings,
}

impl fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("is_cancelled", &self.is_cancelled()).finish()
    }
}

// SAFETY: the host promises that both functions may be called from any thread while the run lasts,
// and the lifetime ends with it.
unsafe impl Send for Context<'_> {}
// SAFETY: as above.
unsafe impl Sync for Context<'_> {}

impl<'a> Context<'a> {
    /// Of what the host lends for one call.
    ///
    /// # Safety
    ///
    /// Its functions can be called with its `host` for as long as `'a`, from any thread.
    #[doc(hidden)]
    pub unsafe fn new(host: &'a Surroundings) -> Self {
        Self { host }
    }

    /// Whether the run is to stop: it was cancelled, its time is over, or crore is going down. A run
    /// that goes on for some seconds after that is killed with its process.
    pub fn is_cancelled(&self) -> bool {
        // SAFETY: the host's function and the host's pointer belong together, see `new`.
        unsafe { (self.host.is_cancelled)(self.host.host) != 0 }
    }

    /// Says a line of the job's log.
    pub fn log(&self, text: impl AsRef<str>) {
        // SAFETY: as above; the text is lent for the call alone.
        unsafe { (self.host.log)(self.host.host, Bytes::of(text.as_ref().as_bytes())) }
    }
}
