//! Lexer of limits: words, numbers, quoted texts and symbols.

use super::MAX_TEXT;
use super::field::is_word_byte;
use crate::code::{Code, Invalid, excerpt};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LimitToken<'a> {
    Word(&'a str),
    /// Begins like a number; the parser validates it.
    Number(&'a str),
    /// A quoted text, with its escapes resolved.
    Text(Box<str>),
    /// An operator, a bracket, or an unknown character.
    Symbol(&'a str),
    End,
}

#[derive(Debug)]
pub(super) struct Lexer<'a> {
    text: &'a str,
    /// Byte offset at which the next token is searched.
    next: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Result<Self, Invalid> {
        let lexer = Self { text, next: 0 };
        if text.len() > MAX_TEXT {
            let message = format!("{} bytes, at most {MAX_TEXT} are allowed", text.len());
            let end = text.floor_char_boundary(MAX_TEXT);
            return Err(lexer.fault(Code::LimitTooLong, end, message));
        }
        Ok(lexer)
    }

    /// An error at byte offset `at`, converted to characters.
    pub(super) fn fault(&self, code: Code, at: usize, message: impl Into<String>) -> Invalid {
        Invalid::new(code, "limit", message).at(self.text[..at].chars().count())
    }

    /// Describes the last token, which begins at byte `start`, for an error message.
    pub(super) fn found(&self, start: usize) -> String {
        match &self.text[start..self.next] {
            "" => "the end".to_owned(),
            source if source.starts_with('"') => {
                format!("the text `{}`", excerpt(source.trim_matches('"')))
            }
            source => format!("`{}`", excerpt(source)),
        }
    }

    /// The next token and its byte offset.
    pub(super) fn token(&mut self) -> Result<(usize, LimitToken<'a>), Invalid> {
        let rest = self.text[self.next..].trim_start();
        let start = self.text.len() - rest.len();
        let token = match rest.bytes().next() {
            None => self.cut(start, 0, |_| LimitToken::End),
            Some(b'"') => self.quoted(start)?,
            Some(b) if b.is_ascii_digit() || b == b'-' => {
                self.cut(start, number_len(rest), LimitToken::Number)
            }
            Some(b) if is_word_byte(b) => {
                let len = rest.bytes().take_while(|b| is_word_byte(*b)).count();
                self.cut(start, len, LimitToken::Word)
            }
            Some(_) => self.cut(start, symbol_len(rest), LimitToken::Symbol),
        };
        Ok((start, token))
    }

    fn cut(
        &mut self,
        start: usize,
        len: usize,
        make: fn(&'a str) -> LimitToken<'a>,
    ) -> LimitToken<'a> {
        self.next = start + len;
        make(&self.text[start..self.next])
    }

    fn quoted(&mut self, start: usize) -> Result<LimitToken<'a>, Invalid> {
        let (text, end) = read_quoted(self.text, start)
            .map_err(|(at, message)| self.fault(Code::LimitSyntax, at, message))?;
        self.next = end;
        Ok(LimitToken::Text(text))
    }
}

/// Reads the quoted text that begins at byte `start` with `"`. Returns the text with its escapes resolved, and the
/// byte offset after the closing quote; or the byte offset of an error, and its message.
pub(crate) fn read_quoted(
    source: &str,
    start: usize,
) -> Result<(Box<str>, usize), (usize, &'static str)> {
    let mut text = String::new();
    let mut at = start + 1;
    while let Some(c) = source[at..].chars().next() {
        at += c.len_utf8();
        match c {
            '"' => return Ok((text.into(), at)),
            '\\' => {
                let known = r#"expected an escape: `\"`, `\\`, `\n`, `\r`, `\t` or `\u{…}`"#;
                let (c, len) = unescape(&source[at..]).ok_or((at - 1, known))?;
                text.push(c);
                at += len;
            }
            c => text.push(c),
        }
    }
    Err((start, "expected a closing `\"`"))
}

/// Length of the run that begins like a number: digits, letters and points, and a sign after the `e` of an
/// exponent.
fn number_len(rest: &str) -> usize {
    let mut last = b'-';
    let run = rest.bytes().enumerate().take_while(|&(at, byte)| {
        let sign = (byte == b'-' || byte == b'+') && (at == 0 || matches!(last, b'e' | b'E'));
        last = byte;
        sign || byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'_'
    });
    run.count()
}

fn symbol_len(rest: &str) -> usize {
    if ["!=", "<=", ">="].iter().any(|symbol| rest.starts_with(symbol)) {
        return 2;
    }
    rest.chars().next().map_or(0, char::len_utf8)
}

/// The character of an escape sequence, and the length of the sequence after its backslash.
fn unescape(rest: &str) -> Option<(char, usize)> {
    let c = match rest.bytes().next()? {
        b'"' => '"',
        b'\\' => '\\',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => {
            let (digits, _) = rest[1..].strip_prefix('{')?.split_once('}')?;
            let hex = (1..=6).contains(&digits.len())
                && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
            let code = u32::from_str_radix(digits, 16).ok().filter(|_| hex)?;
            return Some((char::from_u32(code)?, digits.len() + 3));
        }
        _ => return None,
    };
    Some((c, 1))
}
