//! What comes out of a container: its result, the lines of its log, and its last words.

use bollard::container::LogOutput;

use super::settings::Settings;
use crate::context::Context;
use crate::mask::Masks;
use crate::output::{Lines, Stderr, Tail, TooMuch};

/// What has come out so far.
pub(super) struct Gather<'a> {
    settings: &'a Settings,
    masks: &'a Masks,
    result: Vec<u8>,
    out: Lines<'a>,
    err: Lines<'a>,
    last_words: Tail,
}

impl<'a> Gather<'a> {
    pub(super) fn new(settings: &'a Settings, masks: &'a Masks, context: &'a Context) -> Self {
        let lines = || Lines::new(context, masks);
        let last_words = Tail::new(masks);
        Self { settings, masks, result: Vec::new(), out: lines(), err: lines(), last_words }
    }

    /// Takes a piece of one of the streams.
    pub(super) fn take(&mut self, piece: &LogOutput) -> Result<(), TooMuch> {
        let bytes = piece.as_ref();
        let is_err = matches!(piece, LogOutput::StdErr { .. });
        if is_err {
            self.err.take(bytes);
            self.last_words.take(bytes);
        } else {
            self.out.take(bytes);
        }
        if !is_err || self.settings.stderr == Stderr::Result {
            if (self.result.len() + bytes.len()) as u64 > self.settings.max_output.0 {
                return Err(TooMuch);
            }
            self.result.extend_from_slice(bytes);
        }
        Ok(())
    }

    /// The result, and the end of the standard error.
    pub(super) fn end(self) -> (Vec<u8>, String) {
        self.out.end();
        self.err.end();
        (self.result, self.last_words.text(self.masks))
    }
}
