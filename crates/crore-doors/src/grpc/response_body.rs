//! The response body of a call. It counts calls by their final status, which is mostly in the trailers, charges unread
//! bytes to the budget, and ends when the caller's token is revoked.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tonic::{Code, Status};

use crore_api::metrics::Metrics;
use crore_api::{AdmittedCall, BodyEnd, GuardedBody};
use crore_wire::grpc::status_name;

use super::request_body::is_client_stream;

/// Guards the response to a call, and counts the call when it ends.
pub(super) fn guard(metrics: Metrics, call: &'static str, response: Response) -> Response {
    let mut call = CountedCall { metrics, name: call, has_ended: false };
    match response.extensions().get::<Status>() {
        Some(status) => {
            call.ended(status.code());
            response
        }
        None => {
            let admitted = AdmittedCall::of(response.extensions()).cloned();
            let guarded = |body| GuardedBody::new(body, BodyEnd::Grpc, admitted);
            response.map(|body| {
                let body = match is_client_stream(call.name) {
                    // Messages that were received get their responses.
                    true => guarded(body).with_grace(),
                    false => guarded(body),
                };
                Body::new(CountedBody { body, call })
            })
        }
    }
}

/// A call in flight. If it is dropped without a status, the client has disconnected.
struct CountedCall {
    metrics: Metrics,
    name: &'static str,
    has_ended: bool,
}

impl CountedCall {
    fn ended(&mut self, code: Code) {
        if !self.has_ended {
            self.has_ended = true;
            self.metrics.called(self.name, status_name(code));
        }
    }
}

impl Drop for CountedCall {
    fn drop(&mut self) {
        self.ended(Code::Cancelled);
    }
}

/// A response body that watches for the status in the trailers.
struct CountedBody {
    body: GuardedBody,
    call: CountedCall,
}

impl http_body::Body for CountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(status) =
                frame.trailers_ref().and_then(|trailers| trailers.get("grpc-status"))
        {
            self.call.ended(Code::from_bytes(status.as_bytes()));
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
