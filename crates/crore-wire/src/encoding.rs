//! The two formats of bodies, parsed strictly.

use std::fmt;

use crore_core::code::excerpt;
use crore_core::{Code, Encoding, Invalid};
use serde::de::{DeserializeOwned, Deserializer};
use serde::{Deserialize, Serialize};

use crate::msgpack::MsgpackReader;
use crate::object::Object;

/// Maximum nesting depth of a value.
pub const MAX_DEPTH: usize = 64;

/// Maximum length of a parser's error message, in characters.
const MAX_MESSAGE_CHARS: usize = 200;

/// Format of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// JSON.
    Json,
    /// MessagePack, with maps for structures and strings for keys.
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

    /// The media type of an error response.
    pub const fn problem_type(self) -> &'static str {
        match self {
            Self::Json => "application/problem+json",
            Self::Msgpack => "application/problem+msgpack",
        }
    }

    /// The payload encoding of a value in such a body.
    pub const fn encoding(self) -> Encoding {
        match self {
            Self::Json => Encoding::Json,
            Self::Msgpack => Encoding::Msgpack,
        }
    }

    /// Parses a body, which must be an object. Errors name the field.
    pub fn decode<T: DeserializeOwned>(self, bytes: &[u8]) -> Result<T, Invalid> {
        self.decode_at("", bytes)
    }

    /// Parses the part of a body at the path `at`.
    pub fn decode_at<T: DeserializeOwned>(self, at: &str, bytes: &[u8]) -> Result<T, Invalid> {
        match self.read(bytes) {
            Ok(value) => Ok(value),
            // A second, slower pass finds the path of the error.
            Err(_) => Err(self.fault::<T>(at, bytes)),
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
                let mut reader = MsgpackReader::new(bytes);
                let Object(value) = Object::deserialize(&mut reader).map_err(|e| e.to_string())?;
                reader.end().map(|()| value).map_err(|e| e.to_string())
            }
        }
    }

    fn fault<T: DeserializeOwned>(self, at: &str, bytes: &[u8]) -> Invalid {
        let (path, message) = match self {
            Self::Json => {
                locate_error::<Object<T>, _>(&mut serde_json::Deserializer::from_slice(bytes))
            }
            Self::Msgpack => locate_error::<Object<T>, _>(&mut MsgpackReader::new(bytes)),
        };
        // An error after the end of the value has no path.
        let mut message = message.or_else(|| self.read::<T>(bytes).err()).unwrap_or_default();
        if !at.is_empty()
            && let Some(end) = message.rfind(" at line ")
        {
            // The line number is relative to the part, so it would mislead.
            message.truncate(end);
        }
        invalid(&join(at, &path), &message)
    }

    /// Serializes a body. Serialization of the API types does not fail; if it did, the body would be `null`.
    pub fn encode<T: Serialize>(self, value: &T) -> Vec<u8> {
        self.encode_sized(value, 128)
    }

    /// Like [`Self::encode`], for a body that has about this many bytes: a large one is not copied while it grows.
    pub fn encode_sized<T: Serialize>(self, value: &T, bytes: usize) -> Vec<u8> {
        let mut body = Vec::with_capacity(bytes);
        let is_written = match self {
            Self::Json => serde_json::to_writer(&mut body, value).is_ok(),
            Self::Msgpack => rmp_serde::encode::write_named(&mut body, value).is_ok(),
        };
        match self {
            _ if is_written => body,
            Self::Json => b"null".to_vec(),
            Self::Msgpack => vec![0xc0],
        }
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

/// Path and message of the first error; the message is `None` if the value itself is valid.
pub fn locate_error<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    reader: D,
) -> (String, Option<String>) {
    match serde_path_to_error::deserialize::<_, T>(reader) {
        Ok(_) => (String::new(), None),
        Err(error) => (error.path().to_string(), Some(error.into_inner().to_string())),
    }
}

/// Converts a parser's error. The field is taken from the message for a missing, unknown or duplicate field.
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
    Invalid::new(code, excerpt(&field), bounded(message))
}

fn join(outer: &str, inner: &str) -> String {
    match (outer, inner) {
        ("" | ".", inner) => inner.to_owned(),
        (outer, "" | ".") => outer.to_owned(),
        (outer, inner) => format!("{outer}.{inner}"),
    }
}

/// Truncates a message and removes control characters: it may quote the input.
fn bounded(message: &str) -> String {
    let mut short: String =
        message.chars().take(MAX_MESSAGE_CHARS).filter(|c| !c.is_control()).collect();
    if message.chars().nth(MAX_MESSAGE_CHARS).is_some() {
        short.push('…');
    }
    short
}
