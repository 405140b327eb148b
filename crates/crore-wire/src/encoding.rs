//! The two encodings of bodies, read strictly.

use std::fmt;

use crore_core::code::excerpt;
use crore_core::{Code, Encoding, Invalid};
use serde::de::{DeserializeOwned, Deserializer};
use serde::{Deserialize, Serialize};

use crate::msgpack::Reader;
use crate::object::Object;

/// How deep a value may be nested.
pub const DEPTH: usize = 64;

/// The longest message of a reader that is passed on.
const MESSAGE: usize = 200;

/// How a body is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// JSON.
    Json,
    /// MessagePack, with maps for structures and texts for keys.
    Msgpack,
}

impl Format {
    /// The media type of a body.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Msgpack => "application/msgpack",
        }
    }

    /// The media type of a problem.
    pub const fn problem_type(self) -> &'static str {
        match self {
            Self::Json => "application/problem+json",
            Self::Msgpack => "application/problem+msgpack",
        }
    }

    /// What a payload that arrives in such a body is.
    pub const fn encoding(self) -> Encoding {
        match self {
            Self::Json => Encoding::Json,
            Self::Msgpack => Encoding::Msgpack,
        }
    }

    /// Reads a body, which is an object. An error names the field.
    pub fn decode<T: DeserializeOwned>(self, bytes: &[u8]) -> Result<T, Invalid> {
        self.decode_at("", bytes)
    }

    /// Reads a part of a body, which stands at `place`.
    pub fn decode_at<T: DeserializeOwned>(self, place: &str, bytes: &[u8]) -> Result<T, Invalid> {
        match self.read(bytes) {
            Ok(value) => Ok(value),
            // Where the mistake is, is only looked for when there is one.
            Err(_) => Err(self.fault::<T>(place, bytes)),
        }
    }

    fn read<T: DeserializeOwned>(self, bytes: &[u8]) -> Result<T, String> {
        match self {
            Self::Json => {
                let mut reader = serde_json::Deserializer::from_slice(bytes);
                let Object(value) = Object::deserialize(&mut reader).map_err(|e| e.to_string())?;
                reader.end().map(|()| value).map_err(|e| e.to_string())
            }
            Self::Msgpack => {
                let mut reader = Reader::new(bytes);
                let Object(value) = Object::deserialize(&mut reader).map_err(|e| e.to_string())?;
                reader.end().map(|()| value).map_err(|e| e.to_string())
            }
        }
    }

    fn fault<T: DeserializeOwned>(self, place: &str, bytes: &[u8]) -> Invalid {
        let (path, message) = match self {
            Self::Json => located::<Object<T>, _>(&mut serde_json::Deserializer::from_slice(bytes)),
            Self::Msgpack => located::<Object<T>, _>(&mut Reader::new(bytes)),
        };
        // What follows the value is no part of it, and has no path.
        let mut message = message.or_else(|| self.read::<T>(bytes).err()).unwrap_or_default();
        if !place.is_empty()
            && let Some(end) = message.rfind(" at line ")
        {
            // The line is that of the part, and would mislead.
            message.truncate(end);
        }
        invalid(&join(place, &path), &message)
    }

    /// Writes a body. Our own types can always be written; if one cannot, it is `null`.
    pub fn encode<T: Serialize>(self, value: &T) -> Vec<u8> {
        let written = match self {
            Self::Json => serde_json::to_vec(value).ok(),
            Self::Msgpack => rmp_serde::to_vec_named(value).ok(),
        };
        written.unwrap_or_else(|| match self {
            Self::Json => b"null".to_vec(),
            Self::Msgpack => vec![0xc0],
        })
    }

    /// The first key of a body that is an object.
    pub fn first_key(self, bytes: &[u8]) -> Option<&[u8]> {
        match self {
            Self::Json => {
                let inside = bytes.trim_ascii_start().strip_prefix(b"{")?.trim_ascii_start();
                inside.strip_prefix(b"\"")?.split(|byte| *byte == b'"').next()
            }
            Self::Msgpack => {
                let inside = match bytes.first()? {
                    0x80..=0x8f => bytes.get(1..)?,
                    0xde => bytes.get(3..)?,
                    0xdf => bytes.get(5..)?,
                    _ => return None,
                };
                match inside.first()? {
                    tag @ 0xa0..=0xbf => inside.get(1..1 + usize::from(tag & 0x1f)),
                    0xd9 => inside.get(2..2 + usize::from(*inside.get(1)?)),
                    _ => None,
                }
            }
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Json => "JSON",
            Self::Msgpack => "MessagePack",
        })
    }
}

/// Where the first mistake is and what it is; `None`: there is none up to the end of the value.
pub fn located<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    reader: D,
) -> (String, Option<String>) {
    match serde_path_to_error::deserialize::<_, T>(reader) {
        Ok(_) => (String::new(), None),
        Err(error) => (error.path().to_string(), Some(error.into_inner().to_string())),
    }
}

/// A reader's complaint as an answer. A field that is missing or not known is named by the message.
pub fn invalid(path: &str, message: &str) -> Invalid {
    let path = if path == "." { "" } else { path };
    let named = |start: &str| {
        let name = message.strip_prefix(start)?.split('`').next()?;
        let is_there = path == name || path.ends_with(&format!(".{name}"));
        Some(if is_there { path.to_owned() } else { join(path, name) })
    };
    let unknown = named("unknown field `");
    let code = if unknown.is_some() { Code::FieldUnknown } else { Code::Malformed };
    let field = unknown
        .or_else(|| named("missing field `"))
        .or_else(|| named("duplicate field `"))
        .unwrap_or_else(|| path.to_owned());
    Invalid::new(code, excerpt(&field), short(message))
}

fn join(outer: &str, inner: &str) -> String {
    match (outer, inner) {
        ("" | ".", inner) => inner.to_owned(),
        (outer, "" | ".") => outer.to_owned(),
        (outer, inner) => format!("{outer}.{inner}"),
    }
}

/// A message of bounded length without control characters: it may repeat what was sent.
fn short(message: &str) -> String {
    let mut short: String = message.chars().take(MESSAGE).filter(|c| !c.is_control()).collect();
    if message.chars().nth(MESSAGE).is_some() {
        short.push('…');
    }
    short
}
