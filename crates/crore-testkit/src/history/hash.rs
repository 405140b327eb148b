//! Payload hashes.

use std::fmt;

use crore_core::{Encoding, Payload};
use serde::{Deserialize, Serialize};

/// The hash of a payload or a result: 64-bit FNV-1a over its encoding and its bytes. Serialized as 16 hex
/// digits, because many JSON readers cannot represent 64-bit integers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PayloadHash(pub u64);

impl PayloadHash {
    /// The hash of a payload.
    pub fn of(payload: &Payload) -> Self {
        const START: u64 = 0xcbf2_9ce4_8422_2325;
        const PRIME: u64 = 0x0000_0100_0000_01b3;
        let encoding = match payload.encoding {
            Encoding::Json => 0,
            Encoding::Msgpack => 1,
            Encoding::Protobuf => 2,
            Encoding::Text => 3,
            Encoding::Bytes => 4,
        };
        let bytes = std::iter::once(encoding).chain(payload.bytes.iter().copied());
        Self(bytes.fold(START, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME)))
    }
}

impl fmt::Display for PayloadHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for PayloadHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "h{:x}", self.0)
    }
}

impl From<PayloadHash> for String {
    fn from(hash: PayloadHash) -> Self {
        hash.to_string()
    }
}

impl TryFrom<String> for PayloadHash {
    type Error = std::num::ParseIntError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        u64::from_str_radix(&text, 16).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_encoding_both_count() {
        let text = Payload::new(Encoding::Text, *b"1");
        assert_ne!(PayloadHash::of(&text), PayloadHash::of(&Payload::json("1")));
        assert_ne!(PayloadHash::of(&text), PayloadHash::of(&Payload::new(Encoding::Text, *b"2")));
        assert_eq!(PayloadHash::of(&text), PayloadHash::of(&text.clone()));
    }
}
