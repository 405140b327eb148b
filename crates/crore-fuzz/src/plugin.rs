//! Frames between the host of plugins and its child process. Neither side trusts the other.
//!
//! ```text
//! input = direction u8 (even: to the child, odd: from the child), frames
//! ```

use std::io::Cursor;

use bytes::Bytes;
use crore_plugin_host::frame::{self, HEAD_BYTES, HostReply, HostRequest};

use crate::memory::MemoryBound;
use crate::properties::check_message;

/// Maximum length of a frame in this target; servers set it to the size of a payload or an output.
const MAX_FRAME: usize = 32 << 10;

/// The base covers the buffer of a frame, which is allocated before its content is read. An empty item has eight bytes
/// in a frame, and more in memory.
const MEMORY: MemoryBound = MemoryBound { base: 512 << 10, per_byte: 64 };

pub(crate) fn run(input: &[u8]) {
    let Some((direction, frames)) = input.split_first() else { return };
    MEMORY.check(input.len(), || {
        if direction % 2 == 0 {
            read(frames, HostRequest::decode, HostRequest::encode);
        } else {
            read(frames, HostReply::decode, HostReply::encode);
        }
    });
}

/// Reads frames until the end or an error. A decoded frame must be the same after encoding and decoding it again.
fn read<T, E>(frames: &[u8], decode: impl Fn(Bytes) -> Result<T, E>, encode: impl Fn(&T) -> Vec<u8>)
where
    T: PartialEq + std::fmt::Debug,
    E: std::fmt::Display,
{
    let mut frames = Cursor::new(frames);
    loop {
        let body = match frame::read(&mut frames, MAX_FRAME) {
            Ok(Some(body)) => body,
            Ok(None) => return,
            Err(error) => return check_message(&error.to_string()),
        };
        match decode(body) {
            Ok(message) => {
                let encoded = encode(&message);
                assert!(encoded.len() >= HEAD_BYTES);
                let again = decode(Bytes::from(encoded).slice(4..));
                assert!(again.is_ok_and(|again| again == message), "{message:?}");
            }
            Err(error) => check_message(&error.to_string()),
        }
    }
}
