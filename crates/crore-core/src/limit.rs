//! tmp
#![allow(missing_docs, clippy::all)]
use crate::*;
use serde::*;
use std::sync::Arc;
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LimitKey {
    pub limit: Name,
    pub value: Option<Arc<str>>,
}
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    pub rate: Option<Rate>,
    pub concurrency: Option<u32>,
}
impl Limit {
    pub fn parse(_: &str) -> Result<Self, Invalid> {
        Ok(Self { rate: None, concurrency: None })
    }
}
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    pub count: u32,
    pub every: Span,
    pub burst: u32,
}
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tat(pub i64);
pub struct Taken {
    pub granted: u32,
    pub tat: Tat,
}
impl Rate {
    pub fn take(&self, tat: Tat, _now: Time, n: u32) -> Taken {
        Taken { granted: n, tat }
    }
    pub fn next_at(&self, _t: Tat, now: Time) -> Time {
        now
    }
}
