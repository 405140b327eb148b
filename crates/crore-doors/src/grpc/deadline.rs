//! Deadline for the message of a unary call. Client streams have none.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::extract::Request;
use bytes::Bytes;
use crore_core::{Code, Span};
use http_body::{Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};
use tonic::Status;

use crore_api::Fault;

/// Calls with a client stream.
const CLIENT_STREAMS: [&str; 6] = [
    "/crore.v1.Jobs/PushStream",
    "/crore.v1.Work/Stream",
    "/lakh.Lakh/Work",
    "/lakh.Lakh/Join",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];

/// Makes a unary call fail if its message does not arrive within `time`.
pub(super) fn with_deadline(call: &str, time: Span, request: Request) -> Request {
    if CLIENT_STREAMS.contains(&call) {
        return request;
    }
    let end = Box::pin(sleep_until(Instant::now() + time.into()));
    request.map(|body| Body::new(DeadlineBody { body, end, time }))
}

struct DeadlineBody {
    body: Body,
    end: Pin<Box<Sleep>>,
    time: Span,
}

impl http_body::Body for DeadlineBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            return Poll::Ready(frame);
        }
        // The timer is polled only while the message is incomplete.
        std::task::ready!(self.end.as_mut().poll(context));
        let why = format!("no message received within {}", self.time);
        let status = Status::from(Fault::new(Code::TooSlow, why));
        Poll::Ready(Some(Err(axum::Error::new(status))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;

    #[test]
    fn only_calls_without_a_client_stream_have_a_deadline() {
        let files = prost_types::FileDescriptorSet::decode(crore_wire::grpc::DESCRIPTORS);
        for file in files
            .expect("valid descriptors")
            .file
            .iter()
            .filter(|file| file.package() == "crore.v1")
        {
            for (service, call) in file
                .service
                .iter()
                .flat_map(|service| service.method.iter().map(move |call| (service, call)))
            {
                let path = format!("/crore.v1.{}/{}", service.name(), call.name());
                assert_eq!(
                    CLIENT_STREAMS.contains(&path.as_str()),
                    call.client_streaming(),
                    "{path}"
                );
            }
        }
    }
}
