//! Parses replies of scripts. An unexpected reply is corruption, never a panic.

use ::redis::Value;
use crore_store::Error;

/// A reply, or a part of one.
#[derive(Debug)]
pub(super) struct ScriptReply(pub(super) Value);

pub(super) fn corrupt(what: impl Into<String>) -> Error {
    Error::Corrupt { what: what.into() }
}

impl ScriptReply {
    /// A list; nil is an empty one.
    pub(super) fn list(self) -> Result<Vec<Self>, Error> {
        match self.0 {
            Value::Array(items) => Ok(items.into_iter().map(Self).collect()),
            Value::Nil => Ok(Vec::new()),
            other => Err(corrupt(format!("expected a list, found {}", type_name(&other)))),
        }
    }

    /// A list of exactly `N` parts. Redis truncates a list at its first `nil`, so missing parts are nil.
    pub(super) fn parts<const N: usize>(self) -> Result<[Self; N], Error> {
        let mut parts = self.list()?;
        parts.resize_with(N, || Self(Value::Nil));
        parts.try_into().map_err(|_| corrupt("a list has too many parts"))
    }

    pub(super) fn bytes(self) -> Result<Vec<u8>, Error> {
        match self.0 {
            Value::BulkString(bytes) => Ok(bytes),
            Value::SimpleString(text) => Ok(text.into_bytes()),
            other => Err(corrupt(format!("expected a text, found {}", type_name(&other)))),
        }
    }

    pub(super) fn text(self) -> Result<String, Error> {
        String::from_utf8(self.bytes()?).map_err(|_| corrupt("a text is not UTF-8"))
    }

    pub(super) fn number(self) -> Result<i64, Error> {
        match self.0 {
            Value::Int(n) => Ok(n),
            Value::BulkString(digits) => number(&digits),
            other => Err(corrupt(format!("expected a number, found {}", type_name(&other)))),
        }
    }

    pub(super) fn id(self) -> Result<u64, Error> {
        u64::try_from(self.number()?).map_err(|_| corrupt("a number is negative"))
    }

    pub(super) const fn is_nil(&self) -> bool {
        matches!(self.0, Value::Nil)
    }
}

pub(super) fn number<T: std::str::FromStr>(digits: &[u8]) -> Result<T, Error> {
    let text = str::from_utf8(digits).ok().and_then(|text| text.parse().ok());
    text.ok_or_else(|| corrupt(format!("`{}` is not a number", String::from_utf8_lossy(digits))))
}

const fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Nil => "nothing",
        Value::Int(_) => "a number",
        Value::BulkString(_) | Value::SimpleString(_) => "a text",
        Value::Array(_) => "a list",
        _ => "something else",
    }
}
