//! What a job carries: its number, and when its push began (or should have), so that whoever is handed it knows how long
//! that took without asking anybody.

/// Hexadecimal digits of a number.
const DIGITS: usize = 16;
/// How long a payload is at least: two numbers, and what the longest of the doors puts around them.
pub(super) const LEAST: usize = 48;

/// A payload with room for what differs.
#[derive(Debug, Clone)]
pub(super) struct Template {
    bytes: Vec<u8>,
    /// Where the numbers stand.
    at: usize,
}

impl Template {
    /// A text between these, so long that all have `size` bytes together.
    pub(super) fn new(before: &[u8], after: &[u8], size: usize) -> Self {
        let rest = size.saturating_sub(before.len() + 2 * DIGITS + after.len());
        let bytes = [before, &[b'0'; 2 * DIGITS], &vec![b'x'; rest], after].concat();
        Self { bytes, at: before.len() }
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Writes the payload of one job behind what is there.
    pub(super) fn write(&self, number: u64, begun: u64, to: &mut Vec<u8>) {
        let start = to.len() + self.at;
        to.extend_from_slice(&self.bytes);
        let (first, second) = to[start..start + 2 * DIGITS].split_at_mut(DIGITS);
        digits(number, first);
        digits(begun, second);
    }

    /// The same as a text of its own.
    pub(super) fn text(&self, number: u64, begun: u64) -> String {
        let mut text = Vec::with_capacity(self.bytes.len());
        self.write(number, begun, &mut text);
        // What it is made of is text, and so are digits.
        String::from_utf8(text).unwrap_or_default()
    }
}

fn digits(mut number: u64, to: &mut [u8]) {
    for digit in to.iter_mut().rev() {
        *digit = b"0123456789abcdef"[(number & 15) as usize];
        number >>= 4;
    }
}

/// The number of a job and when its push began, from the text that it carries. `None`: it is none of ours.
pub(super) fn read(text: &[u8]) -> Option<(u64, u64)> {
    let (first, rest) = text.split_at_checked(DIGITS)?;
    Some((number(first)?, number(rest.get(..DIGITS)?)?))
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
    fn a_payload_is_as_long_as_asked_and_says_what_was_written() {
        let template = Template::new(b"[\"", b"\"]", 250);
        let mut bytes = b"before".to_vec();
        template.write(7, u64::MAX, &mut bytes);
        assert_eq!((bytes.len(), template.len()), (256, 250));
        assert!(bytes.starts_with(b"before[\"") && bytes.ends_with(b"xx\"]"));
        assert_eq!(read(&bytes[8..]), Some((7, u64::MAX)));
        assert_eq!(template.text(7, u64::MAX).as_bytes(), &bytes[6..]);
    }

    #[test]
    fn what_is_none_of_ours_is_told_apart() {
        for text in ["", "00", "xyz", &"x".repeat(32), &"0".repeat(31)] {
            assert_eq!(read(text.as_bytes()), None, "{text}");
        }
    }
}
