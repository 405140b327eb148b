//! Refuses a bare LF in the head of an HTTP/1 request.
//!
//! hyper accepts LF as the end of a line. A proxy in front of the server may not, and then the two disagree about where
//! a header or a request ends. The scanner follows the bytes of a connection through heads and bodies, and replaces a
//! bare LF in a head by NUL, which hyper refuses with 400.

/// Ends a head that is refused, so that hyper does not wait for the rest of it.
pub(super) const HEAD_END: &[u8] = b"\r\n\r\n";

/// Longest part of a header line that is kept: enough for the headers that frame a body.
const MAX_LINE: usize = 256;

/// Position in the bytes of a connection.
#[derive(Debug, Default)]
pub(super) struct HeadScanner {
    part: RequestPart,
    /// The current line, without what exceeds [`MAX_LINE`].
    line: Vec<u8>,
    last_byte: u8,
    framing: BodyFraming,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum RequestPart {
    /// Before the request line. Empty lines are skipped.
    #[default]
    Start,
    Headers,
    /// Bytes of the body that are left.
    Body(u64),
    /// The line with the size of a chunk.
    ChunkSize,
    /// Bytes of a chunk that are left, with its line end.
    Chunk(u64),
    Trailers,
    /// The request is refused.
    Refused,
}

#[derive(Debug, Default, Clone, Copy)]
struct BodyFraming {
    length: u64,
    is_chunked: bool,
}

impl HeadScanner {
    /// Scans the next bytes of the connection. Returns whether they are refused; then [`HEAD_END`] must follow them.
    pub(super) fn scan(&mut self, mut bytes: &mut [u8]) -> bool {
        let was_refused = self.part == RequestPart::Refused;
        while !bytes.is_empty() {
            let n = match self.part {
                RequestPart::Refused => break,
                RequestPart::Body(left) | RequestPart::Chunk(left) => self.skip(left, bytes.len()),
                _ => self.scan_line(bytes),
            };
            bytes = bytes.get_mut(n..).unwrap_or_default();
        }
        !was_refused && self.part == RequestPart::Refused
    }

    /// Skips bytes of a body.
    fn skip(&mut self, left: u64, available: usize) -> usize {
        let n = left.min(available as u64);
        self.part = match (self.part, left - n) {
            (RequestPart::Chunk(_), 0) => RequestPart::ChunkSize,
            (RequestPart::Chunk(_), left) => RequestPart::Chunk(left),
            (_, 0) => RequestPart::Start,
            (_, left) => RequestPart::Body(left),
        };
        n as usize
    }

    /// Scans up to the end of a line; returns the number of bytes.
    fn scan_line(&mut self, bytes: &mut [u8]) -> usize {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let before = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default();
        let room = MAX_LINE.saturating_sub(self.line.len()).min(before.len());
        self.line.extend_from_slice(before.get(..room).unwrap_or_default());
        self.last_byte = before.last().copied().unwrap_or(self.last_byte);
        let Some(end) = end else { return bytes.len() };
        if std::mem::take(&mut self.last_byte) != b'\r' {
            self.part = RequestPart::Refused;
            if let Some(byte) = bytes.get_mut(end) {
                *byte = 0;
            }
            return bytes.len();
        }
        self.end_line();
        end + 1
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let text = line.strip_suffix(b"\r").unwrap_or(&line);
        self.part = match self.part {
            RequestPart::Start if text.is_empty() => RequestPart::Start,
            RequestPart::Start => {
                self.framing = BodyFraming::default();
                RequestPart::Headers
            }
            RequestPart::Headers if text.is_empty() => self.framing.first_part(),
            RequestPart::Headers => {
                self.framing.read(text);
                RequestPart::Headers
            }
            RequestPart::ChunkSize => match chunk_size(text) {
                0 => RequestPart::Trailers,
                // With its line end.
                size => RequestPart::Chunk(size.saturating_add(2)),
            },
            RequestPart::Trailers if text.is_empty() => RequestPart::Start,
            part => part,
        };
        // Keeps the buffer.
        self.line = line;
        self.line.clear();
    }
}

impl BodyFraming {
    fn read(&mut self, line: &[u8]) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { return };
        let (name, value) = line.split_at(colon);
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        if name.eq_ignore_ascii_case(b"content-length") {
            let text = std::str::from_utf8(value).ok();
            self.length = text.and_then(|text| text.parse().ok()).unwrap_or(0);
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            let last = value.rsplit(|byte| *byte == b',').next().unwrap_or_default();
            self.is_chunked = last.trim_ascii().eq_ignore_ascii_case(b"chunked");
        }
    }

    /// The part that follows the head.
    const fn first_part(self) -> RequestPart {
        match self {
            Self { is_chunked: true, .. } => RequestPart::ChunkSize,
            Self { length: 0, .. } => RequestPart::Start,
            Self { length, .. } => RequestPart::Body(length),
        }
    }
}

/// The size of a chunk; extensions follow it after a `;`.
fn chunk_size(line: &[u8]) -> u64 {
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let text = std::str::from_utf8(digits).unwrap_or_default();
    u64::from_str_radix(text, 16).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether requests pass, in pieces of any size.
    fn pass(text: &str) -> bool {
        let whole = {
            let mut bytes = text.as_bytes().to_vec();
            HeadScanner::default().scan(&mut bytes);
            bytes
        };
        for size in 1..=text.len() {
            let (mut scanner, mut bytes) = (HeadScanner::default(), text.as_bytes().to_vec());
            let refused =
                bytes.chunks_mut(size).filter_map(|piece| scanner.scan(piece).then_some(()));
            let refused = refused.count();
            assert_eq!(
                (&bytes, refused),
                (&whole, usize::from(whole != text.as_bytes())),
                "{size}"
            );
        }
        whole == text.as_bytes()
    }

    #[test]
    fn lines_of_a_head_end_with_crlf() {
        for text in [
            "GET / HTTP/1.1\nhost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nhost: a\nx: y\r\n\r\n",
            "GET / HTTP/1.1\r\nhost: a\r\n\n",
            "\nGET / HTTP/1.1\r\nhost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nhost: a\r\n\r\nGET / HTTP/1.1\nhost: a\r\n\r\n",
            "POST / HTTP/1.1\r\ncontent-length: 2\r\n\r\n\n\nGET /\nx",
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\na: b\n\r\n",
        ] {
            assert!(!pass(text), "{text:?}");
        }
    }

    #[test]
    fn bodies_may_contain_any_byte() {
        for text in [
            "\r\nGET / HTTP/1.1\r\nhost: a\r\n\r\nGET / HTTP/1.1\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 4\r\n\r\n\n\nab\r\nGET / HTTP/1.1\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: gzip, Chunked\r\n\r\n3;x=y\r\n\n\n\n\r\nA\r\n0123\n56789\r\n0\r\nt: v\r\n\r\nGET / HTTP/1.1\r\n\r\n",
        ] {
            assert!(pass(text), "{text:?}");
        }
        let long = format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(10_000));
        let mut bytes = long.clone().into_bytes();
        let mut scanner = HeadScanner::default();
        scanner.scan(&mut bytes);
        assert!(bytes == long.as_bytes() && scanner.line.capacity() <= 2 * MAX_LINE);
    }
}
