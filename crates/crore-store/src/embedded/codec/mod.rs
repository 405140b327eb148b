//! Encoding of jobs and groups in the records of the log.
//!
//! An encoding is a version, presence bits, and the fields whose bits are set; a field with its
//! usual value costs nothing. Numbers are LEB128 in their shortest form, signed ones zigzag
//! encoded; times are relative to the push. Fields from which the index is rebuilt come first,
//! large ones last.
//!
//! Decoding trusts nothing: any bytes give a value or [`Damaged`], and no count or length allocates
//! more than its bytes can fill. The meaning of a version never changes: a different usual value, a
//! new field or a new variant needs a new version or a new bit, which older code refuses.

mod fields;
mod group;
mod live;
mod new_job;
mod numbers;
mod policy;
mod reader;
#[cfg(test)]
#[expect(clippy::expect_used, reason = "a test may panic")]
mod sample;
mod spec;
#[cfg(test)]
#[expect(clippy::expect_used, clippy::indexing_slicing, reason = "a test may panic")]
mod tests;
mod version;
mod writer;

pub(crate) use group::{get_group, put_group};
pub(crate) use live::{LiveHead, get_live, peek_live, put_live};
pub(crate) use policy::{get_payload, put_payload};
pub(crate) use reader::ByteReader;
pub(crate) use spec::{
    SpecHead, get_costs, get_index_keys, get_spec, get_spec_with, peek_spec, put_costs,
    put_index_keys, put_spec,
};
pub(crate) use version::{get_version, put_version};
pub(crate) use writer::Put;

/// Bytes that no encoder writes, with the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("damaged record: {0}")]
pub(crate) struct Damaged(pub(crate) &'static str);
