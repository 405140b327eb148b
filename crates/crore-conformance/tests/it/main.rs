//! Tests of the harness: it accepts correct stores and rejects incorrect ones.

mod model;
mod plain;
mod sim;
