//! The part of a push worker's protocol that a door implements.

use std::fmt::Debug;

use bytes::Bytes;
use crore_core::Job;
use crore_core::machine::Report;
use http::HeaderMap;

/// The protocol of a door's push workers. It only translates; the dispatcher decides.
pub trait Protocol: Debug + Send + Sync {
    /// The name under which its workers are registered. The dispatcher ignores workers of other protocols.
    fn name(&self) -> &'static str;

    /// The queue whose jobs its workers are given.
    fn queue(&self) -> &'static str;

    /// The request that carries a job.
    fn request(&self, job: &Job) -> JobRequest;

    /// The report in the body of a response with status 200. The error says what is wrong with the report, and becomes
    /// the error of the attempt.
    fn report(&self, headers: &HeaderMap, body: &Bytes) -> Result<Report, String>;
}

/// A request that carries a job to a worker. The dispatcher adds the headers with the delivery number and the
/// signatures.
#[derive(Debug, Clone)]
pub struct JobRequest {
    /// The path below the worker's URL.
    pub path: &'static str,
    /// Content type, accepted types, trace context.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}
