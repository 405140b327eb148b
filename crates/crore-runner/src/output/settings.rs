//! Settings for the output of commands and containers.

use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, SeqAccess, Visitor};

/// Destination of standard error.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Stderr {
    #[default]
    Log,
    /// Part of the result.
    Result,
}

/// The exit codes that count as success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Success {
    Any,
    Codes(Vec<u8>),
}

impl Success {
    pub(crate) fn has(&self, code: impl Into<i64>) -> bool {
        let code = code.into();
        match self {
            Self::Any => true,
            Self::Codes(codes) => codes.iter().any(|one| i64::from(*one) == code),
        }
    }
}

impl Default for Success {
    fn default() -> Self {
        Self::Codes(vec![0])
    }
}

impl<'de> Deserialize<'de> for Success {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SuccessVisitor)
    }
}

struct SuccessVisitor;

impl<'de> Visitor<'de> for SuccessVisitor {
    type Value = Success;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of exit codes from 0 to 255, or `any`")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Success, E> {
        if text == "any" {
            Ok(Success::Any)
        } else {
            Err(E::invalid_value(de::Unexpected::Str(text), &self))
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut codes: A) -> Result<Success, A::Error> {
        let mut all = Vec::new();
        while let Some(code) = codes.next_element()? {
            all.push(code);
        }
        if all.is_empty() {
            Err(de::Error::invalid_length(0, &self))
        } else {
            Ok(Success::Codes(all))
        }
    }
}
