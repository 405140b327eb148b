//! Payload of a job: its number and the time when its push began (or should have), so that the worker can compute the
//! latency.

/// Hexadecimal digits of each number.
const HEX_DIGITS: usize = 16;
/// Minimum payload size: two numbers and the longest framing of any door.
pub(super) const MIN_SIZE: usize = 48;

/// A payload with placeholders for the two numbers.
#[derive(Debug, Clone)]
pub(super) struct Template {
    bytes: Vec<u8>,
    /// Offset of the numbers.
    at: usize,
}

impl Template {
    /// A payload of `size` bytes that starts with `before` and ends with `after`.
    pub(super) fn new(before: &[u8], after: &[u8], size: usize) -> Self {
        let rest = size.saturating_sub(before.len() + 2 * HEX_DIGITS + after.len());
        let bytes = [before, &[b'0'; 2 * HEX_DIGITS], &vec![b'x'; rest], after].concat();
        Self { bytes, at: before.len() }
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Appends the payload of one job to `to`.
    pub(super) fn write(&self, number: u64, begun: u64, to: &mut Vec<u8>) {
        let start = to.len() + self.at;
        to.extend_from_slice(&self.bytes);
        let (first, second) = to[start..start + 2 * HEX_DIGITS].split_at_mut(HEX_DIGITS);
        digits(number, first);
        digits(begun, second);
    }

    /// The payload of one job as a string.
    pub(super) fn text(&self, number: u64, begun: u64) -> String {
        let mut text = Vec::with_capacity(self.bytes.len());
        self.write(number, begun, &mut text);
        // The template and the digits are ASCII.
        String::from_utf8(text).unwrap_or_default()
    }
}

fn digits(mut number: u64, to: &mut [u8]) {
    for digit in to.iter_mut().rev() {
        *digit = b"0123456789abcdef"[(number & 15) as usize];
        number >>= 4;
    }
}

/// Reads the number of a job and the start of its push; `None` if this run did not push it.
pub(super) fn read(text: &[u8]) -> Option<(u64, u64)> {
    let (first, rest) = text.split_at_checked(HEX_DIGITS)?;
    Some((number(first)?, number(rest.get(..HEX_DIGITS)?)?))
}

fn number(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0, |number, digit| {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u64::from(value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_has_the_requested_length_and_its_values_read_back() {
        let template = Template::new(b"[\"", b"\"]", 250);
        let mut bytes = b"before".to_vec();
        template.write(7, u64::MAX, &mut bytes);
        assert_eq!((bytes.len(), template.len()), (256, 250));
        assert!(bytes.starts_with(b"before[\"") && bytes.ends_with(b"xx\"]"));
        assert_eq!(read(&bytes[8..]), Some((7, u64::MAX)));
        assert_eq!(template.text(7, u64::MAX).as_bytes(), &bytes[6..]);
    }

    #[test]
    fn foreign_payloads_are_recognised() {
        for text in ["", "00", "xyz", &"x".repeat(32), &"0".repeat(31)] {
            assert_eq!(read(text.as_bytes()), None, "{text}");
        }
    }
}
