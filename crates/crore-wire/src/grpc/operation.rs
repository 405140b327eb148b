//! Converts operations to messages.

use super::{enum_text, epoch_millis, v1};
use crate::api::operations::Operation;

impl From<&Operation> for v1::Operation {
    fn from(operation: &Operation) -> Self {
        Self {
            id: operation.id.clone(),
            state: enum_text(&operation.state),
            request: serde_json::to_string(&operation.request).unwrap_or_default(),
            by: operation.by.clone(),
            started_at_ms: epoch_millis(operation.started_at.0),
            ended_at_ms: operation.ended_at.map(|at| epoch_millis(at.0)),
            scanned: operation.scanned,
            matched: operation.matched,
            changed: operation.changed,
            refused: operation.refused,
            error: operation.error.clone().unwrap_or_default(),
        }
    }
}
