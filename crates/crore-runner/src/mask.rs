//! Masks secrets in output and errors: a program may print them, and a callee may return them,
//! verbatim or URL-encoded.

use crate::runner::RunFailure;
use crate::secret::SecretRef;

/// Minimum length of a masked text; shorter ones would match in nearly every log line.
const MIN_LENGTH: usize = 4;

/// The replacement for a secret.
const MASK: &str = "***";

/// Bytes that an encoded byte takes in a URL: `%20`.
const ESCAPED_LENGTH: usize = 3;

/// The texts to mask, longest first.
#[derive(Default)]
pub(crate) struct Masks(Vec<String>);

impl std::fmt::Debug for Masks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Masks({})", self.0.len())
    }
}

impl Masks {
    /// Resolves a secret. If it is a reference, its value is masked from then on.
    pub(crate) async fn look_up(&mut self, secret: &SecretRef) -> Result<String, RunFailure> {
        let value = secret.resolve_off_thread().await?;
        if secret.is_reference() {
            self.add(&value);
        }
        Ok(value)
    }

    /// Adds a secret. Each line is masked separately, because logs are read line by line.
    pub(crate) fn add(&mut self, secret: &str) {
        let lines = secret.lines().map(str::trim).filter(|line| line.len() >= MIN_LENGTH);
        self.0.extend(lines.map(str::to_owned));
        // Longest first: one secret may be part of another.
        self.0.sort_by_key(|line| std::cmp::Reverse(line.len()));
    }

    /// The text with its secrets masked.
    pub(crate) fn apply(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, secret| {
            let text = text.replace(secret, MASK);
            if text.contains(['%', '+']) { without_escaped(&text, secret) } else { text }
        })
    }

    /// The start of a text, at most `bytes` long, with its secrets masked.
    pub(crate) fn start_of(&self, text: &[u8], bytes: usize) -> String {
        // Mask before the cut: half a secret would not be found.
        let mut text = self.apply(&String::from_utf8_lossy(text));
        text.truncate(text.floor_char_boundary(bytes));
        text
    }

    /// Length of the longest secret in its longest encoding: how far one may reach beyond a cut.
    pub(crate) fn longest(&self) -> usize {
        self.0.first().map_or(0, |secret| secret.len() * ESCAPED_LENGTH)
    }
}

/// Masks a secret that is URL-encoded, whichever of its characters are escaped.
fn without_escaped(text: &str, secret: &str) -> String {
    let (mut masked, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(first) = rest.chars().next() {
        match escaped(rest.as_bytes(), secret).and_then(|end| rest.get(end..)) {
            Some(after) => {
                masked.push_str(MASK);
                rest = after;
            }
            None => {
                masked.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    masked
}

/// Length of the encoded secret at the beginning of a text, if it is there.
fn escaped(text: &[u8], secret: &str) -> Option<usize> {
    secret.bytes().try_fold(0, |at, byte| match *text.get(at..)? {
        [b'%', high, low, ..] if hex(high).zip(hex(low)) == Some((byte >> 4, byte & 15)) => {
            Some(at + ESCAPED_LENGTH)
        }
        [b'+', ..] if byte == b' ' => Some(at + 1),
        [same, ..] if same == byte => Some(at + 1),
        _ => None,
    })
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_masked_everywhere_also_line_by_line() {
        let mut masks = Masks::default();
        masks.add("hush");
        masks.add("hush hush");
        masks.add("-----BEGIN\nkey-of-mine\n\nab\n");
        assert_eq!(masks.apply("hush hush, hushed: key-of-mine ab"), "***, ***ed: *** ab");
        assert_eq!(masks.longest(), 33);
    }

    #[test]
    fn secrets_are_masked_in_percent_encoding() {
        let mut masks = Masks::default();
        masks.add("a b/ü%2F+c");
        for form in [
            "a b/ü%2F+c",
            "a+b%2F%C3%BC%252F%2Bc",
            "a%20b%2f%c3%bc%252F%2bc",
            "a%20b/%C3%BC%252F+c",
            "%61%20%62%2F%C3%BC%25%32%46%2B%63",
        ] {
            assert_eq!(masks.apply(&format!("?k={form}&ü=%C3")), "?k=***&ü=%C3", "{form}");
        }
    }

    #[test]
    fn without_secrets_a_text_is_unchanged() {
        assert_eq!(Masks::default().apply("a text"), "a text");
        let mut masks = Masks::default();
        masks.add("hush");
        for text in ["100 % of ü+", "%", "%zz%6", "%68%75%73", "hus%"] {
            assert_eq!(masks.apply(text), text);
        }
    }

    #[tokio::test]
    async fn secrets_are_masked_before_a_text_is_cut() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("token");
        std::fs::write(&file, "hush-hush").expect("written");
        let mut masks = Masks::default();
        let secret = SecretRef::new(format!("file:{}", file.display()));
        assert_eq!(masks.look_up(&secret).await.expect("it exists"), "hush-hush");
        assert_eq!(masks.look_up(&SecretRef::new("plain")).await.expect("a plain value"), "plain");
        assert_eq!(masks.start_of(b"said hush-hush, plain \xff", 64), "said ***, plain \u{fffd}");
        assert_eq!(masks.start_of(b"said hush-hush", 9), "said ***");
        assert_eq!(masks.start_of("aü".as_bytes(), 2), "a");
    }
}
