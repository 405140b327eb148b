//! Traces: what a job went through, in spans that a collector understands.
//!
//! A push that comes with a trace context (W3C or B3) has its job carry it, whether traces are sent anywhere or
//! not. Where they are, a job leaves four spans: its push, its wait, each run, and each report. Nothing is kept
//! between them: the ids of a job's spans follow from its number and its delivery, so a server that was started
//! anew in between, or another one, goes on with the same trace.

mod context;
mod ids;
mod options;
mod span;
mod tracer;

pub use context::{Context, headers};
pub use options::Options;
pub use span::{Kind, Span};
pub use tracer::{Spans, Tracer};

use std::sync::Arc;

use crore_core::Spec;

/// Gives a job without a trace context of its own the context of its request.
pub fn inherit(spec: &mut Spec, context: Option<&Arc<str>>) {
    if spec.trace.is_none() {
        spec.trace = context.cloned();
    }
}
