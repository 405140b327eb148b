//! Payloads that say what is to be done, as an object.

use crore_core::{Encoding, Invalid};
use crore_wire::Format;
use serde::de::DeserializeOwned;

use crate::runner::{Failure, Task};

/// Reads a payload that is an object: MessagePack if it says so, else JSON, however it was pushed.
pub(crate) fn object<T: DeserializeOwned>(task: &Task) -> Result<T, Failure> {
    let format = match task.payload.encoding {
        Encoding::Msgpack => Format::Msgpack,
        Encoding::Json | Encoding::Protobuf | Encoding::Text | Encoding::Bytes => Format::Json,
    };
    format.decode_at("payload", &task.payload.bytes).map_err(|invalid| wrong(&invalid))
}

/// A payload that no run could make anything of.
pub(crate) fn wrong(invalid: &Invalid) -> Failure {
    Failure::other(format!("{}: {}", invalid.field, invalid.message)).with("reason", "payload")
}
