//! Collects the output of a container: the result, log lines, and the end of standard error.

use bollard::container::LogOutput;

use super::settings::ContainerSettings;
use crate::context::RunContext;
use crate::mask::Masks;
use crate::output::{LogLines, OutputLimitExceeded, OutputTail, Stderr};

/// The output so far.
pub(super) struct OutputCollector<'a> {
    settings: &'a ContainerSettings,
    masks: &'a Masks,
    result: Vec<u8>,
    out: LogLines<'a>,
    err: LogLines<'a>,
    stderr_tail: OutputTail,
}

impl<'a> OutputCollector<'a> {
    pub(super) fn new(
        settings: &'a ContainerSettings,
        masks: &'a Masks,
        context: &'a RunContext,
    ) -> Self {
        let lines = || LogLines::new(context, masks);
        let last_words = OutputTail::new(masks);
        Self {
            settings,
            masks,
            result: Vec::new(),
            out: lines(),
            err: lines(),
            stderr_tail: last_words,
        }
    }

    /// Takes a chunk of one of the streams.
    pub(super) fn take(&mut self, piece: &LogOutput) -> Result<(), OutputLimitExceeded> {
        let bytes = piece.as_ref();
        let is_err = matches!(piece, LogOutput::StdErr { .. });
        if is_err {
            self.err.take(bytes);
            self.stderr_tail.take(bytes);
        } else {
            self.out.take(bytes);
        }
        if !is_err || self.settings.stderr == Stderr::Result {
            if (self.result.len() + bytes.len()) as u64 > self.settings.max_output.0 {
                return Err(OutputLimitExceeded);
            }
            self.result.extend_from_slice(bytes);
        }
        Ok(())
    }

    /// The result, and the end of standard error.
    pub(super) fn end(self) -> (Vec<u8>, String) {
        self.out.end();
        self.err.end();
        (self.result, self.stderr_tail.text(self.masks))
    }
}
