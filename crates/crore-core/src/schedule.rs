//! tmp
#![allow(missing_docs)]
use serde::*;
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Timing;
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Missed {
    Skip,
}
