//! Sends printed output to the job's log line by line, at a bounded rate.

use std::io::BufRead;

use tokio::time::Instant;

use crate::context::RunContext;
use crate::mask::Masks;

/// Maximum length of a line in bytes; longer lines are cut.
const MAX_LINE: usize = 4096;

/// Burst of the rate limit in bytes.
const BURST: usize = 1 << 20;

/// Sustained rate limit in bytes per second.
const PER_SECOND: usize = 256 << 10;

/// Cost of a line in addition to its bytes.
const LINE_COST: usize = 64;

/// A rate-limited writer of log lines. It drops the excess and logs how many bytes it dropped.
pub(crate) struct LogLines<'a> {
    context: &'a RunContext,
    masks: &'a Masks,
    /// The line so far, plus as many bytes beyond the cut as a secret may have.
    line: Vec<u8>,
    /// Whether the rest of this line is dropped.
    is_cut: bool,
    /// Whether the next bytes continue a line whose beginning was dropped.
    in_dropped_line: bool,
    dropped: usize,
    budget: usize,
    refilled_at: Instant,
}

impl<'a> LogLines<'a> {
    pub(crate) fn new(context: &'a RunContext, masks: &'a Masks) -> Self {
        Self {
            context,
            masks,
            line: Vec::new(),
            is_cut: false,
            in_dropped_line: false,
            dropped: 0,
            budget: BURST,
            refilled_at: Instant::now(),
        }
    }

    /// Takes a chunk of output and logs each complete line.
    pub(crate) fn take(&mut self, mut read: &[u8]) {
        while !read.is_empty() {
            if !self.has_budget() {
                self.drop_bytes(read);
                return;
            }
            let (part, rest) = read.split_at(next_line(read));
            read = rest;
            let is_whole = part.ends_with(b"\n");
            // It may begin with the end of a secret, which the mask would not match.
            if self.in_dropped_line {
                self.drop_bytes(part);
                continue;
            }
            self.add(part.strip_suffix(b"\n").unwrap_or(part));
            if is_whole {
                self.log_line();
            }
        }
    }

    /// Logs the last line and the number of dropped bytes.
    pub(crate) fn end(mut self) {
        if !self.line.is_empty() {
            self.log_line();
        }
        self.log_dropped();
    }

    fn add(&mut self, part: &[u8]) {
        let room = (MAX_LINE + self.masks.longest()).saturating_sub(self.line.len());
        self.line.extend_from_slice(&part[..part.len().min(room)]);
        self.is_cut |= part.len() > room;
    }

    fn log_line(&mut self) {
        self.log_dropped();
        let line = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
        let mut text = self.masks.apply(&String::from_utf8_lossy(line));
        // The cut may leave the beginning of a secret, which the mask would not match.
        let spare = if self.is_cut { self.masks.longest() } else { 0 };
        let end = text.len().saturating_sub(spare).min(MAX_LINE);
        if self.is_cut || end < text.len() {
            text.truncate(text.floor_char_boundary(end));
            text.push('…');
        }
        self.budget = self.budget.saturating_sub(text.len() + LINE_COST);
        self.context.line(text);
        self.line.clear();
        self.is_cut = false;
    }

    fn log_dropped(&mut self) {
        if self.dropped > 0 {
            self.context
                .line(format!("… {} bytes dropped: output rate limit exceeded", self.dropped));
            self.dropped = 0;
        }
    }

    /// Counts the bytes without scanning them, so that a flood costs next to nothing.
    fn drop_bytes(&mut self, read: &[u8]) {
        self.dropped += self.line.len() + read.len();
        self.line.clear();
        self.is_cut = false;
        self.in_dropped_line = !read.ends_with(b"\n");
    }

    fn has_budget(&mut self) -> bool {
        if self.budget == 0 {
            let now = Instant::now();
            let millis =
                usize::try_from((now - self.refilled_at).as_millis()).unwrap_or(usize::MAX);
            let earned = millis.saturating_mul(PER_SECOND / 1000);
            // Refill in steps of a second, so that dropped bytes are reported in few lines.
            if earned < PER_SECOND {
                return false;
            }
            self.refilled_at = now;
            self.budget = earned.min(BURST);
        }
        true
    }
}

/// Length of the first line including its line ending.
fn next_line(mut bytes: &[u8]) -> usize {
    bytes.skip_until(b'\n').unwrap_or(bytes.len())
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::context::RunMessage;

    fn logged_lines(chunks: &[&[u8]], masks: &Masks) -> Vec<String> {
        let logged = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&logged);
        let context = RunContext::new(CancellationToken::new(), move |message| {
            if let RunMessage::Line(line) = message {
                sink.lock().expect("one thread").push(line);
            }
        });
        let mut lines = LogLines::new(&context, masks);
        chunks.iter().for_each(|chunk| lines.take(chunk));
        lines.end();
        drop(context);
        let logged = Arc::into_inner(logged).expect("the context was dropped");
        logged.into_inner().expect("one thread")
    }

    #[test]
    fn lines_are_logged_whole_however_they_are_split() {
        let chunks: [&[u8]; 4] = [b"a", b"b\n\nc\r", b"\nd\xff", b"e"];
        assert_eq!(logged_lines(&chunks, &Masks::default()), ["ab", "", "c", "d\u{fffd}e"]);
    }

    #[test]
    fn a_long_line_is_cut_and_the_next_is_whole_again() {
        let long = "é".repeat(3000);
        let lines = logged_lines(&[long.as_bytes(), b"\nshort\n"], &Masks::default());
        assert_eq!(lines, [format!("{}…", "é".repeat(2048)), "short".to_owned()]);
    }

    #[test]
    fn a_secret_is_masked_also_where_a_line_is_cut() {
        let mut masks = Masks::default();
        masks.add("very-secret");
        for (n, filler) in (MAX_LINE - 30..MAX_LINE + 30).enumerate() {
            let line =
                format!("{} {}very-secret and more\n", "very-secret".repeat(n), "x".repeat(filler));
            let lines = logged_lines(&[line.as_bytes()], &masks);
            assert!(lines[0].len() <= MAX_LINE + '…'.len_utf8());
            assert!(!lines[0].contains("ve"), "{n}: {}", &lines[0][MAX_LINE - 20..]);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn no_part_of_a_secret_is_logged_when_a_flood_ends_within_it() {
        let mut masks = Masks::default();
        masks.add("very-secret");
        let logged = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&logged);
        let context = RunContext::new(CancellationToken::new(), move |message| {
            if let RunMessage::Line(line) = message {
                sink.lock().expect("one thread").push(line);
            }
        });
        let mut lines = LogLines::new(&context, &masks);
        lines.take(&b"0123456789\n".repeat(100_000));
        lines.take(b"very-");
        tokio::time::advance(std::time::Duration::from_secs(2)).await;
        lines.take(b"secret\nnext\n");
        lines.end();
        let logged = logged.lock().expect("one thread");
        assert!(!logged.iter().any(|line| line.contains("secret")), "{:?}", logged.last());
        assert_eq!(logged.last().map(String::as_str), Some("next"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_is_dropped_and_reported() {
        let flood = b"0123456789\n".repeat(100_000);
        let lines = logged_lines(&[&flood, &flood], &Masks::default());
        let (last, lines) = lines.split_last().expect("some lines");
        assert!(lines.len() > 10_000 && lines.len() < 20_000, "{}", lines.len());
        assert!(lines.iter().all(|line| line == "0123456789"));
        let left_out = flood.len() * 2 - lines.len() * 11;
        assert_eq!(*last, format!("… {left_out} bytes dropped: output rate limit exceeded"));
    }
}
