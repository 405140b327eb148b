//! Traces of jobs.
//!
//! A job stores the trace context (W3C or B3) of its push, whether traces are exported or not. If they are, a job has
//! four kinds of spans: push, wait, run and finish. No state is kept between them: span ids are derived from the job
//! id and the delivery, so a restarted or another server continues the same trace.

mod context;
mod ids;
mod options;
mod span;
mod tracer;

pub use context::{TraceContext, headers};
pub use options::Options;
pub use span::{TraceSpan, TraceSpanKind};
pub use tracer::{SpanReceiver, Tracer};

use std::sync::Arc;

use crore_core::Spec;

/// Gives a job without a trace context the context of its request.
pub fn inherit(spec: &mut Spec, context: Option<&Arc<str>>) {
    if spec.trace.is_none() {
        spec.trace = context.cloned();
    }
}
