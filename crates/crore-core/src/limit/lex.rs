//! A limit's text as words, numbers, texts and symbols.

use super::MAX_TEXT;
use super::field::is_word_byte;
use crate::code::{Code, Invalid, excerpt};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token<'a> {
    Word(&'a str),
    /// Begins like a number; whoever expects one finds out whether it is one.
    Number(&'a str),
    /// A quoted text, with its escapes resolved.
    Text(Box<str>),
    /// An operator, a bracket, or a character that means nothing.
    Symbol(&'a str),
    End,
}

#[derive(Debug)]
pub(super) struct Lexer<'a> {
    text: &'a str,
    /// Where the next token is looked for, in bytes.
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

    /// An error that points at the character which begins at byte `at`.
    pub(super) fn fault(&self, code: Code, at: usize, message: impl Into<String>) -> Invalid {
        Invalid::new(code, "limit", message).at(self.text[..at].chars().count())
    }

    /// How to name the token that begins at byte `start` and was read last.
    pub(super) fn found(&self, start: usize) -> String {
        match &self.text[start..self.next] {
            "" => "the end".to_owned(),
            source if source.starts_with('"') => {
                format!("the text `{}`", excerpt(source.trim_matches('"')))
            }
            source => format!("`{}`", excerpt(source)),
        }
    }

    /// The next token and the byte at which it begins.
    pub(super) fn token(&mut self) -> Result<(usize, Token<'a>), Invalid> {
        let rest = self.text[self.next..].trim_start();
        let start = self.text.len() - rest.len();
        let token = match rest.bytes().next() {
            None => self.cut(start, 0, |_| Token::End),
            Some(b'"') => self.quoted(start)?,
            Some(b) if b.is_ascii_digit() || b == b'-' => {
                self.cut(start, number_len(rest), Token::Number)
            }
            Some(b) if is_word_byte(b) => {
                let len = rest.bytes().take_while(|b| is_word_byte(*b)).count();
                self.cut(start, len, Token::Word)
            }
            Some(_) => self.cut(start, symbol_len(rest), Token::Symbol),
        };
        Ok((start, token))
    }

    fn cut(&mut self, start: usize, len: usize, make: fn(&'a str) -> Token<'a>) -> Token<'a> {
        self.next = start + len;
        make(&self.text[start..self.next])
    }

    fn quoted(&mut self, start: usize) -> Result<Token<'a>, Invalid> {
        let mut text = String::new();
        let mut at = start + 1;
        while let Some(c) = self.text[at..].chars().next() {
            at += c.len_utf8();
            match c {
                '"' => {
                    self.next = at;
                    return Ok(Token::Text(text.into()));
                }
                '\\' => {
                    let (c, len) = unescape(&self.text[at..]).ok_or_else(|| {
                        let known =
                            r#"expected an escape: `\"`, `\\`, `\n`, `\r`, `\t` or `\u{…}`"#;
                        self.fault(Code::LimitSyntax, at - 1, known)
                    })?;
                    text.push(c);
                    at += len;
                }
                c => text.push(c),
            }
        }
        Err(self.fault(Code::LimitSyntax, start, "expected a `\"` that closes this text"))
    }
}

/// How long the run is that begins like a number: digits, letters and points, and a sign after the
/// `e` of an exponent.
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

/// The character that an escape stands for, and the length of the escape after its backslash.
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
