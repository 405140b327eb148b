//! The stored form of jobs and groups: the bytes that a record of the log holds.
//!
//! A form is a version, then bits that say which fields follow, then those fields. A field that has
//! its usual value has no bit and costs nothing. Numbers are LEB128 in as few bytes as they need,
//! signed ones zigzag before; instants stand relative to the push. What the index is rebuilt from
//! comes first, and what may be large comes last.
//!
//! Reading trusts nothing: any bytes give a value or [`Damaged`], and no count or length makes room
//! for more than its bytes can hold. What a version means never changes: a usual value that is not
//! usual any more, a new field or a new number needs a new version or a new bit, which older code
//! refuses.

mod fields;
mod group;
mod live;
mod numbers;
mod policy;
mod reader;
#[cfg(test)]
#[expect(clippy::expect_used, reason = "a test panics, and says why")]
mod sample;
mod spec;
#[cfg(test)]
#[expect(clippy::expect_used, clippy::indexing_slicing, reason = "a test panics, and says why")]
mod tests;
mod writer;

pub(crate) use group::{get_group, put_group};
pub(crate) use live::{LiveHead, get_live, peek_live, put_live};
pub(crate) use reader::Reader;
#[cfg(test)]
pub(crate) use spec::SpecHead;
pub(crate) use spec::{get_spec, get_spec_with, peek_spec, put_spec};
pub(crate) use writer::Put;

/// Bytes that no writer of this form has written, and what is wrong with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("damaged record: {0}")]
pub(crate) struct Damaged(pub(crate) &'static str);
