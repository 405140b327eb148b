//! Keeps secrets out of what is told: a program may print what it was given, and whoever is called may send
//! back what he was told, as it was or as it stands in a URL.

use crate::runner::Failure;
use crate::secret::Secret;

/// The shortest text that is masked: of shorter ones every line of a log is full.
const SHORTEST: usize = 4;

/// What is put in the place of a secret.
const MASK: &str = "***";

/// The bytes that one takes at most in a URL: `%20`.
const ESCAPED: usize = 3;

/// Texts that are told to nobody.
#[derive(Default)]
pub(crate) struct Masks(Vec<String>);

impl std::fmt::Debug for Masks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Masks({})", self.0.len())
    }
}

impl Masks {
    /// Looks a secret up, and remembers it.
    pub(crate) async fn look_up(&mut self, secret: &Secret) -> Result<String, Failure> {
        let value = secret.look_up().await?;
        if secret.is_reference() {
            self.add(&value);
        }
        Ok(value)
    }

    /// Adds a secret. One of several lines is masked line by line, as logs are read.
    pub(crate) fn add(&mut self, secret: &str) {
        let lines = secret.lines().map(str::trim).filter(|line| line.len() >= SHORTEST);
        self.0.extend(lines.map(str::to_owned));
        // The longest first: one may be part of another.
        self.0.sort_by_key(|line| std::cmp::Reverse(line.len()));
    }

    /// The text without secrets.
    pub(crate) fn apply(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, secret| {
            let text = text.replace(secret, MASK);
            if text.contains(['%', '+']) { without_escaped(&text, secret) } else { text }
        })
    }

    /// The start of a text, at most so many bytes, without secrets.
    pub(crate) fn start_of(&self, text: &[u8], bytes: usize) -> String {
        // First masked, then cut: half a secret would not be found.
        let mut text = self.apply(&String::from_utf8_lossy(text));
        text.truncate(text.floor_char_boundary(bytes));
        text
    }

    /// The bytes of the longest in its longest form, which is how far one may reach over a cut.
    pub(crate) fn longest(&self) -> usize {
        self.0.first().map_or(0, |secret| secret.len() * ESCAPED)
    }
}

/// The text without a secret that stands there as in a URL, whichever of its characters are escaped.
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

/// The bytes that a secret takes at the beginning of a text, if it stands there.
fn escaped(text: &[u8], secret: &str) -> Option<usize> {
    secret.bytes().try_fold(0, |at, byte| match *text.get(at..)? {
        [b'%', high, low, ..] if hex(high).zip(hex(low)) == Some((byte >> 4, byte & 15)) => {
            Some(at + ESCAPED)
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
    fn secrets_are_masked_wherever_they_stand_and_line_by_line() {
        let mut masks = Masks::default();
        masks.add("hush");
        masks.add("hush hush");
        masks.add("-----BEGIN\nkey-of-mine\n\nab\n");
        assert_eq!(masks.apply("hush hush, hushed: key-of-mine ab"), "***, ***ed: *** ab");
        assert_eq!(masks.longest(), 33);
    }

    #[test]
    fn secrets_are_masked_as_they_stand_in_a_url() {
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
    fn without_secrets_a_text_stays_as_it_is() {
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
        let secret = Secret::new(format!("file:{}", file.display()));
        assert_eq!(masks.look_up(&secret).await.expect("it is there"), "hush-hush");
        assert_eq!(masks.look_up(&Secret::new("plain")).await.expect("it is itself"), "plain");
        assert_eq!(masks.start_of(b"said hush-hush, plain \xff", 64), "said ***, plain \u{fffd}");
        assert_eq!(masks.start_of(b"said hush-hush", 9), "said ***");
        assert_eq!(masks.start_of("aü".as_bytes(), 2), "a");
    }
}
