//! Parser of the values of a filter.

use super::parse::FilterReader;
use super::term::reason_word;
use super::term::{InstantValue, LabelMatch, PayloadValue, REASONS, TextMatch};
use super::{Fingerprint, MAX_VALUES};
use crate::code::{Code, Invalid, excerpt};
use crate::id::{GroupId, JobId};
use crate::job::{EndReason, State};
use crate::limit::{Number, NumberFault, Scalar, read_quoted};
use crate::name::{MAX_NAME, Name};
use crate::time::{Span, Time};

/// Maximum length of an instant, in bytes.
const MAX_INSTANT: usize = 40;

/// A value and where it begins.
pub(super) struct ValueToken {
    pub(super) at: usize,
    pub(super) text: Box<str>,
    pub(super) quoted: bool,
}

/// Whether a character can be part of a value without quotes.
pub(super) fn is_bare_char(c: char) -> bool {
    !(c.is_whitespace() || c.is_control() || matches!(c, ',' | '"' | '(' | ')'))
}

impl FilterReader<'_> {
    /// Values separated by commas.
    pub(super) fn list_of<T>(
        &mut self,
        one: fn(&mut Self) -> Result<T, Invalid>,
    ) -> Result<Vec<T>, Invalid> {
        let mut list = vec![one(self)?];
        while self.take(",") {
            list.push(one(self)?);
        }
        Ok(list)
    }

    fn value(&mut self, expected: &str) -> Result<ValueToken, Invalid> {
        self.value_until(expected, |_| false)
    }

    /// A value, which ends before a character that cannot be in one, or that `ends` accepts.
    fn value_until(
        &mut self,
        expected: &str,
        ends: fn(char) -> bool,
    ) -> Result<ValueToken, Invalid> {
        let at = self.at;
        if self.values == MAX_VALUES {
            let message = format!("more than {MAX_VALUES} values");
            return Err(self.fault(Code::FilterTooLong, at, message));
        }
        self.values += 1;
        if self.rest().starts_with('"') {
            let (text, end) = read_quoted(self.text, at)
                .map_err(|(at, why)| self.fault(Code::FilterSyntax, at, why))?;
            self.at = end;
            return Ok(ValueToken { at, text, quoted: true });
        }
        let end = |c: char| !is_bare_char(c) || ends(c);
        let text = self.rest().split(end).next().unwrap_or_default();
        if text.is_empty() {
            return Err(self.expected(at, expected));
        }
        self.at += text.len();
        Ok(ValueToken { at, text: text.into(), quoted: false })
    }

    pub(super) fn text(&mut self) -> Result<Box<str>, Invalid> {
        self.value("a text").map(|value| value.text)
    }

    /// A word without quotes that `read` accepts.
    fn word<T>(
        &mut self,
        expected: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, Invalid> {
        let value = self.value(expected)?;
        let read = read(&value.text).filter(|_| !value.quoted);
        read.ok_or_else(|| self.expected(value.at, expected))
    }

    pub(super) fn state(&mut self) -> Result<State, Invalid> {
        let expected = "`waiting`, `scheduled`, `ready`, `running`, `done`, `dead` or `cancelled`";
        self.word(expected, |word| State::ALL.into_iter().find(|one| one.word() == word))
    }

    pub(super) fn reason(&mut self) -> Result<EndReason, Invalid> {
        let words: Vec<_> = REASONS.iter().map(|one| format!("`{}`", reason_word(*one))).collect();
        let expected = format!("one of {}", words.join(", "));
        self.word(&expected, |word| REASONS.into_iter().find(|one| reason_word(*one) == word))
    }

    pub(super) fn name(&mut self) -> Result<TextMatch, Invalid> {
        let value = self.value("a name")?;
        Name::new(self.field, &value.text)
            .map_err(|invalid| self.fault(invalid.code, value.at, invalid.message))?;
        Ok(text_match(value))
    }

    pub(super) fn label(&mut self) -> Result<LabelMatch, Invalid> {
        let name = self.value_until("the name of a label", |c| c == '=')?.text;
        let value = if self.take("=") {
            let value = self.value("the value of a label")?;
            if value.text.len() > MAX_NAME {
                let message = format!("a value of a label has at most {MAX_NAME} bytes");
                return Err(self.fault(Code::FilterRange, value.at, message));
            }
            Some(text_match(value))
        } else {
            None
        };
        Ok(LabelMatch { name, value })
    }

    pub(super) fn job_id(&mut self) -> Result<JobId, Invalid> {
        let at = self.at;
        let number =
            self.word("an id", |word| all_digits(word).then(|| word.parse::<u64>().ok()))?;
        number.and_then(JobId::new).ok_or_else(|| {
            let found = excerpt(&self.text[at..self.at]);
            self.fault(Code::FilterRange, at, format!("`{found}` is not an id"))
        })
    }

    pub(super) fn group_id(&mut self) -> Result<GroupId, Invalid> {
        self.job_id().map(|id| GroupId(id.0))
    }

    pub(super) fn fingerprint(&mut self) -> Result<Fingerprint, Invalid> {
        let expected = "a fingerprint of 16 hexadecimal digits; to search for a text, use `error~`";
        self.word(expected, |word| word.parse().ok())
    }

    pub(super) fn payload_value(&mut self) -> Result<PayloadValue, Invalid> {
        let value = self.value("a value")?;
        let scalar = if value.quoted { None } else { bare_scalar(&value.text) };
        Ok(PayloadValue { text: value.text, scalar })
    }

    pub(super) fn number(&mut self) -> Result<Number, Invalid> {
        let value = self.value("a number")?;
        Number::parse(&value.text).map_err(|fault| match fault {
            NumberFault::Syntax => self.expected(value.at, "a number"),
            NumberFault::TooLarge => {
                let message = format!("`{}` is too large", excerpt(&value.text));
                self.fault(Code::FilterRange, value.at, message)
            }
        })
    }

    pub(super) fn whole(&mut self) -> Result<i64, Invalid> {
        let at = self.at;
        let digits = |word: &str| all_digits(word.strip_prefix('-').unwrap_or(word));
        let read = |word: &str| digits(word).then(|| word.parse::<i64>().ok());
        self.word("a whole number", read)?.ok_or_else(|| {
            let found = excerpt(&self.text[at..self.at]);
            self.fault(Code::FilterRange, at, format!("`{found}` is too large"))
        })
    }

    pub(super) fn span(&mut self) -> Result<Span, Invalid> {
        self.word("a duration such as `90s` or `1h30m`", |word| word.parse().ok())
    }

    pub(super) fn instant(&mut self) -> Result<InstantValue, Invalid> {
        let expected =
            "an instant: `2026-11-18`, `2026-11-18T08:00:00Z`, `now`, `-1h` (an hour ago) or `+1h`";
        self.word(expected, instant)
    }
}

