//! The end of a stream, for the error of a failed run.

use crate::mask::Masks;

/// How much of the end of standard error a failure includes, in bytes.
const MAX_TAIL: usize = 4096;

/// The end of a stream.
#[derive(Debug, Default)]
pub(crate) struct OutputTail {
    bytes: Vec<u8>,
    /// Bytes kept before the tail: a secret may straddle the cut.
    spare: usize,
    is_cut: bool,
}

impl OutputTail {
    pub(crate) fn new(masks: &Masks) -> Self {
        Self { spare: masks.longest(), ..Self::default() }
    }

    pub(crate) fn take(&mut self, read: &[u8]) {
        let most = MAX_TAIL + self.spare;
        let skipped = read.len().saturating_sub(most);
        let read = &read[skipped..];
        self.is_cut |= skipped > 0;
        self.bytes.extend_from_slice(read);
        if self.bytes.len() > most {
            self.bytes.drain(..self.bytes.len() - most);
            self.is_cut = true;
        }
    }

    /// The tail as text with secrets masked.
    pub(crate) fn text(&self, masks: &Masks) -> String {
        let text = masks.apply(&String::from_utf8_lossy(&self.bytes));
        // The cut may leave the end of a secret, which the mask would not match.
        let from = if self.is_cut { self.spare } else { 0 };
        let from = from.max(text.len().saturating_sub(MAX_TAIL)).min(text.len());
        text[text.ceil_char_boundary(from)..].to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_is_the_last_four_kibibytes() {
        let masks = Masks::default();
        let mut tail = OutputTail::new(&masks);
        tail.take(b"first");
        assert_eq!(tail.text(&masks), "first");
        tail.take(&vec![b'x'; 100_000]);
        tail.take(b"last");
        assert_eq!(tail.text(&masks), format!("{}last", "x".repeat(4092)));
    }

    #[test]
    fn no_part_of_a_secret_remains_where_a_tail_is_cut() {
        let mut masks = Masks::default();
        masks.add("0123456789");
        for filler in 4080..4110 {
            let mut tail = OutputTail::new(&masks);
            tail.take(&vec![b'x'; 10_000]);
            tail.take(b"0123456789");
            tail.take(&vec![b'y'; filler]);
            let text = tail.text(&masks);
            assert!(!text.contains(|c: char| c.is_ascii_digit()), "{filler}: {}", &text[..20]);
        }
    }

    #[test]
    fn no_part_of_a_secret_remains_where_a_chunk_is_cut() {
        let mut masks = Masks::default();
        masks.add("0123456789");
        for odd in 0..11 {
            let mut tail = OutputTail::new(&masks);
            tail.take(format!("{}{}", "0123456789\n".repeat(1000), "y".repeat(odd)).as_bytes());
            let text = tail.text(&masks);
            assert!(!text.contains(|c: char| c.is_ascii_digit()), "{odd}: {text}");
        }
    }
}
