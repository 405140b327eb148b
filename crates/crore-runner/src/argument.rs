//! Payloads that are read as an object.

use crore_core::{Encoding, Invalid};
use crore_wire::Format;
use serde::de::DeserializeOwned;

use crate::runner::{RunFailure, Task};

/// Decodes the payload as an object: MessagePack if that is its encoding, else JSON.
pub(crate) fn decode_object<T: DeserializeOwned>(task: &Task) -> Result<T, RunFailure> {
    let format = match task.payload.encoding {
        Encoding::Msgpack => Format::Msgpack,
        Encoding::Json | Encoding::Protobuf | Encoding::Text | Encoding::Bytes => Format::Json,
    };
    format.decode_at("payload", &task.payload.bytes).map_err(|invalid| invalid_payload(&invalid))
}

/// The failure for a payload that cannot be used; it is not retried.
pub(crate) fn invalid_payload(invalid: &Invalid) -> RunFailure {
    RunFailure::other(format!("{}: {}", invalid.field, invalid.message)).with("reason", "payload")
}
