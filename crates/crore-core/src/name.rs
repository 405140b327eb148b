//! Names of queues, kinds, workers, limits and other definitions: 1 to 255 bytes of UTF-8 without control characters.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::code::{Code, Invalid, excerpt};

/// Maximum length of a name, in bytes.
pub const MAX_NAME: usize = 255;

/// A validated name. Cloning shares the text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(Arc<str>);

impl Name {
    /// Validates `text`; errors name `field`.
    pub fn new(field: &str, text: &str) -> Result<Self, Invalid> {
        if text.is_empty() {
            return Err(Invalid::new(Code::NameEmpty, field, "a name must not be empty"));
        }
        if text.len() > MAX_NAME {
            let message = format!(
                "name `{}` has {} bytes, at most {MAX_NAME} are allowed",
                excerpt(text),
                text.len()
            );
            return Err(Invalid::new(Code::NameTooLong, field, message));
        }
        if text.chars().any(char::is_control) {
            let message = format!("name `{}` contains a control character", excerpt(text));
            return Err(Invalid::new(Code::NameControl, field, message));
        }
        Ok(Self(text.into()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Name {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Self, Invalid> {
        Self::new("name", &text)
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.as_str().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_capped() {
        let code = |text: &str| Name::new("queue", text).map_err(|e| e.code);
        assert_eq!(code(""), Err(Code::NameEmpty));
        assert!(code("a").is_ok() && code(&"q".repeat(255)).is_ok());
        assert_eq!(code(&"q".repeat(256)), Err(Code::NameTooLong));
        assert_eq!(code(&"é".repeat(128)), Err(Code::NameTooLong));
        for bad in ["a\0b", "a\r\nSET x", "\u{7f}", "\u{85}"] {
            assert_eq!(code(bad), Err(Code::NameControl), "{bad:?}");
        }
        for odd in ["../x", "a/b", "{tag}", "' OR 1=1--", "メール", "a b"] {
            assert_eq!(Name::new("queue", odd).map(|n| n.to_string()), Ok(odd.to_owned()));
        }
    }

    #[test]
    fn an_error_names_the_field() {
        let error = Name::new("jobs[3].queue", "").expect_err("empty");
        assert_eq!(error.field, "jobs[3].queue");
    }
}
