//! What a payload was, in 64 bits.

use std::fmt;

use crore_core::{Encoding, Payload};
use serde::{Deserialize, Serialize};

/// The hash of a payload or a result: 64-bit FNV-1a over its encoding and its bytes. Written as 16
/// hex digits, because most readers of JSON have no room for 64-bit numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Hash(pub u64);

impl Hash {
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

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "h{:x}", self.0)
    }
}

impl From<Hash> for String {
    fn from(hash: Hash) -> Self {
        hash.to_string()
    }
}

impl TryFrom<String> for Hash {
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
        assert_ne!(Hash::of(&text), Hash::of(&Payload::json("1")));
        assert_ne!(Hash::of(&text), Hash::of(&Payload::new(Encoding::Text, *b"2")));
        assert_eq!(Hash::of(&text), Hash::of(&text.clone()));
    }
}
