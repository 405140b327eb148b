//! What was asked of the store without hearing the answer: the caller left, or the store does not know.
//! It may have taken effect all the same.

/// Does something unless the answer is heard.
#[derive(Debug)]
pub(crate) struct Doubt<F: FnMut()> {
    otherwise: F,
    is_over: bool,
}

impl<F: FnMut()> Doubt<F> {
    pub(crate) const fn new(otherwise: F) -> Self {
        Self { otherwise, is_over: false }
    }

    /// The answer was heard.
    pub(crate) fn over(mut self) {
        self.is_over = true;
    }
}

impl<F: FnMut()> Drop for Doubt<F> {
    fn drop(&mut self) {
        if !self.is_over {
            (self.otherwise)();
        }
    }
}
