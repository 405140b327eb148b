//! One message has to be there in time; a stream may take as long as it likes.

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

/// Calls whose callers say one thing after the other.
const STREAMS: [&str; 6] = [
    "/crore.v1.Jobs/PushStream",
    "/crore.v1.Work/Stream",
    "/lakh.Lakh/Work",
    "/lakh.Lakh/Join",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];

/// The same call, which fails if its message is not there in time.
pub(super) fn hurried(call: &str, time: Span, request: Request) -> Request {
    if STREAMS.contains(&call) {
        return request;
    }
    let end = Box::pin(sleep_until(Instant::now() + time.into()));
    request.map(|body| Body::new(Hurried { body, end, time }))
}

struct Hurried {
    body: Body,
    end: Pin<Box<Sleep>>,
    time: Span,
}

impl http_body::Body for Hurried {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            return Poll::Ready(frame);
        }
        // Mostly the message is there at once, and the clock is never asked.
        std::task::ready!(self.end.as_mut().poll(context));
        let why = format!("the message did not arrive within {}", self.time);
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
    fn calls_whose_callers_stream_are_not_hurried_and_all_others_are() {
        let files = prost_types::FileDescriptorSet::decode(crore_wire::grpc::DESCRIPTORS);
        for file in
            files.expect("good descriptors").file.iter().filter(|file| file.package() == "crore.v1")
        {
            for (service, call) in file
                .service
                .iter()
                .flat_map(|service| service.method.iter().map(move |call| (service, call)))
            {
                let path = format!("/crore.v1.{}/{}", service.name(), call.name());
                assert_eq!(STREAMS.contains(&path.as_str()), call.client_streaming(), "{path}");
            }
        }
    }
}
