//! Drop guard for calls to the store. If the caller's future is dropped, or the store fails, the call may still
//! have taken effect; the closure of the guard handles this unknown outcome, mostly by planning upkeep.

/// Calls a closure on drop, unless it was disarmed.
#[derive(Debug)]
pub(crate) struct DropGuard<F: FnMut()> {
    on_drop: F,
    is_disarmed: bool,
}

impl<F: FnMut()> DropGuard<F> {
    pub(crate) const fn new(on_drop: F) -> Self {
        Self { on_drop, is_disarmed: false }
    }

    /// Disarms the guard: the call was answered.
    pub(crate) fn disarm(mut self) {
        self.is_disarmed = true;
    }
}

impl<F: FnMut()> Drop for DropGuard<F> {
    fn drop(&mut self) {
        if !self.is_disarmed {
            (self.on_drop)();
        }
    }
}
