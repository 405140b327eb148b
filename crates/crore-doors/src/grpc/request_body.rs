//! The request body of a call. Unfinished messages are charged to the budget for bytes in flight. The message of a
//! unary call has a deadline; a client stream has none, and ends when the caller's token is revoked.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::extract::Request;
use bytes::Bytes;
use crore_api::budget::ByteMeter;
use crore_api::{AdmittedCall, Fault, RevocationWatch};
use crore_core::{Code, Span};
use http_body::{Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};
use tonic::Status;

use super::message_frames::MessageFrames;

/// Calls with a client stream.
const CLIENT_STREAMS: [&str; 6] = [
    "/crore.v1.Jobs/PushStream",
    "/crore.v1.Work/Stream",
    "/lakh.Lakh/Work",
    "/lakh.Lakh/Join",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];

/// Whether the client streams messages.
pub(super) fn is_client_stream(call: &str) -> bool {
    CLIENT_STREAMS.contains(&call)
}

/// Guards the body of a request. The message of a unary call has to arrive within `time`.
pub(super) fn guard(call: &str, time: Span, request: Request) -> Request {
    let admitted = AdmittedCall::of(request.extensions()).cloned();
    let meter = admitted.as_ref().map(|call| call.meter());
    let is_stream = is_client_stream(call);
    let ends_at = (!is_stream).then(|| Instant::now() + time.into());
    request.map(|body| {
        Body::new(RequestBody {
            body,
            time,
            ends_at,
            deadline: None,
            is_stream,
            frames: MessageFrames::default(),
            admitted,
            meter,
            token: StreamToken::Unwatched,
        })
    })
}

struct RequestBody {
    body: Body,
    time: Span,
    /// `None`: a stream.
    ends_at: Option<Instant>,
    /// Set while the body is incomplete.
    deadline: Option<Pin<Box<Sleep>>>,
    is_stream: bool,
    frames: MessageFrames,
    /// `None`: a call without a caller, such as a health check.
    admitted: Option<Arc<AdmittedCall>>,
    meter: Option<ByteMeter>,
    token: StreamToken,
}

enum StreamToken {
    Unwatched,
    Watched(Option<RevocationWatch>),
}

impl RequestBody {
    /// Charges the unfinished message. In a stream, a complete message is charged by the call that processes it;
    /// otherwise until the response.
    fn receive(&mut self, data: &Bytes) -> Result<(), Fault> {
        let unfinished = self.frames.advance(data);
        let bytes = if self.is_stream { unfinished } else { self.frames.received() };
        self.meter.as_mut().map_or(Ok(()), |meter| meter.set(bytes))
    }

    /// Ready if the message is late.
    fn poll_deadline(&mut self, context: &mut Context<'_>) -> Poll<Fault> {
        let Some(ends_at) = self.ends_at else { return Poll::Pending };
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep_until(ends_at)));
        let time = self.time;
        let late = || Fault::new(Code::TooSlow, format!("no message received within {time}"));
        deadline.as_mut().poll(context).map(|()| late())
    }

    /// Ready if this is a stream whose token was revoked.
    fn poll_revoked(&mut self, context: &mut Context<'_>, is_busy: bool) -> Poll<Fault> {
        let Some(admitted) = self.admitted.as_ref().filter(|_| self.is_stream) else {
            return Poll::Pending;
        };
        if let StreamToken::Unwatched = self.token {
            self.token = StreamToken::Watched(admitted.watch_token(false));
        }
        match &mut self.token {
            StreamToken::Watched(Some(token)) => token.poll(context, is_busy),
            StreamToken::Watched(None) | StreamToken::Unwatched => Poll::Pending,
        }
    }
}

impl http_body::Body for RequestBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let failed = |fault: Fault| Poll::Ready(Some(Err(axum::Error::new(Status::from(fault)))));
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(fault) = self.poll_revoked(context, polled.is_ready()) {
            return failed(fault);
        }
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(Err(fault)) = frame.data_ref().map(|data| self.receive(data)) {
                    return failed(fault);
                }
            }
            Poll::Ready(_) => {}
            // The timer is polled only while a message is incomplete.
            Poll::Pending => {
                if let Poll::Ready(fault) = self.poll_deadline(context) {
                    return failed(fault);
                }
            }
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

impl Drop for RequestBody {
    fn drop(&mut self) {
        if let (Some(admitted), Some(meter)) = (&self.admitted, self.meter.take())
            && !self.is_stream
        {
            admitted.keep_body(meter);
        }
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;

    #[test]
    fn the_table_lists_all_calls_with_a_client_stream() {
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
                assert_eq!(
                    CLIENT_STREAMS.contains(&path.as_str()),
                    call.client_streaming(),
                    "{path}"
                );
            }
        }
    }
}
