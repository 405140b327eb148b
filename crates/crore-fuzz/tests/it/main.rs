//! Tests of this crate.

mod calls;
mod corpus;
