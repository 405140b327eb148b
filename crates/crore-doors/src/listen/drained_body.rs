//! A request body over HTTP/2 that is read to its end after an early response.
//!
//! If the server responds without reading the body, HTTP/2 resets the stream after the response. Some clients, such as
//! curl 7.88, then report an error of the framing layer instead of the response. So the rest of the body is read and
//! discarded, within bounds.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::runtime::Handle;
use tokio::time::timeout;

/// Maximum bytes that are discarded; then the stream is reset.
const MAX_DRAINED: usize = 16 << 20;
/// Maximum time in which they have to arrive.
const DRAIN_TIME: Duration = Duration::from_secs(5);

/// A request body.
#[derive(Debug)]
pub(super) struct DrainedBody {
    /// `None`: nothing is left to drain.
    body: Option<Incoming>,
    /// gRPC clients expect the reset, and their streams may have no end.
    is_grpc: bool,
}

impl DrainedBody {
    pub(super) fn new(body: Incoming, is_grpc: bool) -> Self {
        Self { body: Some(body), is_grpc }
    }
}

impl Body for DrainedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let polled = Pin::new(body).poll_frame(context);
        if let Poll::Ready(None | Some(Err(_))) = &polled {
            self.body = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for DrainedBody {
    fn drop(&mut self) {
        let Some(body) = self.body.take().filter(|body| !self.is_grpc && !body.is_end_stream())
        else {
            return;
        };
        if let Ok(runtime) = Handle::try_current() {
            drop(runtime.spawn(timeout(DRAIN_TIME, drain(body))));
        }
    }
}

async fn drain(mut body: Incoming) {
    let mut drained = 0;
    while drained <= MAX_DRAINED
        && let Some(Ok(frame)) = body.frame().await
    {
        drained += frame.data_ref().map_or(0, Bytes::len);
    }
}
