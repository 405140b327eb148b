//! One job, told to one worker.

use crore::store::SystemClock;
use crore_core::{Clock, Job};
use crore_outbound::{Outbound, Target};
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

use super::answer::{self, Answer};
use super::sign::{Secret, signatures};
use crate::lightjq::translate;
use crate::lightjq::words::{Report, WorkerJob};

/// Where below its URL a worker takes jobs.
const PATH: &str = "worker-job";
/// The delivery's number, which is the fence of its lease: growing, and never used again.
const DELIVERY: HeaderName = HeaderName::from_static("crore-delivery");
const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// Tells a worker a job, and gives what it made of it.
#[utoipa::path(
    post, path = "/worker-job", operation_id = "lightjqWorkerJob", tag = "lightjq",
    description = "A job for a push worker, posted to `worker-job` below its url. With a secret it is signed \
        as Standard Webhooks are.",
    params(
        ("crore-delivery" = String, Header, description = "The delivery, as in the body."),
        ("traceparent" = Option<String>, Header, description = "The trace that the job belongs to, as W3C says it; `b3` says it as Zipkin does."),
        ("webhook-id" = Option<String>, Header, description = "What is signed: the message."),
        ("webhook-timestamp" = Option<String>, Header, description = "What is signed: when, in seconds."),
        ("webhook-signature" = Option<String>, Header, description = "`v1,` and HMAC-SHA256 in base64."),
    ),
    request_body(content = WorkerJob, content_type = "application/msgpack"),
    responses(
        (
            status = 200, description = "It is over: with a report, or done without a result.",
            content((Report = "application/msgpack"), (Report = "application/json")),
        ),
        (status = 202, description = "It is accepted; the report comes by `/done`."),
        (status = 404, description = "The worker does not know jobs of this name; another one may."),
        (status = 503, description = "The worker is busy; another one is asked."),
    ),
)]
pub(super) async fn tell(
    outbound: &Outbound,
    worker: &Target,
    job: &Job,
    trace: HeaderMap,
    secrets: &[Secret],
) -> Answer {
    let body = translate::worker_job(job);
    let mut headers = headers(job, &body, secrets);
    headers.extend(trace);
    answer::read(outbound.post(&worker.below(PATH), headers, body.into()).await)
}

fn headers(job: &Job, body: &[u8], secrets: &[Secret]) -> HeaderMap {
    let msgpack = HeaderValue::from_static("application/msgpack");
    let either = HeaderValue::from_static("application/msgpack, application/json");
    let mut headers = HeaderMap::from_iter([(CONTENT_TYPE, msgpack), (ACCEPT, either)]);
    let delivery = job.live.delivery.0;
    headers.insert(DELIVERY, delivery.into());
    if !secrets.is_empty() {
        let timestamp = SystemClock.now().as_millis() / 1000;
        let id = format!("job_{}_{delivery}", job.id);
        let signatures = signatures(secrets, &id, timestamp, body);
        headers.insert(TIMESTAMP, timestamp.into());
        // Digits, letters and signs of base64: all of them can stand in a header.
        headers.extend(HeaderValue::try_from(id).map(|id| (ID, id)));
        headers.extend(HeaderValue::try_from(signatures).map(|value| (SIGNATURE, value)));
    }
    headers
}
