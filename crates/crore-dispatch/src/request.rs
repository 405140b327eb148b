//! Posts one job to one worker.

use crore::store::SystemClock;
use crore_core::{Clock, Job};
use crore_outbound::{Outbound, Target};
use http::header::{HeaderMap, HeaderName, HeaderValue};

use crate::protocol::{JobRequest, Protocol};
use crate::response::{self, WorkerResponse};
use crate::signature::{SigningSecret, signatures};

/// Number of the delivery: the fencing token of its lease. It increases, and is never reused.
const DELIVERY: HeaderName = HeaderName::from_static("crore-delivery");
const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// Posts a job to a worker, and reads its response.
pub(crate) async fn post(
    protocol: &dyn Protocol,
    outbound: &Outbound,
    worker: &Target,
    job: &Job,
    secrets: &[SigningSecret],
) -> WorkerResponse {
    let JobRequest { path, mut headers, body } = protocol.request(job);
    headers.insert(DELIVERY, job.live.delivery.0.into());
    if !secrets.is_empty() {
        sign(&mut headers, job, &body, secrets);
    }
    response::read(protocol, outbound.post(&worker.join_path(path), headers, body).await)
}

fn sign(headers: &mut HeaderMap, job: &Job, body: &[u8], secrets: &[SigningSecret]) {
    let timestamp = SystemClock.now().as_millis() / 1000;
    let id = format!("job_{}_{}", job.id, job.live.delivery.0);
    let signatures = signatures(secrets, &id, timestamp, body);
    headers.insert(TIMESTAMP, timestamp.into());
    // Digits, letters and base64: all of them are valid in a header.
    headers.extend(HeaderValue::try_from(id).map(|id| (ID, id)));
    headers.extend(HeaderValue::try_from(signatures).map(|value| (SIGNATURE, value)));
}