fn text_match(value: ValueToken) -> TextMatch {
    if !value.quoted && value.text.contains('*') {
        TextMatch::Glob(value.text)
    } else {
        TextMatch::Exact(value.text)
    }
}

/// The number, boolean or null that a text without quotes means.
pub(super) fn bare_scalar(text: &str) -> Option<Scalar<Box<str>>> {
    match text {
        "null" => Some(Scalar::Null),
        "true" => Some(Scalar::Bool(true)),
        "false" => Some(Scalar::Bool(false)),
        _ => Number::parse(text).ok().map(Scalar::Number),
    }
}

fn instant(word: &str) -> Option<InstantValue> {
    if word.len() > MAX_INSTANT {
        return None;
    }
    if word == "now" {
        return Some(InstantValue::Ago(Span::ZERO));
    }
    if let Some(span) = word.strip_prefix('-') {
        return span.parse().ok().map(InstantValue::Ago);
    }
    if let Some(span) = word.strip_prefix('+') {
        let ahead = |span: Span| match span.is_zero() {
            true => InstantValue::Ago(span),
            false => InstantValue::Ahead(span),
        };
        return span.parse().ok().map(ahead);
    }
    let midnight = format!("{word}T00:00:00Z");
    let text = if word.contains('T') { word } else { &midnight };
    let instant: jiff::Timestamp = text.parse().ok()?;
    Some(InstantValue::At(Time::from_millis(instant.as_millisecond())))
}

fn all_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}
