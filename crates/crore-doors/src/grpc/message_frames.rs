//! Finds the boundaries of messages in a request body, without decoding them.

use bytes::Buf;

/// Bytes before each message: a flag, and the length.
const HEADER_BYTES: usize = 5;

/// Position in a sequence of messages.
#[derive(Debug, Default)]
pub(super) struct MessageFrames {
    header: [u8; HEADER_BYTES],
    /// Bytes of the current message so far, with its header.
    read: usize,
    /// Bytes of all messages so far.
    received: usize,
}

impl MessageFrames {
    /// Advances over the next piece of data; returns the bytes of the message that is unfinished after it.
    pub(super) fn advance(&mut self, mut data: &[u8]) -> usize {
        self.received = self.received.saturating_add(data.len());
        while !data.is_empty() {
            let header = self.header.get_mut(self.read..).unwrap_or_default();
            let n = header.len().min(data.len());
            if n > 0 {
                data.copy_to_slice(header.get_mut(..n).unwrap_or_default());
                self.read += n;
            }
            if self.read < HEADER_BYTES {
                break;
            }
            let n = (self.length() - self.read).min(data.len());
            data.advance(n);
            self.read += n;
            if self.read == self.length() {
                self.read = 0;
            }
        }
        self.read
    }

    /// Length of the current message with its header, once the header is read.
    fn length(&self) -> usize {
        let [_, length @ ..] = self.header;
        HEADER_BYTES.saturating_add(u32::from_be_bytes(length) as usize)
    }

    /// Bytes of all messages so far.
    pub(super) const fn received(&self) -> usize {
        self.received
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boundaries_are_found_in_pieces_of_any_size() {
        let message = |n: usize| {
            let mut bytes = vec![0];
            bytes.extend(u32::try_from(n).expect("short").to_be_bytes());
            bytes.resize(bytes.len() + n, 7);
            bytes
        };
        let all = [message(0), message(3), message(300), message(0), message(1)].concat();
        for size in 1..=all.len() {
            let mut frames = MessageFrames::default();
            for data in all.chunks(size) {
                frames.advance(data);
            }
            assert_eq!((frames.read, frames.received()), (0, all.len()), "{size}");
        }
        let mut frames = MessageFrames::default();
        assert_eq!(frames.advance(&[]), 0);
        assert_eq!(frames.advance(&all[..8]), 3, "in the header of the second message");
        assert_eq!(frames.advance(&all[8..11]), 6);
        assert_eq!(frames.advance(&all[11..20]), 7, "in the third message");
    }
}
