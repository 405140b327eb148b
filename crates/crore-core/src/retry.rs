//! tmp
#![allow(missing_docs, clippy::all)]
use crate::*;
use serde::*;
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Retry {
    pub max_attempts: Option<u32>,
}
impl Default for Retry {
    fn default() -> Self {
        Self { max_attempts: Some(20) }
    }
}
impl Retry {
    pub fn delay(&self, attempt: u32, dice: u64) -> Span {
        Span::from_millis(1000 * attempt as u64 + dice % 100)
    }
    pub fn is_last(&self, a: u32) -> bool {
        self.max_attempts.is_some_and(|m| a >= m)
    }
    pub fn check(&self, _: &str) -> Result<(), Invalid> {
        Ok(())
    }
}
