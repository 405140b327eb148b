//! Tokens in forms, which a page of another site cannot know.
//!
//! A token is the message authentication code of the caller's session, or of its identity if it needs no session. It
//! needs no state, and is void after a restart of the server.

use crore_api::access::Error;
use ring::hmac::{self, Key};
use ring::rand::SystemRandom;

/// The key of the tokens, random for each process.
#[derive(Debug)]
pub(crate) struct CsrfKey(Key);

impl CsrfKey {
    /// A random key.
    pub(crate) fn new() -> Result<Self, Error> {
        let key = Key::generate(hmac::HMAC_SHA256, &SystemRandom::new());
        key.map(Self).map_err(|_| Error::NoRandomness)
    }

    /// The token for a caller.
    pub(crate) fn token(&self, caller: &str) -> String {
        let code = hmac::sign(&self.0, caller.as_bytes());
        code.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Whether a form of this caller has its token; takes constant time.
    pub(crate) fn is_token(&self, caller: &str, token: &str) -> bool {
        let byte = |pair: &[u8]| {
            let text = std::str::from_utf8(pair).ok()?;
            u8::from_str_radix(text, 16).ok()
        };
        let code: Option<Vec<u8>> = token.as_bytes().chunks(2).map(byte).collect();
        code.is_some_and(|code| hmac::verify(&self.0, caller.as_bytes(), &code).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_belongs_to_one_caller_and_one_process() {
        let (key, other) = (CsrfKey::new().unwrap(), CsrfKey::new().unwrap());
        let token = key.token("a");
        assert!(key.is_token("a", &token));
        assert!(!key.is_token("b", &token) && !other.is_token("a", &token));
        for bad in ["", "zz", "0", &token[1..], &format!("{token}00")] {
            assert!(!key.is_token("a", bad), "{bad}");
        }
    }
}
