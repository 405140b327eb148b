//! Fingerprints of errors: equal for errors that differ only in numbers, ids and quoted parts.

use std::fmt;
use std::str::FromStr;

use crate::job::Job;

/// How much of an error counts, in bytes.
const MAX_READ: usize = 4096;
/// Maximum length of a quoted part, in bytes.
const MAX_QUOTED: usize = 256;

/// A short hash of an error message without its variable parts. Stored and shown, so the rules never change.
///
/// Of the first 4 KiB of the message,
/// - a part in `"`, `'` or backticks, on one line, is left out;
/// - a UUID, and a hexadecimal number with a decimal digit, becomes `#`, as does each run of decimal digits in
///   another word;
/// - a run of white space becomes one space.
///
/// The fingerprint is the 64-bit FNV-1a hash of what remains, written as 16 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub u64);

impl Fingerprint {
    /// The fingerprint of an error message.
    pub fn of(error: &str) -> Self {
        Self(fnv1a(constant_part(error).as_bytes()))
    }

    /// The fingerprint of the newest error of a job.
    pub fn of_job(job: &Job) -> Option<Self> {
        job.live.newest_error().map(|error| Self::of(error))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for Fingerprint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let hex = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u64::from_str_radix(text, 16).ok().filter(|_| hex);
        number.map(Self).ok_or_else(|| "a fingerprint has 16 hexadecimal digits".to_owned())
    }
}

/// The message without its variable parts.
fn constant_part(error: &str) -> String {
    let mut rest = &error[..error.floor_char_boundary(MAX_READ)];
    let mut kept = String::with_capacity(rest.len());
    while let Some(c) = rest.chars().next() {
        let after_word = kept.ends_with(|c: char| c.is_alphanumeric() || c == '#');
        let len = if c.is_whitespace() {
            let len = rest.len() - rest.trim_start().len();
            kept.push(' ');
            len
        } else if let Some(len) = quoted_len(rest).filter(|_| !after_word) {
            kept.extend([c, c]);
            len
        } else if c.is_ascii_alphanumeric() {
            let len = word_len(rest);
            push_word(&rest[..len], &mut kept);
            len
        } else {
            kept.push(c);
            c.len_utf8()
        };
        rest = &rest[len..];
    }
    kept.trim().to_owned()
}

/// Length of the quoted part at the beginning, with its quotes. The closing quote is not inside a word, so that the
/// apostrophe of `can't` closes nothing.
fn quoted_len(rest: &str) -> Option<usize> {
    let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\'' | '`'))?;
    let inner = &rest[1..rest.floor_char_boundary(MAX_QUOTED)];
    let line = inner.split('\n').next().unwrap_or_default();
    line.match_indices(quote)
        .map(|(at, _)| at + 2)
        .find(|end| !rest[*end..].starts_with(|c: char| c.is_alphanumeric()))
}

/// Length of the word at the beginning: a UUID, or ASCII letters and digits.
fn word_len(rest: &str) -> usize {
    let len = rest.bytes().take_while(u8::is_ascii_alphanumeric).count();
    match rest.get(..UUID_LEN) {
        Some(start) if is_uuid(start) => UUID_LEN,
        _ => len,
    }
}

const UUID_LEN: usize = 36;

fn is_uuid(text: &str) -> bool {
    text.len() == UUID_LEN
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

fn push_word(word: &str, kept: &mut String) {
    let hex = word.strip_prefix("0x").unwrap_or(word);
    let has_digit = word.bytes().any(|byte| byte.is_ascii_digit());
    if is_uuid(word) || has_digit && hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        kept.push('#');
        return;
    }
    for c in word.chars() {
        match c {
            '0'..='9' if kept.ends_with('#') => {}
            '0'..='9' => kept.push('#'),
            c => kept.push(c),
        }
    }
}

/// FNV-1a with 64 bits.
fn fnv1a(bytes: &[u8]) -> u64 {
    const START: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    bytes.iter().fold(START, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn errors_that_differ_in_variable_parts_have_one_fingerprint() {
        for (a, b, kept) in [
            ("timeout after 30s", "timeout after 5s", "timeout after #s"),
            ("host 10.0.0.1:25", "host 192.168.7.12:587", "host #.#.#.#:#"),
            ("no user \"ada\"", "no user \"bob smith\"", "no user \"\""),
            ("can't open 'a.txt'", "can't open 'b c.txt'", "can't open ''"),
            ("at 0xdeadbeef", "at 0x7f00", "at #"),
            (
                "job f47ac10b-58cc-4372-a567-0e02b2c3d479 lost",
                "job abcdefab-abcd-abcd-abcd-abcdefabcdef lost",
                "job # lost",
            ),
            ("line 3:\n\tat x", "line 17: at x", "line #: at x"),
            ("sha 9f86d081884c7d65", "sha 1", "sha #"),
            ("it's `x` and `y`", "it's `1` and `zz`", "it's `` and ``"),
        ] {
            assert_eq!(constant_part(a), kept);
            assert_eq!(Fingerprint::of(a), Fingerprint::of(b), "{a}");
        }
    }

    #[test]
    fn different_errors_have_different_fingerprints() {
        let all = ["timeout", "refused", "timeout of mail", "", "it's", "it", "Timeout"];
        for (nth, a) in all.iter().enumerate() {
            assert!(all[nth + 1..].iter().all(|b| Fingerprint::of(a) != Fingerprint::of(b)), "{a}");
        }
    }

    #[test]
    fn fingerprints_never_change() {
        assert_eq!(Fingerprint::of("").to_string(), "cbf29ce484222325");
        assert_eq!(Fingerprint::of("foobar").to_string(), "85944171f73967e8");
        assert_eq!("85944171f73967e8".parse(), Ok(Fingerprint::of("foobar")));
        for bad in ["", "85944171f73967e", "+5944171f73967e8", "x5944171f73967e8"] {
            assert!(bad.parse::<Fingerprint>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_text_has_a_fingerprint(text: String, long in 0..3_usize) {
            let text = text.repeat(1 + long * 1000);
            prop_assert_eq!(Fingerprint::of(&text).to_string().parse(), Ok(Fingerprint::of(&text)));
        }

        #[test]
        fn numbers_do_not_count(a: u64, b: u64) {
            let message = |n: u64| Fingerprint::of(&format!("code {n} of mail{n}, id={n}"));
            prop_assert_eq!(message(a), message(b));
        }
    }
}
