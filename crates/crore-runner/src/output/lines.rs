//! What is printed, as lines of its job's log: in time, but never more than can be kept up with.

use std::io::BufRead;

use tokio::time::Instant;

use crate::context::Context;
use crate::mask::Masks;

/// Where a line is cut, in bytes.
const MAX_LINE: usize = 4096;

/// What may be said at once, in bytes.
const BURST: usize = 1 << 20;

/// What may be said in a second after that, in bytes.
const PER_SECOND: usize = 256 << 10;

/// What a line costs beside its bytes.
const LINE_COST: usize = 64;

/// Says lines, at a bounded rate. What is too much is left out, and how much that was is said.
pub(crate) struct Lines<'a> {
    context: &'a Context,
    masks: &'a Masks,
    /// The line so far, with as much over the cut as a secret may reach.
    line: Vec<u8>,
    /// Whether the rest of this line is left out.
    is_cut: bool,
    /// Whether what comes next goes on with a line whose beginning was left out.
    is_inside: bool,
    left_out: usize,
    budget: usize,
    filled: Instant,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(context: &'a Context, masks: &'a Masks) -> Self {
        let (budget, filled) = (BURST, Instant::now());
        let (is_cut, is_inside) = (false, false);
        let (line, left_out) = (Vec::new(), 0);
        Self { context, masks, line, is_cut, is_inside, left_out, budget, filled }
    }

    /// Takes what was read, and says what is whole.
    pub(crate) fn take(&mut self, mut read: &[u8]) {
        while !read.is_empty() {
            if !self.has_budget() {
                self.leave_out(read);
                return;
            }
            let (part, rest) = read.split_at(next_line(read));
            read = rest;
            let is_whole = part.ends_with(b"\n");
            // It may begin with the end of a secret, which nothing would mask.
            if self.is_inside {
                self.leave_out(part);
                continue;
            }
            self.add(part.strip_suffix(b"\n").unwrap_or(part));
            if is_whole {
                self.say();
            }
        }
    }

    /// Says what is left at the end.
    pub(crate) fn end(mut self) {
        if !self.line.is_empty() {
            self.say();
        }
        self.say_left_out();
    }

    fn add(&mut self, part: &[u8]) {
        let room = (MAX_LINE + self.masks.longest()).saturating_sub(self.line.len());
        self.line.extend_from_slice(&part[..part.len().min(room)]);
        self.is_cut |= part.len() > room;
    }

    fn say(&mut self) {
        self.say_left_out();
        let line = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
        let mut text = self.masks.apply(&String::from_utf8_lossy(line));
        // At the cut there may be the beginning of a secret, which nothing would mask.
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

    fn say_left_out(&mut self) {
        if self.left_out > 0 {
            self.context.line(format!("… {} bytes left out: too many at once", self.left_out));
            self.left_out = 0;
        }
    }

    /// Nothing of it is looked at, so that a flood costs next to nothing.
    fn leave_out(&mut self, read: &[u8]) {
        self.left_out += self.line.len() + read.len();
        self.line.clear();
        self.is_cut = false;
        self.is_inside = !read.ends_with(b"\n");
    }

    fn has_budget(&mut self) -> bool {
        if self.budget == 0 {
            let now = Instant::now();
            let millis = usize::try_from((now - self.filled).as_millis()).unwrap_or(usize::MAX);
            let earned = millis.saturating_mul(PER_SECOND / 1000);
            // In slices, so that what is left out is said in few lines.
            if earned < PER_SECOND {
                return false;
            }
            self.filled = now;
            self.budget = earned.min(BURST);
        }
        true
    }
}

/// The bytes up to the end of the first line, with it.
fn next_line(mut bytes: &[u8]) -> usize {
    bytes.skip_until(b'\n').unwrap_or(bytes.len())
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::context::Said;

    fn said(chunks: &[&[u8]], masks: &Masks) -> Vec<String> {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let ear = Arc::clone(&heard);
        let context = Context::new(CancellationToken::new(), move |said| {
            if let Said::Line(line) = said {
                ear.lock().expect("one thread").push(line);
            }
        });
        let mut lines = Lines::new(&context, masks);
        chunks.iter().for_each(|chunk| lines.take(chunk));
        lines.end();
        drop(context);
        let heard = Arc::into_inner(heard).expect("nobody else hears");
        heard.into_inner().expect("one thread")
    }

    #[test]
    fn lines_are_said_whole_however_they_arrive() {
        let chunks: [&[u8]; 4] = [b"a", b"b\n\nc\r", b"\nd\xff", b"e"];
        assert_eq!(said(&chunks, &Masks::default()), ["ab", "", "c", "d\u{fffd}e"]);
    }

    #[test]
    fn a_long_line_is_cut_and_the_next_is_whole_again() {
        let long = "é".repeat(3000);
        let lines = said(&[long.as_bytes(), b"\nshort\n"], &Masks::default());
        assert_eq!(lines, [format!("{}…", "é".repeat(2048)), "short".to_owned()]);
    }

    #[test]
    fn a_secret_is_masked_also_where_a_line_is_cut() {
        let mut masks = Masks::default();
        masks.add("very-secret");
        for (n, filler) in (MAX_LINE - 30..MAX_LINE + 30).enumerate() {
            let line =
                format!("{} {}very-secret and more\n", "very-secret".repeat(n), "x".repeat(filler));
            let lines = said(&[line.as_bytes()], &masks);
            assert!(lines[0].len() <= MAX_LINE + '…'.len_utf8());
            assert!(!lines[0].contains("ve"), "{n}: {}", &lines[0][MAX_LINE - 20..]);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn no_part_of_a_secret_is_said_after_a_flood_that_ended_within_it() {
        let mut masks = Masks::default();
        masks.add("very-secret");
        let heard = Arc::new(Mutex::new(Vec::new()));
        let ear = Arc::clone(&heard);
        let context = Context::new(CancellationToken::new(), move |said| {
            if let Said::Line(line) = said {
                ear.lock().expect("one thread").push(line);
            }
        });
        let mut lines = Lines::new(&context, &masks);
        lines.take(&b"0123456789\n".repeat(100_000));
        lines.take(b"very-");
        tokio::time::advance(std::time::Duration::from_secs(2)).await;
        lines.take(b"secret\nnext\n");
        lines.end();
        let heard = heard.lock().expect("one thread");
        assert!(!heard.iter().any(|line| line.contains("secret")), "{:?}", heard.last());
        assert_eq!(heard.last().map(String::as_str), Some("next"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_is_left_out_and_told() {
        let flood = b"0123456789\n".repeat(100_000);
        let lines = said(&[&flood, &flood], &Masks::default());
        let (last, lines) = lines.split_last().expect("some lines");
        assert!(lines.len() > 10_000 && lines.len() < 20_000, "{}", lines.len());
        assert!(lines.iter().all(|line| line == "0123456789"));
        let left_out = flood.len() * 2 - lines.len() * 11;
        assert_eq!(*last, format!("… {left_out} bytes left out: too many at once"));
    }
}
